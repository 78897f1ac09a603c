"""Suspects: a worker's first lapse of a message is forgiven, and what lapsed before it takes alone."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import PerKey, RedeliveryPolicy
from rq_dlq.core.batches import batches
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.claiming import claim
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.upkeep import calls as upkeep_calls
from tests.behaviour.helpers import after, bodies, counts, keyed, one
from tests.behaviour.stepping import alone
from tests.conftest import Clock

LEASE = 30  # seconds
PAST = 1_000  # suspects that a claim looks past


class Permit:
    """A worker process that may run a suspect, or runs one already."""

    def __init__(self, *, free: bool = True) -> None:
        self.free = free
        self.noted: list[tuple[str | None, bool]] = []

    def take(self) -> bool:
        return self.free

    def note(self, suspect: Any, *, passed: bool = False) -> None:
        self.noted.append((suspect and suspect.id, passed))


async def claimed(
    queue: Any, count: int = 10, permit: Permit | None = None, *, lease: float = LEASE
) -> list[Any]:
    """A worker's claim."""
    plain = getattr(queue, "inner", queue)
    permit = permit or Permit()
    steps = claim.claim(plain._core, plain._deliveries, count=count, lease=round(lease * 1000), permit=permit)
    deliveries: list[Any] = await queue._run(steps)
    return deliveries


async def lapse(queue: Any, clock: Clock) -> None:
    clock.advance(LEASE)
    await queue.maintain()


async def suspect(queue: Any, clock: Clock, *wanted: int) -> None:
    """Make suspects of these bodies; the others are given back."""
    deliveries = {delivery.body: delivery for delivery in await claimed(queue, 1_000)}
    await queue.release([delivery for body, delivery in deliveries.items() if body not in wanted])
    await lapse(queue, clock)


def call(queue: Any, token: str, **options: Any) -> Any:
    return claiming_calls.claim(
        queue._core.keys, part="live", token=token, lease=LEASE * 1000, patience=0, consumer='"c"', seed=0.5,
        default_policy=queue._core.policy, **options,
    )  # fmt: skip


@pytest.fixture
async def queue(broker: Any) -> Any:
    """Of five messages, which come back after a minute, and once."""
    queue = broker.queue("a", redelivery=after("1m", most=1))
    await queue.send_many(range(5))
    return queue


# The first lapse is forgiven


async def test_the_first_lapse_under_a_worker_is_forgiven(queue: Any, clock: Clock) -> None:
    """Counted, not charged; back at once, at its old place, with a line in its story (I8)."""
    await claimed(queue, 4)
    await lapse(queue, clock)
    assert (await queue.stats()).totals["lapsed"] == 4
    again = await queue.claim(5)
    assert [delivery.body for delivery in again] == list(range(5))
    assert [delivery.charged for delivery in again] == [0] * 5
    assert [delivery.lapsed for delivery in again] == [1, 1, 1, 1, 0]
    assert [delivery.delivery_count for delivery in again] == [2, 2, 2, 2, 1]
    ((event,), *_, nothing) = [delivery.history for delivery in again]
    assert (event.event, event.delay, event.cause.type) == ("lapsed", 0, "Lapsed")
    assert nothing == ()


async def test_the_second_lapse_is_judged_by_the_policy(queue: Any, clock: Clock) -> None:
    await suspect(queue, clock, 0)
    await claimed(queue)
    await lapse(queue, clock)
    assert await counts(queue) == {"ready": 4, "scheduled": 1}
    clock.advance("1m")
    *_, delivery = await queue.claim(5)
    assert (delivery.body, delivery.charged, delivery.lapsed) == (0, 1, 2)


async def test_a_killer_dies_after_one_crash_more_than_its_budget(queue: Any, clock: Clock) -> None:
    """A budget of one redelivery: the second and the third lapse are charged."""
    await suspect(queue, clock, 0)
    await claimed(queue)
    await lapse(queue, clock)
    assert await counts(queue) == {"ready": 4, "scheduled": 1}
    clock.advance("1m")
    await queue.maintain()
    await claimed(queue)  # those before it
    await claimed(queue)
    await lapse(queue, clock)
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.reason, letter.lapsed, letter.charged) == (0, "exhausted", 3, 2)
    assert [message.charged for message in await queue.peek()] == [0] * 4
    assert await counts(queue) == {"ready": 4, "dead": 1}


