"""A send under a known id that can change nothing leaves the message as it is, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import InvalidInput, Message, QueueFull
from rq_dlq.values.failure import moment
from tests.behaviour.helpers import AT_ONCE, bury
from tests.conftest import Clock
from tests.tables import each_row_afresh

RECORDS, READY = "rq:{a}:messages", "rq:{a}:ready"
LONG = "x" * 3_000


async def test_a_full_queue_refuses_what_is_new(broker: Any) -> None:
    """What it has is replaced: that takes no room."""
    queue = broker.queue("a", max_length=1)
    await queue.send("x", id="m")
    with pytest.raises(QueueFull):
        await queue.send_many([Message("y", id="m"), Message("y", id="n")], on_duplicate="replace")
    assert [message.body for message in await queue.peek(9)] == ["x"], "nothing was sent, nor changed"
    assert (await queue.send("y", id="m", on_duplicate="replace")).did == "replaced"


async def test_an_end_that_has_passed_is_refused(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    with pytest.raises(InvalidInput, match="has passed"):
        await queue.send("y", id="m", on_duplicate="replace", expires_at=moment(clock.now))
    assert [message.body for message in await queue.peek()] == ["x"]


@each_row_afresh("mode", ["replace", "redrive"])
async def test_a_damaged_record_is_not_mended_by_a_send(mode: str, broker: Any, raw: Any) -> None:
    """The state of a long message has the head of its record, so it is still found."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    if mode == "replace":
        await queue.send(LONG, id="m")
    else:
        await bury(queue, [Message(LONG, id="m")])
    raw.hset(RECORDS, "m", b"short")
    sent = await queue.send("y", id="m", on_duplicate=mode)
    assert (sent.new, sent.known, sent.did) == (False, "ready" if mode == "replace" else "dead", None)
    assert raw.hget(RECORDS, "m") == b"short"


async def test_one_that_is_in_no_index_is_left_to_maintenance(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    ((row, score),) = raw.zrange(READY, 0, -1, withscores=True)
    record = raw.hget(RECORDS, "m")
    raw.delete(READY)
    sent = await queue.send("y", id="m", on_duplicate="replace", priority=9)
    assert (sent.new, sent.known, sent.did) == (False, "ready", None)
    assert (raw.hget(RECORDS, "m"), raw.exists(READY)) == (record, 0)
    raw.zadd(READY, {row: score})
