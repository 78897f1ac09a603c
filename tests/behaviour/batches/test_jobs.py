"""Jobs that write to a queue: staged by tasks, committed at once, moved in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import pytest

from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.steps.replies import Word
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from tests.audit import audit
from tests.behaviour.faults import lose_calls, lose_replies
from tests.behaviour.helpers import bodies, counts
from tests.conftest import Clock
from tests.model.driver import Driver, packed
from tests.model.stops import stopping


async def stage(broker: Any, queue: Any, attempt: str, values: Sequence[Any], **times: int) -> dict[str, int]:
    """What a task does: how many messages each of its lists holds."""
    work = queue._core
    task = Stage(work.keys, "j", attempt)
    pack = work.codec.packer(4, {})
    items = [cell for n, value in enumerate(values) for cell in (f"{attempt}{n}", pack(value))]
    await broker._run(task.add(items, **times))
    return task.counts


async def commit(broker: Any, queue: Any, lists: dict[str, int], batch: int = 0) -> Any:
    steps = jobs.commit([queue._core], "j", {queue.name: lists}, batch=batch)
    return await broker._run(steps)


async def move(broker: Any, queue: Any, *attempts: str) -> int:
    """Move all; how many."""
    moved = 0
    for attempt in attempts:
        while part := (await broker._run(jobs.move(queue._core.keys, "j", attempt))).messages:
            moved += part
    return moved


async def drop(broker: Any, queue: Any, attempts: Iterable[str]) -> Any:
    return await broker._run(jobs.drop(queue._core.keys, "j", list(attempts)))


async def test_what_is_staged_is_seen_once_it_is_moved_and_in_order(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t0", range(1_300)) | await stage(broker, queue, "t1", ["x"])
    assert await counts(queue) == {}
    assert await commit(broker, queue, attempts)
    assert await counts(queue) == {}
    audit(raw, "a")  # what is committed stays until it is moved
    assert await move(broker, queue, *attempts) == 1_301
    assert await counts(queue) == {"ready": 1_301}
    assert await bodies(queue, 1_000) + await bodies(queue, 1_000) == [*range(1_300), "x"]
    assert not raw.exists("rq:{a}:committed")


async def test_messages_keep_their_delay_and_their_time_to_live(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t", ["later"], delay=60_000)
    attempts |= await stage(broker, queue, "u", ["short"], ttl=30_000)
    await commit(broker, queue, attempts)
    await move(broker, queue, *attempts)
    assert await counts(queue) == {"ready": 1, "scheduled": 1}
    clock.advance("1m")
    await queue.maintain()
    assert await bodies(queue, 9) == ["later"]


async def test_a_job_is_committed_once(broker: Any) -> None:
    """A job that is run again under its id writes nothing, whether the first one was moved or not."""
    queue = broker.queue("a")
    first = await stage(broker, queue, "t0", ["x"])
    assert await commit(broker, queue, first)
    again = await stage(broker, queue, "t1", ["x"])
    assert not await commit(broker, queue, again)
    assert await drop(broker, queue, again) == 1
    await move(broker, queue, *first)
    late = await stage(broker, queue, "t2", ["x"])
    assert not await commit(broker, queue, late)
    assert await drop(broker, queue, late) == 1
    assert await counts(queue) == {"ready": 1}


async def test_a_stream_commits_each_batch_once_and_none_after_a_later_one(broker: Any) -> None:
    queue = broker.queue("a")
    said = []
    for number, batch in enumerate([0, 1, 1, 0, 9, 10, 9]):
        attempts = await stage(broker, queue, f"t{number}", [number])
        said.append(await commit(broker, queue, attempts, batch))
        await (move(broker, queue, *attempts) if said[-1] else drop(broker, queue, attempts))
    assert said == [True, True, False, False, True, True, False]
    assert await bodies(queue, 9) == [0, 1, 4, 5]


async def test_of_two_attempts_only_the_committed_one_counts(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    won, lost = [await stage(broker, queue, attempt, ["x"]) for attempt in ("t0", "t1")]
    await commit(broker, queue, won)
    assert 0 < raw.ttl(queue._core.keys.stage("j", *lost)) <= 86_400
    assert await drop(broker, queue, [*won, *lost]) == 1  # what is committed cannot be dropped
    assert await move(broker, queue, *won, *lost) == 1


async def test_lists_of_killed_tasks_are_found_by_their_job(broker: Any, raw: Any) -> None:
    """Nobody knows them any more; the one that is committed and not yet moved stays."""
    queue = broker.queue("a")
    killed = [await stage(broker, queue, f"k{number}", range(3)) for number in range(600)]
    won = await stage(broker, queue, "t", ["x"])
    names = queue._core.keys.stage("j", "")
    assert 0 < raw.ttl(names) <= 86_400
    assert await commit(broker, queue, won)
    assert await broker._run(jobs.drop_rest(queue._core.keys, "j")) == len(killed)
    assert raw.keys("rq:*:stage:*") == [queue._core.keys.stage("j", *won).encode()]
    assert await move(broker, queue, *won) == 1


async def test_a_move_says_what_the_queue_knew(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("first", id="t0")
    attempts = await stage(broker, queue, "t", ["x", "y", "z"])
    await commit(broker, queue, attempts)
    (attempt,) = attempts
    assert await broker._run(jobs.move(queue._core.keys, "j", attempt)) == (3, 1)
    assert await broker._run(jobs.move(queue._core.keys, "j", attempt)) == (0, 0)  # again
    assert await bodies(queue) == ["first", "y", "z"]


@pytest.mark.parametrize("longest", [100, 100_000, job_calls.ANY])
async def test_a_move_takes_as_many_as_it_may_whatever_it_knows_of_their_length(
    longest: int, broker: Any
) -> None:
    queue = broker.queue("a")
    (attempt,) = lists = await stage(broker, queue, "t", range(10))
    await commit(broker, queue, lists)
    moves = [jobs.move(queue._core.keys, "j", attempt, 4, longest) for _ in range(4)]
    assert [(await broker._run(steps)).messages for steps in moves] == [4, 4, 2, 0]
    assert await bodies(queue, 99) == [*range(10)]


async def test_a_move_that_ends_because_of_long_messages_cuts_none_in_two(broker: Any) -> None:
    """Its bytes are used up by the id of the second one."""
    queue, most = broker.queue("a"), 524_288
    long = "x" * (most - 1 - len("t0") - len(queue._core.codec.packer(4, {})("")))
    (attempt,) = lists = await stage(broker, queue, "t", [long, "y"])
    await commit(broker, queue, lists)
    part = await broker._run(jobs.move(queue._core.keys, "j", attempt, 4, most))
    assert part.messages == 2
    assert await bodies(queue, 9) + await bodies(queue, 9) == [long, "y"]  # a claim has a bound, too


async def test_what_was_never_committed_cannot_be_moved(broker: Any) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t", ["x"])
    assert await move(broker, queue, *attempts) == 0
    await queue.maintain()
    assert await counts(queue) == {}
    assert await drop(broker, queue, attempts) == 1


async def test_staged_messages_that_are_gone_fail_the_commit(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t0", ["x"]) | await stage(broker, queue, "t1", ["y"])
    raw.delete(queue._core.keys.stage("j", list(attempts)[1]))  # its time to live is over
    with pytest.raises(BrokerRefused, match=r"job j wrote nothing to 'a': .* wait 1d .* run the job again"):
        await commit(broker, queue, attempts)
    await queue.maintain()
    assert await counts(queue) == {}
    attempts = await stage(broker, queue, "t2", ["z"])
    assert await commit(broker, queue, attempts)  # the job can be run again
    await move(broker, queue, *attempts)


async def test_staged_messages_that_are_not_whole_fail_the_commit(broker: Any, raw: Any) -> None:
    """Commands of a connection that was given up may still arrive."""
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t", range(3))
    raw.rpop(queue._core.keys.stage("j", *attempts))
    with pytest.raises(BrokerRefused, match="some messages staged by its tasks are gone"):
        await commit(broker, queue, attempts)
    await drop(broker, queue, attempts)


async def test_lost_replies_change_nothing(broker: Any) -> None:
    """I12: of a commit, of a move, of what a task appends."""
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t", range(600))
    for verb in ("commit_job", "move_staged"):
        await lose_replies(broker, verb)
    assert await commit(broker, queue, attempts)
    await move(broker, queue, *attempts)
    assert await bodies(queue, 1_000) == list(range(600))


async def test_what_is_appended_twice_is_there_once(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    task = Stage(queue._core.keys, "j", "t")
    items = packed(*[(f"m{n}", 4) for n in range(1_200)])
    for step in task.add(items[:1_600]):
        await broker._run(alone(step))
        await broker._run(alone(step))  # its reply was lost
    await broker._run(task.add(items[1_600:]))
    (attempt,) = task.counts
    assert task.counts == {attempt: 1_200}
    staged = raw.lrange(queue._core.keys.stage("j", attempt), 0, -1)
    assert [cell.decode() for cell in staged[::2]] == items[::2]


def alone(step: Any) -> Any:
    return (yield step)


async def test_maintenance_goes_on_where_the_committer_died(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t0", range(300)) | await stage(broker, queue, "t1", range(300))
    await commit(broker, queue, attempts)
    await broker._run(jobs.move(queue._core.keys, "j", next(iter(attempts)), limit=100))
    await queue.maintain()
    assert await counts(queue) == {"ready": 100}  # it is the committer's turn
    clock.advance("10s")
    assert (await queue.maintain())["written"] == 500
    assert await counts(queue) == {"ready": 600}
    assert await move(broker, queue, *attempts) == 0
    assert not raw.exists("rq:{a}:committed")


async def test_a_commit_of_unknown_outcome_is_all_or_nothing(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    attempts = await stage(broker, queue, "t", ["x"])
    await lose_calls(broker, "commit_job", times=99)
    with pytest.raises(BrokerUnavailable):
        await commit(broker, queue, attempts)
    clock.advance("1h")
    await queue.maintain()
    assert await counts(queue) == {}
    await drop(broker, queue, attempts)


# Several queues, which may be on different nodes of a cluster


async def stage_in_three(broker: Any) -> tuple[list[Any], dict[str, dict[str, int]]]:
    queues = [broker.queue(f"s:{number}") for number in range(3)]
    return queues, {queue.name: await stage(broker, queue, "t", [queue.name]) for queue in queues}


async def test_several_queues_commit_together(broker: Any, raw: Any) -> None:
    queues, lists = await stage_in_three(broker)
    works = [queue._core for queue in queues]
    assert await broker._run(jobs.commit(works, "j", lists))
    for queue in queues:
        audit(raw, queue.name)
        assert await move(broker, queue, *lists[queue.name]) == 1
        assert await bodies(queue) == [queue.name]
    _, again = await stage_in_three(broker)
    assert not await broker._run(jobs.commit(works, "j", again))
    for queue in queues:
        assert await broker._run(jobs.drop_rest(queue._core.keys, "j")) == len(again[queue.name])
    assert not raw.keys("rq:*:stage:*")


async def test_maintenance_tells_the_others_what_the_first_has_decided(
    broker: Any, clock: Clock, raw: Any
) -> None:
    for script in range(1, 4):  # the committer dies after this many of its commits
        raw.flushall()
        clock.set(clock.now)
        queues, lists = await stage_in_three(broker)
        await die_after(script, broker, jobs.commit([queue._core for queue in queues], "j", lists))
        clock.advance("10s")
        for queue in queues:
            await queue.maintain()
        clock.advance("10s")  # those that were told just now have time, too
        for queue in queues:
            await queue.maintain()
            audit(raw, queue.name)
            assert await counts(queue) == {"ready": 1}, f"died after {script}"
        assert raw.keys("rq:*:stage:*") == raw.keys("rq:*:stage:j:")  # the names of the lists, which expire


async def die_after(verbs: int, broker: Any, steps: Any) -> None:
    value: Any = None
    while verbs:
        step = steps.send(value)
        value = await broker._run(alone(step))
        verbs -= getattr(step, "verb", "") == "commit_job"
    steps.close()


async def test_what_is_gone_before_the_others_are_told_holds_up_nothing(
    broker: Any, clock: Clock, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queues, lists = await stage_in_three(broker)
    first, gone, _ = queues
    await die_after(1, broker, jobs.commit([queue._core for queue in queues], "j", lists))
    raw.delete(gone._core.keys.stage("j", *lists[gone.name]))  # it expires where nothing maintains the queues
    clock.advance("10s")
    await first.maintain()
    assert "job j: its committed messages for 's:1' are gone" in caplog.text
    clock.advance("10s")
    for queue in queues:
        await queue.maintain()
    assert [await counts(queue) for queue in queues] == [{"ready": 1}, {}, {"ready": 1}]
    assert not raw.exists(first._core.keys["committed"])


async def test_nothing_is_committed_where_another_queue_has_lost_its_part(broker: Any, raw: Any) -> None:
    queues, lists = await stage_in_three(broker)
    raw.delete(queues[2]._core.keys.stage("j", *lists["s:2"]))
    with pytest.raises(BrokerRefused, match="job j wrote nothing to 's:2'"):
        await broker._run(jobs.commit([queue._core for queue in queues], "j", lists))
    for queue in queues:
        await queue.maintain()
        assert await counts(queue) == {}
        await drop(broker, queue, lists[queue.name])


@pytest.mark.parametrize("job", ["", "a\nb", "x" * 201])
def test_a_job_that_cannot_be_named_so(job: str) -> None:
    with pytest.raises(InvalidInput, match="the id of a job: "):
        jobs.check_job(job)


# Cut off at every Redis call. tests/model/test_stops.py shows that nothing is lost or doubled by it.

LISTS = {"a.0.0": 6, "b.0.0": 6}  # their lengths


def staged(raw: Any) -> Driver:
    raw.flushall()
    Clock(raw)
    driver = Driver(raw)
    for attempt in LISTS:
        raw.rpush(driver.keys.stage("j", attempt), *packed(*[(f"{attempt}{n}", 4) for n in range(3)]))
        raw.expire(driver.keys.stage("j", attempt), 60)
    return driver


def test_a_job_may_have_more_lists_than_one_command_takes(raw: Any) -> None:
    """Lua puts some 8,000 values on its stack."""
    raw.flushall()
    Clock(raw)
    driver, lists = Driver(raw), {f"a.{n}.0": 2 for n in range(4_500)}
    pipeline = raw.pipeline(transaction=False)
    for attempt in lists:
        pipeline.rpush(driver.keys.stage("j", attempt), *packed((attempt, 4)))
        pipeline.expire(driver.keys.stage("j", attempt), 60)
    pipeline.execute()
    call = job_calls.commit_job(driver.keys, "j", lists, batch=0, call="c", grace=0, remembered=60_000)
    assert driver.run(call) is Word.DONE
    assert raw.zcard(driver.keys["committed"]) == len(lists)


def test_a_commit_that_is_cut_off_is_all_or_nothing_and_can_be_repeated(raw: Any) -> None:
    for n in count(1):
        driver = staged(raw)
        call = job_calls.commit_job(driver.keys, "j", LISTS, batch=0, call="c", grace=0, remembered=60_000)
        stopped = False
        try:
            Driver(raw, verbs=stopping(raw, n)).run(call)  # type: ignore[arg-type]
        except BrokerRefused:
            stopped = True
        assert raw.zcard(driver.keys["committed"]) in {0, 2}, f"stopped at {n}"
        assert driver.run(call, repeated=True) is Word.DONE, f"stopped at {n}"
        again = job_calls.commit_job(driver.keys, "j", LISTS, batch=0, call="d", grace=0, remembered=9)
        assert driver.run(again) is Word.DONE_BEFORE, f"stopped at {n}"
        audit(raw, "q")
        moves = [job_calls.move_staged(driver.keys, "j", name, limit=9, early=False) for name in LISTS]
        assert [driver.run(move).messages for move in moves] == [3, 3], f"stopped at {n}"
        assert audit(raw, "q") == {"ready": 6}
        if not stopped:
            assert n > 5
            return