async def test_a_batch_that_lapses_makes_no_suspects(queue: Any, clock: Clock) -> None:
    """Its driver was down: a worker takes its messages together, and their next lapse is the first."""
    await queue._run(batches.claim_batch(queue._core, "b", limit=5, lease=LEASE * 1000))
    await lapse(queue, clock)
    assert (await queue.stats()).totals["lapsed"] == 5
    again = await claimed(queue)
    assert [(delivery.delivery_count, delivery.lapsed) for delivery in again] == [(2, 0)] * 5
    assert [[event.event for event in delivery.history] for delivery in again] == [["lapsed"]] * 5
    await lapse(queue, clock)
    assert [message.charged for message in await queue.peek()] == [0] * 5


async def test_a_claim_by_hand_is_charged_for_all(queue: Any, clock: Clock) -> None:
    await queue.claim(3, lease=LEASE)
    await lapse(queue, clock)
    clock.advance("1m")
    assert sorted([delivery.charged for delivery in await queue.claim(5)]) == [0, 0, 1, 1, 1]


async def test_leases_that_lapse_after_a_kill_do_not_exceed_the_rate_of_keys(
    broker: Any, clock: Clock
) -> None:
    """A worker held six of a key, and had renewed their leases; other workers claim as these end."""
    queue = await keyed(broker, PerKey(rate="1/s"), *(f"a{n}" for n in range(8)))
    for n in range(6):
        assert len(await claimed(queue, lease=LEASE - n + n / 10)) == 1
        clock.advance(1)
    clock.advance(LEASE - 6)
    taken = []
    for _ in range(6):
        taken += await claimed(queue)
        clock.advance(0.1)
    assert len(taken) == 1


async def test_a_lapse_by_hand_is_not_forgiven_later(queue: Any, clock: Clock) -> None:
    """The first lapse was charged, and the next one is not the first."""
    await queue.claim(1, lease=LEASE)
    await lapse(queue, clock)
    clock.advance("1m")
    await queue.maintain()
    await claimed(queue)  # those before it
    await claimed(queue)
    await lapse(queue, clock)
    (letter,) = await queue.dlq.browse()
    assert (letter.body, letter.lapsed, letter.charged) == (0, 2, 2)


async def test_a_redriven_message_stays_a_suspect(queue: Any, clock: Clock) -> None:
    """Counts never go down (I4): its next lapse is charged."""
    await suspect(queue, clock, 0)
    await queue.poison(await claimed(queue, 1))
    await queue.dlq.redrive(all=True)
    assert [delivery.body for delivery in await claimed(queue, 1)] == [1]


async def test_a_delay_grows_on_after_a_lapse_that_is_forgiven(broker: Any, clock: Clock) -> None:
    """By the arithmetic in which each delay is made from the one before."""
    policy = RedeliveryPolicy.activemq(
        maximumRedeliveries=9, initialRedeliveryDelay=1_000, redeliveryDelay=1_000, backOffMultiplier=5,
        useExponentialBackOff=True,
    )  # fmt: skip
    queue = broker.queue("a", redelivery=policy)
    await queue.send("x")
    delays = []
    for failures in range(5):
        if failures == 3:
            await claimed(queue)
            await lapse(queue, clock)
        delays.append((await (await one(queue)).nack()).delay)
        clock.advance(delays[-1])
    assert delays == [1, 5, 25, 125, 625]


