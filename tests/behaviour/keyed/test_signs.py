"""When a dependency counts as down: by a run of failures or a share; what is evidence; refunds."""

from __future__ import annotations

from typing import Any

from rq_dlq import Breaker
from tests.behaviour.helpers import after
from tests.behaviour.keyed.test_outages import send, shop, some, state, taken
from tests.conftest import Clock
from tests.tables import each_row_afresh

WINDOW = 12  # seconds; a sixth of it are two
BAD = after(0, most=99)


async def fails(queue: Any, count: int, error: str = "no") -> None:
    """Claim so many, one by one, and let each fail."""
    for held in await queue.claim(count):
        await held.nack(error)


async def succeed(queue: Any, count: int) -> None:
    await queue.ack(await queue.claim(count))


async def bad_and_good(broker: Any, distinct: int = 4, **how: Any) -> Any:
    breaker = Breaker(distinct=distinct, within=WINDOW, **how)
    return await shop(broker, breaker=breaker, redelivery=after(3_600, most=99))


# A run


@each_row_afresh("wait, opens", [("1s", True), ("3599s", True), ("3600s", False)])
async def test_a_run_has_no_limit_but_an_hour_since_the_last(
    wait: str, opens: bool, broker: Any, clock: Clock
) -> None:
    """A service that hangs fails slowly."""
    queue = await shop(broker, *some("p", 3))
    held = await queue.claim(3, lease="1d")
    for one in held:
        clock.advance(wait)
        await one.nack("no answer within 20 s", delay="1d")
    assert (await state(queue)).open is opens


async def test_the_first_success_ends_a_run(broker: Any, raw: Any) -> None:
    """Of whatever message; then an ack looks for nothing any more."""
    queue = await bad_and_good(broker, 3)
    await send(queue, *some("p", 9))
    await fails(queue, 2)
    assert raw.hlen("rq:{a}:runs") == 1
    await succeed(queue, 1)
    assert not raw.exists("rq:{a}:runs")
    await fails(queue, 2)
    assert not (await state(queue)).open
    await fails(queue, 1)
    assert (await state(queue)).open


async def test_a_success_of_another_dependency_ends_none(broker: Any) -> None:
    queue = await bad_and_good(broker, 3)
    await queue.send_many(["x"] * 9, dependency="mail")
    await send(queue, *some("p", 3))
    held = await queue.claim(99)
    mails = [one for one in held if one.dependency == "mail"]
    for one in held:
        if one.dependency == "payments":
            await mails.pop().ack()
            await one.nack("no")
    assert (await state(queue)).open


async def test_retries_are_no_evidence(broker: Any, clock: Clock) -> None:
    """Not even many, while first attempts end: bad messages do not look like an outage."""
    queue = await shop(broker, *some("bad", 2), breaker=Breaker(distinct=3, within=WINDOW), redelivery=BAD)
    for n in range(20):
        await send(queue, f"good{n:02}")
        for one in await queue.claim(9):
            await (one.ack() if one.id.startswith("good") else one.nack("its own"))
        clock.advance("0.5s")
    assert not (await state(queue)).open


@each_row_afresh("since, opens", [("1999ms", False), ("2s", True)])
async def test_where_no_first_attempt_ends_retries_make_a_run(
    since: str, opens: bool, broker: Any, clock: Clock
) -> None:
    """A service goes down behind messages that have failed before."""
    queue = await shop(broker, *some("p", 3), breaker=Breaker(distinct=3, within=WINDOW), redelivery=BAD)
    await fails(queue, 2)
    await send(queue, "q1")
    held = {one.id: one for one in await queue.claim(9)}
    await held.pop("q1").ack()
    await held.pop("p02").nack("no")
    clock.advance(since)
    for one in held.values():
        await one.nack("no")
    assert (await state(queue)).open is opens


async def test_one_message_makes_no_run(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, "p", redelivery=BAD)
    for _ in range(20):
        await fails(queue, 1)
        clock.advance("5s")
    assert not (await state(queue)).open


async def test_redriven_a_message_is_evidence_again(broker: Any, raw: Any) -> None:
    queue = await shop(broker, *some("p", 3), redelivery=after(0, most=0))
    await fails(queue, 2)
    assert b" struck=" in raw.hget("rq:{a}:states", "p00")
    await succeed(queue, 1)
    await queue.dlq.redrive(all=True)
    assert b" struck=" not in raw.hget("rq:{a}:states", "p00")
    await send(queue, "p05")
    await fails(queue, 3)
    assert (await state(queue)).open


