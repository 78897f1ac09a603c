"""A claim after leases have lapsed, without maintenance: they come first, and none means none (I8, I15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rq_dlq import SharedDeadLetterStrategy
from rq_dlq.core.batches import batches
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.claiming import claim as claiming_claim
from rq_dlq.core.claiming.claim import ROUNDS
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.values.leased import Lease, Leased
from rq_dlq.values.message import MessageRow
from tests.behaviour.helpers import AT_ONCE, after, claim_all, counts
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh

LAPSED = 300


def made(rows: Sequence[MessageRow], lease: Lease[Any]) -> list[Leased[Any]]:
    """Deliveries, in either colour."""
    return [Leased(row, lease) for row in rows]


async def lapse(queue: Any, clock: Clock, count: int, acked: int = 0, **options: Any) -> None:
    """Claim so many, ack the first of them, and never come back."""
    await queue.ack((await queue.claim(count, lease="1s", **options))[:acked])
    clock.advance("1s")


async def drain(queue: Any, count: int) -> list[Any]:
    """The bodies of all claims, up to the one that finds nothing."""
    found: list[Any] = []
    while deliveries := await queue.claim(count):
        found += [delivery.body for delivery in deliveries]
        await queue.ack(deliveries)
    return found


async def verbs(
    broker: Any, steps: Any, done: Callable[[int], None] = lambda _: None
) -> tuple[Any, list[str]]:
    """Run steps; what they return, and the scripts that they ran."""
    ran: list[str] = []
    value: Any = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as stop:
            return stop.value, ran
        value = await broker._run(alone(step))
        if isinstance(step, Call):
            ran.append(step.verb)
            done(len(ran))


@each_row_afresh("acked", [0, 9, 10, 15, LAPSED - 1])
async def test_a_claim_that_was_partly_acked_is_not_an_empty_queue(
    acked: int, broker: Any, clock: Clock
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED, acked)
    assert await drain(queue, 10) == [*range(acked, LAPSED)]
    assert await counts(queue) == {}


@each_row_afresh("count", [1, 10, 100, 1_000])
async def test_what_lapsed_comes_before_what_is_new(count: int, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED, 15)
    await queue.send_many(range(LAPSED, 2 * LAPSED))
    found = await claim_all(queue, count)
    assert [delivery.body for delivery in found] == [*range(15, 2 * LAPSED)][:count]


async def test_a_claim_whose_lapsed_messages_come_later_finds_nothing(broker: Any, clock: Clock) -> None:
    """And all of them are on their way, after one claim."""
    queue = broker.queue("a", redelivery=after("1m"))
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED)
    assert await queue.claim() == []
    assert await counts(queue) == {"scheduled": LAPSED}


async def test_so_many_lapsed_that_a_claim_does_not_wait_for_all(broker: Any, clock: Clock) -> None:
    """It sweeps for a while, then takes what is ready; one that finds nothing goes on."""
    queue = broker.queue("a", redelivery=after("1m"))
    await queue.send_many(range(1_500))
    for count in (1_000, 500):
        await queue.claim(count, lease="1s")
    clock.advance("1s")
    await queue.send("new", id="new")
    (claimed,), ran = await verbs(broker, claiming_claim.claim(queue._core, made))
    assert claimed.id == "new"
    assert ran == ["claim"] * (ROUNDS + 1)
    assert await counts(queue) == {"scheduled": 1_010, "leased": 491}
    assert await queue.claim() == []
    assert await counts(queue) == {"scheduled": 1_500, "leased": 1}


async def test_a_claim_that_has_nothing_to_sweep_is_one_script(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(20))
    assert (await verbs(broker, claiming_claim.claim(queue._core, made, count=10)))[1] == ["claim"]
    await queue.claim(5, lease=1.001)
    await lapse(queue, clock, 5)  # the others are held
    assert (await verbs(broker, claiming_claim.claim(queue._core, made, count=10)))[1] == ["claim"]
    assert (await verbs(broker, claiming_claim.claim(queue._core, made, count=10)))[1] == ["claim"]


async def test_a_paused_queue_is_swept_and_hands_out_nothing(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED)
    await queue.pause()
    assert await queue.claim() == []
    assert await counts(queue) == {"ready": LAPSED}


async def test_a_consumer_that_stops_does_not_sweep_on(broker: Any, raw: Any, clock: Clock) -> None:
    """And wakes another."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED)
    stopped: list[int] = []
    claim = claiming_claim.claim(queue._core, made, wait=60_000, stopped=lambda: bool(stopped))
    claimed, ran = await verbs(broker, claim, stopped.append)
    assert claimed == []
    assert len(ran) == 2
    assert raw.llen("rq:{a}:wake") == 1


async def test_a_batch_takes_what_lapsed_first(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(LAPSED))
    await lapse(queue, clock, LAPSED, 15)
    await queue.send_many(range(LAPSED, 2 * LAPSED))
    batch = await broker._run(batches.claim_batch(queue._core, "b", limit=100, lease=60_000))
    assert batch.messages == 100
    assert (await queue.claim())[0].body == 115


@pytest.mark.parametrize("name", ["DLQ.a", "DLQ.all"])
async def test_dead_letters_whose_claim_lapsed(name: str, broker: Any, clock: Clock) -> None:
    """Also in a shared dead-letter queue, where a claim asks one queue after the other."""
    if name == "DLQ.all":
        await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy(name))
    queue = broker.queue("a")
    await queue.send_many(range(60))
    await queue.poison(await queue.claim(60), "bad")
    letters = broker.queue(name)
    await lapse(letters, clock, 60, 30)
    assert sorted(await drain(letters, 10)) == [*range(30, 60)]
    assert await counts(queue) == {}


async def test_rows_that_lead_nowhere_do_not_hide_dead_letters(broker: Any, raw: Any) -> None:
    """As a script leaves them that was cut off."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.poison(await queue.claim(), "bad")
    raw.zadd("rq:{a}:dead", {bytes((5, *range(7))) + b"gone%d" % n: n for n in range(30)})
    assert await drain(broker.queue("DLQ.a"), 3) == ["x"]
    assert raw.exists("rq:{a}:dead") == 0


async def test_who_waits_goes_on_at_once_while_more_is_overdue(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(25), delay="1h", ttl="1s")
    clock.advance("2s")
    options: dict[str, Any] = {"part": "live", "token": "t", "count": 9, "lease": 1_000, "patience": 1_000}
    options |= {"consumer": "", "seed": 0, "default_policy": queue._core.policy}
    call = claiming_calls.claim(queue._core.keys, **options)
    waits = [(await broker._run(alone(call))).wait for _ in range(3)]
    assert (waits, await counts(queue)) == ([0, 0, Word.NO_EVENT], {"expired": 25})