@pytest.mark.parametrize("charge", [True, False])
async def test_a_delay_of_the_consumers_own_is_the_one_before(
    charge: bool, broker: Any, clock: Clock
) -> None:
    policy = RedeliveryPolicy.activemq(
        maximumRedeliveries=9, initialRedeliveryDelay=1_000, redeliveryDelay=2_000, backOffMultiplier=5,
        useExponentialBackOff=True,
    )  # fmt: skip
    queue = broker.queue("a", redelivery=policy)
    await queue.send("x")
    await (await one(queue)).nack()
    clock.advance(1)
    await (await one(queue)).nack(delay=0, charge=charge)
    clock.advance(2)  # a failure without a charge waits for a second or so, whatever was asked for
    before = 0 if charge else 1  # seconds
    assert (await (await one(queue)).nack()).delay == (5 * before or 2)


async def test_what_is_forgiven_expires_when_its_time_is_over(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x", ttl=LEASE)
    await claimed(queue)
    await lapse(queue, clock)
    assert await counts(queue) == {"expired": 1}


async def test_what_is_forgiven_is_dead_where_the_limit_was_lowered(broker: Any, clock: Clock) -> None:
    """I6: no handler sees it again."""
    queue = broker.queue("a", redelivery=after(0, most=1))
    await queue.send("x")
    await (await one(queue)).nack()
    await claimed(queue)
    broker.queue("a", redelivery=after(0, most=0))
    await broker.queue("a", redelivery=after(0, most=0)).send("y")
    await lapse(queue, clock)
    assert (await counts(queue))["dead"] == 1


async def test_a_forgiven_lapse_is_in_the_outcome_history(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("1m", most=1), outcomes=1_000)
    await queue.send("x")
    await claimed(queue)
    await lapse(queue, clock)
    (told,) = await queue.outcomes()
    assert (told.event, told.cause, told.delay) == ("redelivered", "lapsed", 0)
    assert told.consumer


async def test_what_is_forgiven_wakes_who_waits(queue: Any, clock: Clock, raw: Any) -> None:
    await claimed(queue, 5)
    raw.delete("rq:{a}:wake")
    await lapse(queue, clock)
    assert raw.llen("rq:{a}:wake") == 1
    assert await bodies(queue) == list(range(5))


@pytest.mark.parametrize("made", ["by a worker", "by hand"])
async def test_a_part_of_a_claim_that_was_divided_lapses_as_the_whole(
    made: str, queue: Any, clock: Clock
) -> None:
    suspects = "alone" if made == "by a worker" else "all"
    await queue._run(alone(call(queue, "t", count=4, suspects=suspects)))
    await queue._run(alone(_calls_divide(queue, "t", "other")))
    await lapse(queue, clock)
    forgiven = 4 if made == "by a worker" else 0
    assert await counts(queue) == {"ready": 1 + forgiven} | ({} if forgiven else {"scheduled": 4})


def _calls_divide(queue: Any, token: str, to: str) -> Any:
    from rq_dlq.core.batches.calls import divide_claim  # noqa: PLC0415

    return divide_claim(queue._core.keys, token, to=to, keep=2)


async def test_a_claim_that_is_swept_in_parts_is_forgiven_as_a_whole(queue: Any, clock: Clock) -> None:
    await claimed(queue, 4)
    clock.advance(LEASE)
    for _ in range(4):
        sweep = upkeep_calls.sweep(queue._core.keys, limit=1, seed=0.5, default_policy=queue._core.policy)
        assert await queue._run(alone(sweep)) == 1
    assert await counts(queue) == {"ready": 5}


# A suspect is taken alone


async def test_a_suspect_at_the_head_is_taken_alone(queue: Any, clock: Clock) -> None:
    await suspect(queue, clock, 0, 1)
    permit = Permit()
    (delivery,) = await claimed(queue, 10, permit)
    assert delivery.body == 0
    assert permit.noted == [(delivery.id, False)]
    assert [delivery.body for delivery in await claimed(queue)] == [1]
    assert [delivery.body for delivery in await claimed(queue)] == [2, 3, 4]


async def test_a_claim_ends_before_the_first_suspect(queue: Any, clock: Clock) -> None:
    await suspect(queue, clock, 2)
    permit = Permit()
    assert [delivery.body for delivery in await claimed(queue, 10, permit)] == [0, 1]
    assert permit.noted == [(None, False)]
    assert [message.body for message in await queue.peek()] == [2, 3, 4]
    assert [delivery.body for delivery in await claimed(queue)] == [2]


async def test_who_waits_is_woken_for_what_a_claim_left(queue: Any, clock: Clock, raw: Any) -> None:
    await suspect(queue, clock, 2)
    raw.delete("rq:{a}:wake")
    await claimed(queue)
    assert raw.llen("rq:{a}:wake") == 1


async def test_a_claim_by_hand_takes_suspects_with_the_rest(queue: Any, clock: Clock) -> None:
    await suspect(queue, clock, 0, 2, 3)
    assert await bodies(queue) == list(range(5))


async def test_a_claim_of_dead_letters_takes_suspects_with_the_rest(
    queue: Any, broker: Any, clock: Clock
) -> None:
    """Nothing is charged there, so nothing is forgiven."""
    await suspect(queue, clock, 0, 1)
    await queue.poison(await queue.claim(5))
    dead = broker.queue("DLQ.a")
    assert len(await claimed(dead, 5)) == 5
    await lapse(queue, clock)
    assert await counts(queue) == {"dead": 5}
    assert (await queue.stats()).totals["lapsed"] == 2


async def test_a_repeated_claim_says_the_same(queue: Any, clock: Clock) -> None:
    """I12: whatever the process may take by now."""
    await suspect(queue, clock, 0, 1)
    for token, ids in (("s", 1), ("t", 1), ("u", 3)):
        first = await queue._run(alone(call(queue, token, count=10, suspects="alone")))
        assert len(first.rows) == ids
        for suspects in ("alone", "none", "all"):
            again = await queue._run(alone(call(queue, token, count=10, suspects=suspects)))
            assert [row.id for row in again.rows] == [row.id for row in first.rows]
    await lapse(queue, clock)
    assert await counts(queue) == {"ready": 3, "scheduled": 2}


# While its process runs one, a claim takes none


async def test_a_claim_looks_past_suspects(queue: Any, clock: Clock, raw: Any) -> None:
    """They stay at their place, and keep their time to live."""
    await queue.send("mortal", ttl="1h", priority=9)
    await suspect(queue, clock, 0, 1, 3, "mortal")  # type: ignore[arg-type]
    permit = Permit(free=False)
    assert [delivery.body for delivery in await claimed(queue, 10, permit)] == [2, 4]
    assert permit.noted == [(None, False)]
    assert [message.body for message in await queue.peek()] == ["mortal", 0, 1, 3]
    assert raw.zcard("rq:{a}:expiring") == 1
    clock.advance("1h")
    assert [delivery.body for delivery in await claimed(queue)] == [0]
    assert (await counts(queue))["expired"] == 1


async def test_a_claim_past_suspects_takes_no_more_than_it_asked_for(queue: Any, clock: Clock) -> None:
    await suspect(queue, clock, 0, 1)
    permit = Permit(free=False)
    assert [delivery.body for delivery in await claimed(queue, 2, permit)] == [2, 3]
    assert [message.body for message in await queue.peek()] == [0, 1, 4]


async def test_only_suspects_that_it_may_not_take(queue: Any, clock: Clock, raw: Any) -> None:
    """It is told so, does not wait, and passes on that there is something to claim."""
    await suspect(queue, clock, *range(5))
    raw.delete("rq:{a}:wake")
    permit = Permit(free=False)
    assert await claimed(queue, 10, permit) == []
    assert permit.noted == [(None, True)]
    assert raw.llen("rq:{a}:wake") == 1
    found = await queue._run(alone(call(queue, "t", count=10, suspects="none")))
    assert (found.wait, found.messages) == (Word.SUSPECTS, 0)
    assert await counts(queue) == {"ready": 5}


async def test_a_whole_page_of_suspects_and_nothing_else(broker: Any, clock: Clock) -> None:
    """A claim looks at a hundred at a time."""
    queue = broker.queue("a", redelivery=after("1m", most=1))
    await queue.send_many(range(100))
    await suspect(queue, clock, *range(100))
    permit = Permit(free=False)
    assert await claimed(queue, 10, permit) == []
    assert permit.noted == [(None, True)]


async def test_who_holds_the_alarm_hands_it_on_before_it_turns_away(
    queue: Any, clock: Clock, raw: Any
) -> None:
    """It does not wait at the queue any more, so another one has to watch the time."""
    await suspect(queue, clock, *range(5))
    raw.delete("rq:{a}:wake")
    raw.set("rq:{a}:alarm", 1)
    again = call(queue, "t", count=10, suspects="none", alarmed=True)
    await queue._run(alone(again))
    assert not raw.exists("rq:{a}:alarm")
    assert raw.llen("rq:{a}:wake") == 1


async def test_it_looks_past_a_thousand_at_most(broker: Any, clock: Clock) -> None:
    """I9: a claim's work is bounded; what stands behind waits until the suspect that runs has ended."""
    queue = broker.queue("a", redelivery=after("1m", most=1))
    await queue.send_many(range(PAST + 2))
    await suspect(queue, clock, *range(PAST))
    found = await claimed(queue, 1, Permit(free=False))
    assert [delivery.body for delivery in found] == [PAST]
    await queue.release(found)
    await queue.send("first", priority=9)
    await suspect(queue, clock, "first")  # type: ignore[arg-type]
    assert await claimed(queue, 1, Permit(free=False)) == []
    assert [delivery.body for delivery in await claimed(queue, 2, Permit(free=False))] == [PAST]


async def test_what_it_looks_past_is_not_read(queue: Any, clock: Clock, raw: Any) -> None:
    """Records may be large; only who reads one finds that it is missing, and drops its row."""
    await suspect(queue, clock, 0, 1, 2)
    assert len(await claimed(queue, 10, Permit(free=False))) == 2
    raw.delete("rq:{a}:messages")
    assert await claimed(queue, 10, Permit(free=False)) == []
    assert raw.zcard("rq:{a}:ready") == 3
    raw.flushall()


async def test_a_spent_suspect_is_dead_and_nobody_s(queue: Any, broker: Any, clock: Clock) -> None:
    """I6: to look past suspects is no reason to leave one that is over."""
    await (await one(queue)).nack()
    clock.advance("1m")
    await suspect(queue, clock, 0)
    await broker.queue("a", redelivery=after("1m", most=0)).send("y")
    assert [d.body for d in await claimed(queue, 10, Permit(free=False))] == [1, 2, 3, 4, "y"]
    assert (await counts(queue))["dead"] == 1


async def test_suspects_of_a_claim_that_is_taken_up_go_back(queue: Any, clock: Clock) -> None:
    """A claim by hand was lost on the way; a worker of the same queue object takes it up (I12)."""
    await suspect(queue, clock, 0, 1)
    plain = getattr(queue, "inner", queue)
    steps = claim.claim(plain._core, plain._deliveries, count=4)
    step = steps.send(None)
    while not (isinstance(step, Call) and step.verb == "claim"):
        step = steps.send(await queue._run(alone(step)))
    await queue._run(alone(step))
    with pytest.raises(ConnectionError):
        steps.throw(ConnectionError())
    permit = Permit(free=False)
    assert [delivery.body for delivery in await claimed(queue, 10, permit)] == [2, 3]
    assert await counts(queue) == {"ready": 3, "leased": 2}
    assert [delivery.body for delivery in await claimed(queue)] == [0]


async def test_an_undecodable_suspect_is_no_suspect_any_more(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", type=int, redelivery=after("1m", most=1))
    plain = broker.queue("a")
    await plain.send(b"{", id="m")
    await claimed(plain)
    await lapse(plain, clock)
    permit = Permit()
    assert await claimed(queue, 10, permit) == []
    assert permit.noted[-1][0] is None
    assert await counts(queue) == {"dead": 1}
