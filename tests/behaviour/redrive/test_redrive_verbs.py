"""The verbs of a redrive, one by one: each begins once, says what it did, and is told of once."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from rq_dlq import (
    BrokerRefused,
    BrokerUnavailable,
    InvalidInput,
    RedriveCounts,
    SharedDeadLetterStrategy,
)
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive import redrives
from rq_dlq.core.redrive import start as redrive_start
from rq_dlq.core.redrive.calls import Steering, Stepped, Undone
from rq_dlq.core.redrive.start import _RedriveStart, begin
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import Deadline
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, bury, counts
from tests.behaviour.redrive.test_redrive_pace import step
from tests.behaviour.stepping import alone, drive
from tests.conftest import Clock

WEEK = 7 * 86_400_000


async def did(broker: Any) -> list[str]:
    """What the audit tells, the oldest first."""
    return [record.did for record in reversed(await broker.audit())]


async def steer(queue: Any, job: str, verb: Steering) -> Word:
    """What became of a verb."""
    call = redrive_calls.steer_redrive(queue._core.keys, job, verb, by='"me"', user="default", grace=0)
    did: Word = await queue._broker._run(alone(call))
    return did


async def undo(queue: Any, job: str, limit: int = 20) -> Undone:
    """Take back the next messages."""
    call = redrive_calls.undo_redrive(
        queue._core.keys, job, by='"me"', user="default", cause="\t\t\t\t", limit=limit
    )
    undone = await queue._broker._run(alone(call))
    assert isinstance(undone, Undone)
    return undone


async def test_a_redrive_begins_once(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    await lose_replies(broker, "start_redrive")
    await queue.dlq.redrive(where="body >= 0")
    assert await did(broker) == ["started", "done"]


async def test_a_list_that_is_gone(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    monkeypatch.setattr(redrive_start, "LISTING", 0)
    with pytest.raises(BrokerRefused, match="the list of its messages was lost"):
        await queue.dlq.redrive(where="body >= 0")
    assert (await counts(queue), await queue.dlq.jobs()) == ({"dead": 3}, [])


async def test_a_list_that_was_lost_on_the_way_ends_it(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(9))
    job = await queue.dlq.redrive(where="body >= 0", canary=5)
    await step(queue, job)
    raw.delete(queue._core.keys.redrive(job.id))
    assert await step(queue, job) == Stepped(0, None)
    assert (await job.refresh()).state == "paused"  # nothing was acked


async def test_the_oldest_that_is_over_makes_room(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, range(101))
    jobs: list[str] = []
    for one in dead:
        clock.advance("1ms")
        jobs.append((await queue.dlq.redrive(ids=[one])).id)
    assert {job.id for job in await queue.dlq.jobs()} == set(jobs[1:])


async def test_a_verb_says_whether_it_changed_anything(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, detach=True)
    verbs: list[Steering] = ["resume", "pause", "pause", "resume", "cancel", "cancel"]
    said = [await steer(queue, job.id, verb) for verb in verbs]
    assert [*map(bool, said)] == [False, True, False, True, True, False]
    assert {*said} == {Word.DONE, Word.UNCHANGED}
    assert {await steer(queue, "none", verb) for verb in verbs} == {Word.UNKNOWN}
    assert await did(broker) == ["started", "paused", "resumed", "cancelled"]


async def test_a_resumption_does_not_wait_for_the_canary(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True, canary=1, detach=True)
    assert (await step(queue, job)).moved == 1
    assert (await step(queue, job)).moved == 0
    assert await steer(queue, job.id, "resume")
    assert (await step(queue, job)).moved == 2


async def test_an_undo_in_several_steps(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(50))
    job = await queue.dlq.redrive(all=True)
    assert [await undo(queue, job.id) for _ in range(4)] == [
        Undone(20, 30), Undone(20, 10), Undone(10, 0), Undone(0, 0),
    ]  # fmt: skip
    await job.undo()  # again
    assert await did(broker) == ["started", "done", "undone"]
    assert (await job.refresh()).counts == RedriveCounts(eligible=50, moved=50, undone=50)
    assert await undo(queue, "none") == Undone(0, None)


async def test_an_undo_with_one_message_left(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await queue.dlq.redrive(all=True)
    assert await undo(queue, job.id, limit=2) == Undone(2, 1)
    assert await did(broker) == ["started", "done"]
    assert await undo(queue, job.id, limit=2) == Undone(1, 0)


async def test_an_undone_letter_is_as_it_was(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("5s", most=1), outcomes=1_000)
    await queue.send("x", id="m")
    for _ in range(2):
        await queue.nack(await queue.claim(), "boom")
        clock.advance("5s")
    (before,) = await queue.dlq.browse()
    (group,) = await queue.dlq.groups()
    told = len(await queue.outcomes())
    job = await queue.dlq.redrive(all=True)
    await job.undo()
    (letter,) = await queue.dlq.browse()
    assert await queue.dlq.groups() == [replace(group, new=False)]
    assert (letter.charged, letter.died_at) == (before.charged, before.died_at) == (2, letter.died_at)
    assert [(event.event, event.delay) for event in letter.history[-2:]] == [("redriven", 0), ("undone", 0)]
    _, undone = (await queue.outcomes())[told:]
    assert (undone.id, undone.event, undone.delay) == ("m", "undone", 0)


async def test_an_undo_ends_a_redrive_that_runs(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(30))
    job = await queue.dlq.redrive(all=True, detach=True)
    assert await step(queue, job) == Stepped(20, 0)
    await job.undo()
    clock.set(clock.now + WEEK - 1)
    assert (await queue.maintain())["redriven"] == 0
    assert (job.state, (await job.refresh()).counts.undone) == ("undone", 20)
    clock.advance("1ms")
    await queue.maintain()
    with pytest.raises(InvalidInput, match="there is no redrive"):
        await job.refresh()


@pytest.mark.parametrize("verb", ["step", "pause"])
async def test_a_redrive_that_waits_keeps_its_list(verb: str, broker: Any, raw: Any) -> None:
    """For a week more, while its canary is open and once it is paused: days after its last step."""
    queue = broker.queue("a")
    await bury(queue, range(5))
    job = await queue.dlq.redrive(where="body >= 0", canary=2, detach=True)
    (name,) = raw.keys("rq:{a}:redrive:*")
    assert raw.pttl(name) > WEEK - 60_000
    await step(queue, job)
    raw.pexpire(name, 60_000)
    await (step(queue, job) if verb == "step" else job.pause())
    assert raw.pttl(name) > WEEK - 60_000
    if verb == "pause":
        await job.resume()
    await queue.ack(await queue.claim(2))
    await step(queue, job)
    last = await job.refresh()
    assert (last.counts.moved, last.state) == (5, "done")


@pytest.fixture
async def shared(broker: Any) -> list[Any]:
    """Five queues with two dead letters each, under one name."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    queues = [broker.queue(f"q{number}") for number in range(5)]
    for queue in queues:
        await bury(queue, ["x", "y"])
    return queues