# A share


@each_row_afresh("successes, wait, opens", [(4, 2_000, True), (5, 2_000, False), (4, 1_999, False)])
async def test_a_share_needs_a_sixth_of_its_window(
    successes: int, wait: int, opens: bool, broker: Any, clock: Clock
) -> None:
    """Four failures and four successes since the first of them; a burst is over by then."""
    queue = await bad_and_good(broker)
    await send(queue, *some("p", 20))
    await succeed(queue, 3)  # before the first failure they do not count
    await fails(queue, 3)
    await succeed(queue, successes)
    clock.set(clock.now + wait)
    await fails(queue, 1)
    assert (await state(queue)).open is opens


async def test_what_left_the_window_does_not_count(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await bad_and_good(broker)
    await send(queue, *some("p", 20))
    await fails(queue, 3)
    await succeed(queue, 1)
    clock.advance("14s")
    await fails(queue, 2)
    clock.advance("2s")
    await fails(queue, 1)
    assert not (await state(queue)).open
    assert 0 < raw.pttl("rq:{a}:strikes") <= 12_000


async def test_only_first_attempts_count_as_successes(broker: Any, clock: Clock) -> None:
    queue = await shop(broker, *some("p", 4), breaker=Breaker(distinct=4, within=WINDOW), redelivery=BAD)
    await fails(queue, 3)
    clock.advance("2s")
    held = sorted(await queue.claim(9), key=lambda one: str(one.id))
    for one in held[:3]:
        await one.ack()  # it failed before: that ends the run, and is no evidence
    await held[3].nack("no")
    assert (await state(queue)).open


async def test_a_batch_counts_one(broker: Any, clock: Clock) -> None:
    """It settles its bad messages before the others."""
    queue = await bad_and_good(broker, 3)
    await send(queue, *some("p", 60))
    for _ in range(2):
        held = await queue.claim(20)
        await queue.nack(held[:12], "bad rows")
        await queue.ack(held[12:])
        clock.advance("1s")
    assert not (await state(queue)).open


async def test_signs_of_others_are_removed_once_they_have_ended(broker: Any, clock: Clock, raw: Any) -> None:
    queue = await shop(broker)
    for n in range(6):
        await queue.send("x", dependency=f"d{n}")
        await queue.nack(await queue.claim(9), "no", delay="1d")
        clock.advance("1h")
    assert raw.hlen("rq:{a}:runs") == 1
    assert raw.zcard("rq:{a}:failures") == 1


# Refunds


async def test_the_failures_before_it_opens_are_refunded(broker: Any) -> None:
    """Of each message, however often it has failed; what somebody holds, too; not what others failed of."""
    queue = await shop(broker, *some("p", 5), "o1", redelivery=BAD)
    other = [one for one in await queue.claim(9) if one.id == "o1"]
    await other[0].nack("its own")
    await queue.release([])
    assert not (await state(queue)).open


async def test_a_message_is_refunded_three_times_until_it_is_redriven(
    broker: Any, clock: Clock, raw: Any
) -> None:
    queue = await shop(broker, breaker=Breaker(distinct=3, longest_probe="1s"), redelivery=after(0, most=99))
    await send(queue, "bad")

    def refunds() -> int:
        text = raw.hget("rq:{a}:states", "bad").decode()
        return int(text.partition(" struck=")[2].split(" ")[0].split("/")[2])

    for n in range(4):
        await send(queue, f"p{n}0", f"p{n}1", f"good{n}")
        held = {one.id: one for one in await queue.claim(9)}
        await held["bad"].nack("no")
        clock.advance("6s")  # a sixth of the window without a first attempt, so the bad one is evidence again
        again = {one.id: one for one in await queue.claim(9)}
        await again["bad"].nack("no")
        for name in (f"p{n}0", f"p{n}1"):
            await held[name].nack("no")
        assert (await state(queue)).open
        assert refunds() == min(n + 1, 3)
        await queue.dependency("payments").resume(close=True)
        clock.advance("11m")
        for one in await taken(queue):
            if one.id != "bad":
                await one.ack()
            else:
                await one.release()
    (bad,) = await queue.select(ids=["bad"]).browse()
    assert bad.charged > 0
