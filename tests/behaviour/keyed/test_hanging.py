"""Calls that hang while their dependency is tested or comes back: a pass ends in time."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import Breaker
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after
from tests.behaviour.keyed.test_outages import send, shop, some, state, taken
from tests.conftest import Clock

BREAKER = Breaker(distinct=3, longest_probe="30s")


async def down(broker: Any, count: int = 60) -> Any:
    """A queue whose dependency is down, and whose messages are parked."""
    queue = await shop(broker, *some("p", count), breaker=BREAKER, redelivery=after(60, most=9))
    for one in await queue.claim(3):
        await one.nack("down")
    assert await taken(queue) == []
    return queue


async def at(seconds: float, queue: Any, clock: Clock) -> list[Any]:
    """What is handed out then, and nothing a millisecond before."""
    clock.set(round(seconds * 1_000) - 1)
    assert await queue.claim(9, lease="1d") == []
    clock.set(round(seconds * 1_000))
    return await queue.claim(9, lease="1d")  # type: ignore[no-any-return]


async def test_the_next_probe_comes_beside_calls_that_hang(broker: Any, clock: Clock) -> None:
    """One message, and later with each of them."""
    queue, begin = await down(broker), clock.now / 1_000
    clock.set(round((begin + 1) * 1_000))
    first = await queue.claim(9, lease="1d")
    assert len(first) in {2, 3}
    assert (await state(queue)).condition == "testing"
    clock.set(round((begin + 31) * 1_000))
    assert await queue.claim(9, lease="1d") == []
    found = await state(queue)
    assert found.condition == "down"
    assert {one.id for one in found.hangs} == {one.id for one in first}
    assert {one.consumer != "" for one in found.hangs} == {True}
    assert {(one.since - found.since).total_seconds() for one in found.hangs} == {1.0}
    hung, since = len(first), 1
    for _ in range(3):
        due = since + 30 * 2**hung
        probes = await at(begin + due, queue, clock)
        assert len(probes) == 1
        since, hung = due, hung + 1
        clock.set(round((begin + due + 30) * 1_000))
        assert await queue.claim(9, lease="1d") == []


async def test_the_success_of_a_call_that_hung_closes_it(broker: Any, clock: Clock) -> None:
    queue = await down(broker)
    clock.advance("1s")
    hung = await queue.claim(9, lease="1d")
    clock.advance("5m")
    assert len(await queue.claim(9)) < 2
    settlement = await hung[0].ack()
    assert not (await state(queue)).open
    assert settlement is None or settlement.closed == "payments"


async def test_once_those_have_failed_it_is_tested_as_before(broker: Any, clock: Clock) -> None:
    queue = await down(broker)
    clock.advance("1s")
    hung = await queue.claim(9, lease="1d")
    clock.advance("40s")
    assert await queue.claim(9) == []
    for one in hung:
        await one.nack("no answer at last")
    assert await queue.claim(9) == []
    clock.advance("1s")
    await queue.claim(9)  # which repairs lanes once a second
    clock.advance("1s")
    found = await state(queue)
    assert found.condition == "testing" or await queue.claim(9)
    assert (await state(queue)).hangs == ()


async def test_no_message_waits_and_one_hangs(broker: Any, clock: Clock) -> None:
    """That closes no breaker."""
    queue = await down(broker)
    clock.advance("1s")
    hung = await queue.claim(9, lease="1d")
    await queue.purge(all=True)
    for _ in range(9):
        clock.advance("10m")
        assert await queue.claim(9) == []
    assert (await state(queue)).open
    for one in hung:
        await one.nack("no answer")
    assert (await state(queue)).open


async def test_calls_that_hang_do_not_stop_a_drain(broker: Any, clock: Clock) -> None:
    queue = await down(broker, 200)
    clock.advance("1s")
    hung = await queue.claim(9, lease="1d")
    while len(hung) < 30:
        await hung.pop().ack()
        hung += await queue.claim(40, lease="1d")
    hung += await queue.claim(40, lease="1d")
    clock.advance("30s")
    assert await queue.claim(9) == []
    await hung.pop().ack()
    assert len(await queue.claim(9)) == 2, "those that hang count no more among the 32"


async def test_a_message_that_nobody_claims_waits_again(broker: Any, clock: Clock) -> None:
    queue = await down(broker)
    clock.advance("1s")
    await queue.pause()
    assert await queue.claim(9) == []
    await queue.resume()
    held = await queue.claim(1, lease="1d")  # the others are ready
    clock.advance("31s")
    assert await queue.claim(9) == []
    found = await state(queue)
    assert [one.id for one in found.hangs] == [one.id for one in held]
    assert (await queue.stats()).ready == 0


async def test_a_lapse_is_not_charged_and_goes_last(
    broker: Any, clock: Clock, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rq_dlq.core.claiming.claim.seed", lambda: 0.5)  # otherwise a probe is any of them
    queue = await down(broker)
    clock.advance("1s")
    lost = await queue.claim(9, lease="1s")
    clock.advance("2s")
    assert not {one.id for one in await queue.claim(1)} & {one.id for one in lost}
    waiting = [row[8:].decode() for row in raw.zrange("rq:{a}:scheduled", 0, -1)]
    assert set(waiting[-len(lost) :]) == {one.id for one in lost}
    assert {one.charged for one in await queue.select(ids=[one.id for one in lost]).browse()} == {0}


async def test_while_it_is_paused_its_breaker_may_close(broker: Any, clock: Clock) -> None:
    """The pause stays: it ends by its own time, or by hand."""
    queue = await down(broker)
    payments = queue.dependency("payments")
    clock.advance("1s")
    probe, *_ = await queue.claim(9, lease="1d")
    await payments.pause(until="2h")
    await probe.ack()
    found = await state(queue)
    assert (found.condition, found.open) == ("paused", True)
    for _ in range(60):
        clock.advance("1m")
        assert await queue.claim(9) == []
    clock.advance("1h")
    assert len(await taken(queue)) >= 9


async def test_a_pause_outlasts_the_breaker(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await broker.policies.set("a", breaker=BREAKER)
    await send(queue, *some("p", 9))
    for one in await queue.claim(3):
        await one.nack("down")
    await queue.dependency("payments").pause(until="1h")
    await broker.policies.set("a", breaker=None)
    for _ in range(9):
        clock.advance("1m")
        assert await queue.claim(9) == []
    clock.advance("51m")
    await queue.claim(1)
    assert await taken(queue)


async def test_it_is_probed_beside_a_pause(broker: Any) -> None:
    """A success brings it back, and the pause stays; a failure is not charged."""
    queue = await down(broker)
    payments = queue.dependency("payments")
    await payments.pause()
    assert await payments.probe(by="anna")
    (probe,) = await queue.claim(9)
    await probe.nack("down")
    assert (await queue.select(ids=[probe.id]).browse())[0].charged == 0
    assert await payments.probe()
    (probe,) = await queue.claim(9)
    await probe.ack()
    assert await queue.claim(9) == []
    assert (await state(queue)).condition == "paused"
    assert await payments.resume()
    assert len(await queue.claim(99)) == 32
    said = [(one.did, one.by, one.number) for one in reversed(await broker.audit())]
    assert [did for did, _, _ in said] == ["opened", "paused", "probed", "probed", "closed", "resumed"]
    assert ("probed", "anna", 1) in said
    assert said[-1][2] > 32, "how many waited"


async def test_a_probe_whose_reply_was_lost_lets_no_second_one_in(broker: Any) -> None:
    queue = await down(broker)
    await lose_replies(broker, "probe_lane")
    assert await queue.dependency("payments").probe()
    assert len(await queue.claim(9)) == 1
    (probed, *_) = await broker.audit()
    assert (probed.did, probed.number) == ("probed", 1)
