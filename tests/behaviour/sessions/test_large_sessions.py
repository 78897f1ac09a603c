"""Sessions that send more than fits into one script: staged first, then committed all or nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable, LeaseLost
from rq_dlq.core.sessions import staging
from rq_dlq.core.steps.step import CHUNK_BYTES
from tests.behaviour.faults import (
    acked,
    change_talk,
    connections_of,
    lose_calls,
    lose_replies,
    meanwhile,
    told_of,
)
from tests.behaviour.helpers import AT_ONCE, claim_all, counts, one
from tests.conftest import Clock

BODY = bytes(CHUNK_BYTES // 2)
SENT = 5


async def large(broker: Any, *, to: str = "b") -> Any:
    """A session that has claimed a message and sends five large ones, two of them later."""
    queue, other = broker.queue("a", redelivery=AT_ONCE), broker.queue(to)
    await queue.send("x", id="m")
    session = queue.session()
    await session.claim()
    for n in range(SENT):
        await session.send(other, BODY, id=f"m{n}", delay="1h" if n > 2 else None, ttl="2h")
    return session


async def test_no_script_gets_more_than_half_a_megabyte_or_a_message(broker: Any, raw: Any) -> None:
    """And nothing is left behind."""
    session = await large(broker)
    seen = told_of(await connections_of(broker))
    assert await session.commit() == 1
    sizes = [sum(len(part) for part in command if isinstance(part, bytes)) for command in seen]
    assert max(sizes) <= CHUNK_BYTES + 2 * len(BODY)
    assert (await counts(broker.queue("a")), await counts(broker.queue("b"))) == (
        {},
        {"ready": 3, "scheduled": 2},
    )
    assert [(found.id, found.body) for found in await claim_all(broker.queue("b"))] == [
        (f"m{n}", BODY) for n in range(3)
    ]
    assert not raw.keys("rq:*stage:*")


async def test_what_is_committed_stays_until_it_is_moved(broker: Any, raw: Any, clock: Clock) -> None:
    """Whoever is to move it was cut off: maintenance does, when the time of the caller is over."""
    session = await large(broker)
    lost = await lose_calls(broker, "move_staged", 1_000)
    with suppress(BrokerUnavailable):
        await session.commit()
    assert [raw.ttl(key) for key in raw.keys("rq:*stage:*")] == [-1, -1]  # now, and in an hour
    assert raw.zcount("rq:{b}:committed", clock.now + 1, "+inf") == 2
    lost.left = 0
    clock.advance("10m")
    await broker.queue("b").maintain()
    assert await counts(broker.queue("b")) == {"ready": 3, "scheduled": 2}


async def test_what_fits_is_sent_by_the_commit_itself(broker: Any) -> None:
    """One message of any size, or several of half a megabyte."""
    queue = broker.queue("a")
    await queue.open()
    seen = told_of(await connections_of(broker))
    for bodies in ([BODY * 3], [bytes(100)] * 100):
        async with queue.session() as session:
            for body in bodies:
                await session.send(queue, body)
    assert not [command for command in seen if command[0] == b"RPUSH"]
    assert await counts(queue) == {"ready": 101}


@pytest.mark.parametrize("times", [1, 3])
async def test_it_is_one_commit(times: int, broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """Repeated by the client or by its user, though its messages were moved and acked meanwhile."""
    session, taken = await large(broker), list[str]()
    lost = await lose_replies(broker, "commit", times)

    def take() -> None:
        sync_broker.queue("b").maintain()
        taken.extend(acked(sync_broker.queue("b")))

    meanwhile(lost, take)
    if times == 3:
        with pytest.raises(BrokerUnavailable) as failed:
            await session.commit()
        assert failed.value.indeterminate
    assert await session.commit() == 1
    taken += [found.id for found in await claim_all(broker.queue("b"))]
    assert sorted(taken) == ["m0", "m1", "m2"]
    assert (await counts(broker.queue("a"))) == {}


async def test_what_its_client_does_not_move_maintenance_does(broker: Any, clock: Clock) -> None:
    """It is committed: the message is acked, and the session says so."""
    session = await large(broker)
    await lose_calls(broker, "move_staged", times=3)
    assert await session.commit() == 1
    assert await counts(broker.queue("b")) == {}
    clock.advance("10s")
    await broker.queue("b").maintain()
    assert await counts(broker.queue("b")) == {"ready": 3, "scheduled": 2}


async def test_a_lost_lease_sends_nothing(broker: Any, clock: Clock, raw: Any) -> None:
    """What was staged goes by itself."""
    session = await large(broker)
    clock.advance("1m")
    (other,) = await broker.queue("a").claim()
    with pytest.raises(LeaseLost):
        await session.commit()
    assert await counts(broker.queue("b")) == {}
    assert all(0 < raw.pttl(key) <= staging.WAITS for key in raw.keys("rq:*stage:*"))
    assert await other.ack()


async def test_what_was_staged_is_gone(broker: Any, raw: Any) -> None:
    """The commit was lost, and made again after a long time: nothing was done, and another one does it."""
    session = await large(broker)
    await lose_calls(broker, "commit", times=3)
    with pytest.raises(BrokerUnavailable):
        await session.commit()
    for key in raw.keys("rq:*stage:*"):
        raw.delete(key)
    with pytest.raises(BrokerRefused, match="its staged messages are gone"):
        await session.commit()
    assert (await counts(broker.queue("a")), await counts(broker.queue("b"))) == ({"leased": 1}, {})
    assert await session.commit() == 1
    assert await counts(broker.queue("b")) == {"ready": 3, "scheduled": 2}


async def test_a_server_that_cannot_be_reached_has_committed_nothing(broker: Any) -> None:
    """While it is staged: the outcome is known."""
    session = await large(broker)
    left = [3]

    def unreachable(commands: list[Any]) -> list[Any]:
        if left[0] and any(command[0] == b"RPUSH" for command in commands):
            left[0] -= 1
            raise redis.ConnectionError("the network failed")
        return commands

    await change_talk(broker, unreachable, lambda replies: replies)
    with pytest.raises(BrokerUnavailable) as failed:
        await session.commit()
    assert not failed.value.indeterminate
    await session.rollback()
    assert (await counts(broker.queue("b"))) == {}
    assert (await one(broker.queue("a"))).id == "m"