@pytest.mark.parametrize("chosen", [{"all": True}, {"where": "body = 'x'"}])
@pytest.mark.parametrize("verdict", ["too many", "damaged"])
async def test_a_shared_name_is_redriven_in_all_its_queues_or_in_none(
    verdict: str, chosen: dict[str, Any], shared: list[Any], raw: Any, clock: Clock
) -> None:
    *others, refuses = shared
    if verdict == "damaged":
        raw.set(refuses._core.keys["redriving"], "no sorted set")
    else:
        (letter, _) = await refuses.dlq.browse()
        for _ in range(100):
            await refuses.dlq.redrive(ids=[letter.id], detach=True)
    with pytest.raises(BrokerRefused if verdict == "damaged" else InvalidInput):
        await refuses._broker.queue("LOST").dlq.redrive(**chosen)
    clock.advance("1m")
    for queue in others:
        await queue.maintain()
        assert await counts(queue) == {"dead": 2}
        assert {job.state for job in await queue.dlq.jobs()} <= {"cancelled"}


async def test_a_queue_that_gets_the_shared_name_meanwhile_is_not_redriven(
    shared: list[Any], broker: Any
) -> None:
    late = broker.queue("late")

    async def open_late(script: str) -> None:
        if lost.view and script == "stats" and late.name not in await broker.queues():
            await bury(late, ["x"])

    lost = broker.queue("LOST")._core
    await drive(broker, begin(lost, Choice(where="body = 'x'"), Terms()), open_late)
    assert await counts(late) == {"dead": 1}
    assert all([len(await queue.dlq.jobs()) == (queue is not late) for queue in (*shared, late)])


async def test_a_verb_for_a_shared_name_passes_over_what_is_done(shared: list[Any], broker: Any) -> None:
    chosen = Choice(where="body = 'x'")
    job = await broker.queue("LOST").dlq._begun(chosen, Terms())
    await shared[0]._broker._run(
        redrives.drive(shared[0]._core.keys, job._parts[0].id, Deadline(monotonic, None))
    )
    await job.pause()
    states = [[one.state for one in await queue.dlq.jobs()] for queue in shared]
    assert states == [["done"], *[["paused"]] * 4]
    await job.resume()
    await job.wait()
    with pytest.raises(InvalidInput, match=r"cannot pause redrive .*: it is done"):
        await job.pause()


async def test_what_has_begun_under_a_shared_name_and_cannot_be_cancelled_is_named(
    shared: list[Any], broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = _RedriveStart.start

    def fail_at_last(part: Any, asked: Any, *args: Any) -> Any:
        if part.keys.family == "q4":
            raise BrokerUnavailable("gone")
        return start(part, asked, *args)

    def fail(*_: Any) -> Any:
        raise BrokerUnavailable("gone")

    monkeypatch.setattr(_RedriveStart, "start", fail_at_last)
    monkeypatch.setattr(redrive_start, "steer", fail)
    with pytest.raises(BrokerUnavailable) as caught:
        await broker.queue("LOST").dlq.redrive(all=True)
    note = "".join(caught.value.__notes__[:-1])
    running = [queue.name for queue in shared for job in await queue.dlq.jobs() if job.state == "running"]
    assert all(repr(name) in note for name in running)
    assert bool(note) == bool(running)


async def test_a_shared_name_is_not_redriven_gradually(shared: list[Any], broker: Any) -> None:
    with pytest.raises(InvalidInput, match=r"redrive them one by one \(q\d, q\d, q\d, …\)"):
        await broker.queue("LOST").dlq.redrive(all=True, rate=1)
    assert [await counts(queue) for queue in shared] == [{"dead": 2}] * 5
