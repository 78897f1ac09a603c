"""What a gather is refused leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rq_dlq import BrokerRefused
from rq_dlq.core.gathers import calls
from rq_dlq.core.gathers.calls import Refused
from rq_dlq.core.steps.call import Call, Sender
from rq_dlq.core.steps.step import Steps
from rq_dlq.values.key import WIDTH, lane_of
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import ids
from tests.format.old_lanes import old_lane_of


def items_of(queue: Any, *names: str, key: str | None = None) -> list[Any]:
    """Messages with these ids, as a verb gets them."""
    payload = queue._core.codec.packer(4, {}, key=key)("x")
    return [cell for name in names for cell in (name, payload)]


async def say(queue: Any, call: Callable[[Sender], Call[Any]]) -> Any:
    """Make a call of a new sender."""

    def steps() -> Steps[Any]:
        return (yield call(queue._core.client.senders.lend(queue._core.keys)))

    return await queue._broker._run(steps())


def children(then: Any, gather: Any, items: list[Any], opening: str = "") -> Callable[[Sender], Call[Any]]:
    """Send children of a gather."""
    return lambda sender: calls.send_children(
        sender, then._core.keys, id=gather.id, delay=0, ttl=0, items=items, opening=opening
    )


async def test_children_are_refused_together_each_by_its_number(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "first")) as first:
        for name in ("b", "d"):
            await first.send(render, "x", id=name)
        async with broker.gather(then=(reports, "second")) as second:
            found = await say(render, children(reports, second, items_of(render, "a", "b", "c", "d")))
            assert found == Refused([1, 3])
    assert sorted(await ids(render)) == ["b", "d"]


@pytest.mark.parametrize("backend", ["real"], indirect=True)  # fakeredis has no SHA-1
async def test_a_key_of_another_hash_is_refused(broker: Any, raw: Any) -> None:
    """Of a child and of `then`; afterwards the same ids are free."""
    render, reports = broker.queue("render"), broker.queue("reports")
    await render.open()
    right = items_of(render, "a", key="k")
    lane, wrong = (number.to_bytes(WIDTH, "big") for number in (lane_of("k"), old_lane_of("k")))
    other = [right[0], right[1].replace(lane, wrong)]
    with pytest.raises(BrokerRefused, match="is not that of its text: nothing was sent"):
        await say(reports, lambda sender: calls.open_gather(sender, within=9_000, items=other, opening=""))
    assert not raw.exists("rq:{reports}:messages", "rq:{reports}:gathers")
    async with broker.gather(then=(reports, "then")) as gather:
        with pytest.raises(BrokerRefused, match="is not that of its text: nothing was sent"):
            await say(render, children(reports, gather, other))
        assert not raw.exists("rq:{render}:messages")
        assert (await say(render, children(reports, gather, right))).births(1)
    (status,) = await broker.gathers()
    assert (status.children, await ids(render)) == (1, ["a"])


async def test_queues_that_were_deleted_are_opened_again(broker: Any, sync_broker: Any) -> None:
    """That of `then`, and that of a child: else they would be in no list of queues."""
    render, reports = broker.queue("render"), broker.queue("reports")
    for queue in (render, reports):
        await queue.open()
        sync_broker.queue(queue.name).delete(force=True)
    async with broker.gather(then=(reports, "then")) as gather:
        assert await broker.queues() == ["reports"]
        await gather.send(render, "x", id="child")
    assert await broker.queues() == ["render", "reports"]
    assert await ids(render) == ["child"]


async def test_who_does_not_know_that_a_queue_was_deleted_leaves_nothing_there(broker: Any, raw: Any) -> None:
    """The client is told so, opens the queue, and repeats the call."""
    render, reports = broker.queue("render"), broker.queue("reports")
    items = items_of(render, "a")

    def opened(sender: Sender) -> Call[Any]:
        return calls.open_gather(sender, within=9_000, items=items, opening="of before")

    assert await say(reports, opened) is None
    assert not raw.keys("rq:{reports}:*")
    async with broker.gather(then=(reports, "then")) as gather:
        assert await say(render, children(reports, gather, items, opening="of before")) is None
        assert not raw.keys("rq:{render}:*")
        await gather.send(render, "x")


async def test_who_cancels_nothing_in_a_queue_is_not_in_its_audit(broker: Any) -> None:
    """Its children are all in work."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x")
        assert len(await render.claim()) == 1
        assert await gather.cancel(by="anna") == 1
    assert [(act.did, act.number, act.queue) for act in await broker.audit()] == [("cancelled", 1, "reports")]


async def test_a_child_whose_reply_was_lost_is_new(broker: Any) -> None:
    """The repetition answers as the first call did."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        lost = await lose_replies(broker, "send_children")
        sent = await gather.send(render, "x", id="child")
    assert (lost.runs, sent.new, sent.known) == (2, True, None)
