"""A call whose reply was lost is repeated, and changes nothing more (I12)."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import BrokerUnavailable, LeaseLost
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import AT_ONCE, after, bring_to, bury, counts, ids, one
from tests.conftest import Clock


async def test_send_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    lost = await lose_replies(broker, "send")
    sent = await queue.send_many(range(600))
    assert lost.runs == 2
    assert (await queue.stats()).totals["sent"] == 600
    assert await ids(queue) == sent


async def test_claim_gives_the_same_deliveries(broker: Any) -> None:
    """I12: neither more are leased than the client knows, nor are they counted twice."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    lost = await lose_replies(broker, "claim")
    claimed = await queue.claim(2)
    assert lost.runs == 2
    assert [(delivery.body, delivery.delivery_count) for delivery in claimed] == [(0, 1), (1, 1)]
    assert await counts(queue) == {"ready": 8, "leased": 2}


async def test_claim_of_unknown_outcome_is_taken_up_by_the_next(broker: Any) -> None:
    """I12: its messages are not stranded until they lapse."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    await lose_replies(broker, "claim", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.claim(2)
    assert await counts(queue) == {"ready": 8, "leased": 2}
    claimed = await queue.claim(2)
    assert [(delivery.body, delivery.delivery_count) for delivery in claimed] == [(0, 1), (1, 1)]
    assert [delivery.body for delivery in await queue.claim(2)] == [2, 3]


async def test_a_claim_taken_up_late_has_a_whole_lease(broker: Any, clock: Clock) -> None:
    """The client believes in a lease from now on, so the server must, too."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="10s")
    await queue.send("x")
    await lose_replies(broker, "claim", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.claim()
    clock.advance("9s")
    delivery = await one(queue)
    clock.advance("9s")
    assert await queue.claim() == []
    await delivery.ack()


async def test_ack_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "ack")
    settlement = await delivery.ack()
    assert (lost.runs, bool(settlement), settlement.outcome) == (2, True, "settled")
    assert (await queue.stats()).totals["acked"] == 1


async def test_nack_once(broker: Any) -> None:
    """I12: charged once."""
    queue = broker.queue("a", redelivery=after("5s", most=1))
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "nack")
    assert await delivery.nack("boom")
    assert lost.runs == 2
    (waiting,) = await queue.claim() or [None]
    assert waiting is None
    assert await counts(queue) == {"scheduled": 1}
    assert (await queue.stats()).totals["nacked"] == 1


async def test_nack_once_with_death(broker: Any) -> None:
    """I12, I6: one dead letter with one failure."""
    queue = broker.queue("a", redelivery=after("5s", most=0))
    await queue.send("x")
    delivery = await one(queue)
    await lose_replies(broker, "nack")
    assert await delivery.nack("boom")
    (letter,) = await queue.dlq.browse()
    assert (letter.nacked, len(letter.history)) == (1, 1)


async def test_poison_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "poison")
    assert await delivery.poison("bad")
    (letter,) = await queue.dlq.browse()
    assert (lost.runs, len(letter.history)) == (2, 1)


async def test_release_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue)
    lost = await lose_replies(broker, "release")
    assert await delivery.release()
    again = await one(queue)
    assert (lost.runs, again.released, again.delivery_count) == (2, 1, 2)


async def test_extend_once(broker: Any, clock: Clock) -> None:
    """I12."""
    queue = broker.queue("a")
    await queue.send("x")
    delivery = await one(queue, lease="1s")
    lost = await lose_replies(broker, "extend")
    deadline = await delivery.extend("1m")
    assert (lost.runs, deadline.timestamp() * 1000) == (2, clock.now + 60_000)
    clock.advance("59s")
    assert await delivery.ack()


async def test_redrive_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    await bury(queue, range(10))
    lost = await lose_replies(broker, "redrive")
    await queue.dlq.redrive()
    assert lost.runs >= 2
    claimed = await queue.claim(100)
    assert [(delivery.body, delivery.redriven) for delivery in claimed] == [(n, 1) for n in range(10)]


async def test_redrive_of_ids_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    dead = await bury(queue, range(10))
    await lose_replies(broker, "redrive")
    await queue.dlq.redrive(ids=dead[:3])
    assert await counts(queue) == {"ready": 3, "dead": 7}


async def test_purge_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    dead = await bury(queue, range(10))
    await lose_replies(broker, "purge")
    await queue.dlq.purge(ids=dead[:3])
    assert await counts(queue) == {"dead": 7}
    assert (await queue.stats()).totals["purged"] == 3


async def test_batch_once(broker: Any) -> None:
    """I12: more than a script and more than a round trip."""
    queue = broker.queue("a")
    await queue.send_many(range(1_000))
    claimed = await queue.claim(1_000)
    await lose_replies(broker, "ack")
    assert all(await queue.ack(claimed))
    assert (await queue.stats()).totals["acked"] == 1_000


async def test_a_stale_token_stays_stale_when_repeated(broker: Any, clock: Clock) -> None:
    """I2 goes before I12: a repeated call of a lost lease is no success."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x")
    stale = await one(queue, lease="1s")
    clock.advance("1s")
    current = await one(queue)
    await lose_replies(broker, "ack")
    with pytest.raises(LeaseLost):
        await stale.ack()
    assert await current.ack()


async def test_unreachable_after_three_tries(broker: Any, clock: Clock) -> None:
    """A producer fails fast; what it does not know it can do again."""
    queue = broker.queue("a")
    await bring_to("ready", queue, clock)
    lost = await lose_replies(broker, "send", times=3)
    with pytest.raises(BrokerUnavailable):
        await queue.send("y", id="n")
    assert lost.runs == 3
    await queue.send("y", id="n")
    assert await ids(queue) == ["m", "n"]
