"""Maintenance processes: what they do, what they cost, and that nothing is lost when they are killed."""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import redis

import rq_dlq
from rq_dlq import (
    Broker,
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    InvalidInput,
)
from rq_dlq._redis import FAIL_FAST
from rq_dlq.core.processes import processes
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.core.upkeep import maintain
from rq_dlq.core.upkeep import rounds as upkeep_rounds
from rq_dlq.core.upkeep.rounds import ENOUGH, MaintainedNamespace
from rq_dlq.core.upkeep.upkeep import DONE, STEP
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import UPKEEP
from rq_dlq.worker.arguments import wanted
from rq_dlq.worker.maintenance import ROLES, Maintenance
from rq_dlq.worker.upkeep import Upkeep
from tests import servers
from tests.behaviour.helpers import after
from tests.servers import counts, wait_until
from tests.servers.counts import verbs_run
from tests.tables import each_row
from tests.worker.conftest import Working
from tests.worker.killed import maintained
from tests.worker.test_processes import restartable

LATER = after("1h", most=9)
Maintaining = Callable[..., AbstractContextManager[Maintenance]]


@pytest.fixture
def maintaining() -> Maintaining:
    """To be used in a with statement: it runs in a thread, and must have stopped at its end."""

    @contextmanager
    def run(broker: Broker, *roles: str, period: str = "20ms") -> Iterator[Maintenance]:
        maintenance = Maintenance(broker, roles or ROLES, period)
        thread = threading.Thread(target=maintenance.run)
        thread.start()
        try:
            yield maintenance
        finally:
            maintenance.stop()
            thread.join(15)
            assert not thread.is_alive(), "the maintenance did not stop"

    return run


def one_round(broker: Broker, watch: MaintainedNamespace | None = None) -> float | None:
    watch = watch or MaintainedNamespace("rq", ROLES)
    return broker._run(upkeep_rounds.one_round(watch, bool))


def places(queue: Any) -> dict[str, int]:
    stats = queue.stats()
    names = ("ready", "scheduled", "leased", "dead", "expired")
    return {name: count for name in names if (count := getattr(stats, name))}


# What it does


@pytest.mark.parametrize(
    ("role", "then"),
    [
        ("redelivery", {"ready": 2, "scheduled": 1, "dead": 1}),
        ("expiry", {"leased": 1, "scheduled": 1, "expired": 1, "dead": 1}),
        ("retention", {"leased": 1, "scheduled": 1, "ready": 1}),
    ],
)
def test_each_role_does_its_own(
    role: str, then: dict[str, int], broker: Broker, maintaining: Maintaining
) -> None:
    strategy = IndividualDeadLetterStrategy(expiration="1ms")
    queue = broker.queue("a", redelivery=LATER, dead_letter=strategy)
    queue.send_many(["dead", "leased"])
    queue.poison(queue.claim(), "bad")
    assert queue.claim(lease="1ms")
    queue.send("due", delay="1ms")
    queue.send("mortal", ttl="1ms")
    before = {"leased": 1, "scheduled": 1, "ready": 1, "dead": 1}
    assert places(queue) == before
    with maintaining(broker, role):
        wait_until(lambda: places(queue) != before)
        wait_until(lambda: places(queue) == then)


def test_a_queue_that_is_new_is_found(broker: Broker, maintaining: Maintaining) -> None:
    with maintaining(broker, period="50ms"):
        wait_until(lambda: broker._run(processes.maintainers("rq")))
        broker.queue("new").send("x", ttl="1ms")
        wait_until(lambda: places(broker.queue("new")) == {"expired": 1})


def test_it_wakes_when_something_falls_due_before_the_period_is_over(
    broker: Broker, maintaining: Maintaining
) -> None:
    queue = broker.queue("a")
    queue.send("x", ttl="1500ms")
    began = time.monotonic()
    with maintaining(broker, period="14s"):  # a pause is a tenth of it at least
        wait_until(lambda: places(queue) == {"expired": 1}, 12)
    assert time.monotonic() - began > 1.5 - 0.01


def test_a_queue_that_is_maintained_by_hand_takes_few_round_trips(broker: Broker) -> None:
    """Whatever finds work has the whole of a round trip, and one more look finds what it made."""
    queue = broker.queue(
        "a", dead_letter=IndividualDeadLetterStrategy(expiration="1ms", process_expired=True), lease="1ms"
    )
    queue.send_many(range(20 * STEP), ttl="1ms")
    time.sleep(0.005)
    done, limits = limits_of(broker, maintain.maintain(queue._core))
    assert (done["expired"], done["swept"], done["promoted"]) == (20 * STEP, 0, 0)
    assert max(limits) <= STEP
    assert len(limits) <= 2 * 20 + 10


def test_a_backlog_is_worked_off_without_a_pause(broker: Broker, maintaining: Maintaining) -> None:
    """More than a round takes, and the next period is an hour away."""
    queue, many = broker.queue("a"), (ENOUGH + 10) * STEP
    queue.send_many(range(many), ttl="1ms")
    with maintaining(broker, period="1h"):
        wait_until(lambda: places(queue) == {"expired": many})


def test_a_thousand_queues_with_one_expired_message_each(broker: Broker, raw: Any) -> None:
    """ART-B72: all within a few rounds, with one script for each message."""
    broker.queue("q0").send("x", ttl="1ms")
    alike(raw, "q0", [f"q{number}" for number in range(1, 1_000)])
    watch = MaintainedNamespace("rq", ROLES)
    raw.config_resetstat()
    rounds = 0
    while watch.done["expired"] < 1_000:
        one_round(broker, watch)
        rounds += 1
    assert rounds <= 3
    assert verbs_run(raw) <= 1_020  # the first batch finds nothing loaded
    assert [queue.stats.expired for queue in broker.overview().queues] == [1] * 1_000
    assert watch.done == {"expired": 1_000}
    forget(raw, [f"q{number}" for number in range(10, 1_000)])  # the audit need not see so many alike


def alike(raw: Any, name: str, others: list[str]) -> None:
    """Copy a queue, key by key."""
    keys = raw.keys(f"rq:{{{name}}}:*")
    with raw.pipeline(transaction=False) as pipeline:
        for other in others:
            for key in keys:
                pipeline.copy(key, key.replace(name.encode(), other.encode()))
        pipeline.sadd("rq:queues", *others)
        pipeline.execute()


def forget(raw: Any, names: list[str]) -> None:
    """Remove queues without looking at them."""
    raw.delete(*(key for key in raw.keys("rq:{*") if key.decode().split("{")[1].split("}")[0] in {*names}))
    raw.srem("rq:queues", *names)


# Many at once, killed


def test_many_processes_killed_at_any_time_lose_nothing_and_do_nothing_twice(
    broker: Broker, server: str
) -> None:
    """I1, I6, I7: for five seconds leases lapse, messages expire and fall due, and nobody claims."""
    lapsing = broker.queue("lapsing", redelivery=after(0, most=0))
    expiring, due = broker.queue("expiring"), broker.queue("due")
    count = 4_000
    sent = {queue.name: set(queue.send_many(range(count))) for queue in (lapsing,)}
    for number in range(count // 10):
        assert len(lapsing.claim(10, lease=6 + 5 * number / (count // 10))) == 10
    sent |= {"expiring": set(), "due": set()}
    for number in range(count // 100):
        when = 2 + 5 * number / (count // 100)
        sent["expiring"] |= set(expiring.send_many(range(100), ttl=when))
        sent["due"] |= set(due.send_many(range(100), delay=when))
    all_over = {"ready": count}, {"dead": count}, {"expired": count}
    queues = (due, lapsing, expiring)
    maintained(broker, f"unix://{server}", lambda: (*map(places, queues),) == all_over)
    assert lapsing.stats().totals == {"sent": count, "lapsed": count, "exhausted": count}
    assert expiring.stats().totals == {"sent": count, "expired": count}
    found = {
        "lapsing": [letter.id for letter in lapsing.dlq.browse(limit=2 * count)],
        "expiring": [message.id for message in broker.queue("EXP.expiring").peek(2 * count)],
        "due": [message.id for message in due.peek(2 * count)],
    }
    assert {name: Counter(ids) for name, ids in found.items()} == {
        name: Counter(ids) for name, ids in sent.items()
    }


# What it costs


def commands(broker: Broker, raw: Any) -> dict[str, int]:
    """The commands of one round, of a process that knows the queues already."""
    watch = MaintainedNamespace("rq", ROLES)
    one_round(broker, watch)
    raw.config_resetstat()
    one_round(broker, watch)
    stats = raw.info("commandstats")
    reads = ("zrange", "zcard", "hget", "time", "smembers", "evalsha")
    ours = [f"cmdstat_{name}" for name in reads]
    assert set(stats) - {"cmdstat_config|resetstat", "cmdstat_config", "cmdstat_info"} <= set(ours)
    return {name: stats[name]["calls"] for name in ours if name in stats}


def test_a_round_over_idle_queues_is_a_few_reads_each(broker: Broker, raw: Any) -> None:
    raw.sadd("rq:queues", *(f"q{number}" for number in range(1_000)))
    found = commands(broker, raw)
    assert not found.keys() & {*counts.BY}
    # The queues; of each the time, nine heads, two sizes, two settings.
    assert sum(found.values()) <= 14 * 1_000 + 1


def test_the_work_does_not_grow_with_what_is_queued(broker: Broker, raw: Any) -> None:
    queue = broker.queue("a", lease="1h")
    queue.send_many(range(10), delay="1h", ttl="2h")
    before = commands(broker, raw)
    queue.send_many(range(20_000))
    queue.send_many(range(5_000), delay="1h", ttl="2h")
    assert len(queue.claim(1_000)) == 1_000
    queue.poison(queue.claim(500), "bad")
    assert commands(broker, raw) == before
    assert not before.keys() & {*counts.BY}
    forget(raw, ["a"])  # the audit need not see so many alike


@pytest.mark.slow  # a figure, of 12,000 messages
def test_claimers_wait_five_milliseconds_at_most() -> None:
    """However much is due, no script takes longer; what the median says, since the machine is shared."""
    with (
        servers.running("--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000") as path,
        redis.Redis(unix_socket_path=path) as raw,
        Broker(f"unix://{path}") as broker,
    ):
        queues = [
            broker.queue(
                f"q{n}", redelivery=after("1h", most=1), expiry=ExpiryPolicy(retention="1ms"), lease="5s"
            )
            for n in range(4)
        ]
        for queue in queues:
            queue.send_many(["x" * 100] * 1_000)
            queue.send_many(["x" * 100] * 1_000, ttl="5s", priority=1)
            assert len(queue.claim(1_000)) == 1_000
        wait_until(lambda: all(_over(raw, queue) for queue in queues))
        raw.slowlog_reset()
        watch = MaintainedNamespace("rq", ROLES)
        while one_round(broker, watch) == 0:
            pass
        time.sleep(0.005)
        while one_round(broker, watch) == 0:
            pass
        assert +watch.done == {"swept": 4_000, "expired": 4_000, "retired": 4_000}
        took = [
            entry["duration"]
            for entry in raw.slowlog_get(100_000)
            if entry["command"].startswith(counts.WORDS) and entry["duration"] > 100
        ]
    assert len(took) > 12_000 / STEP
    assert statistics.median(took) < 5_000


def test_a_round_trip_moves_so_many_messages_at_most(broker: Broker) -> None:
    """In one queue or in many: Redis runs what comes in one go without looking at other clients."""
    for number in range(30):
        broker.queue(f"q{number}").send_many(range(40), ttl="1ms")
    time.sleep(0.002)
    watch = MaintainedNamespace("rq", ROLES)
    _, limits = limits_of(broker, upkeep_rounds.one_round(watch, bool))
    assert watch.done == {"expired": 30 * 40}
    assert 0 < max(limits) <= STEP


def limits_of(broker: Broker, steps: Steps[Any]) -> tuple[Any, list[int]]:
    """Run the steps: what they return, and of each round trip how many messages it might have moved."""
    value, limits = None, list[int]()
    while True:
        try:
            step = steps.send(value)
        except StopIteration as stop:
            return stop.value, limits
        if isinstance(step, Pipeline) and any(isinstance(call, Call) for call in step.calls):  # no look
            limits.append(sum(int(call.args["limit"]) for call in step.calls if isinstance(call, Call)))
        value = broker._run(_alone(step))


def _alone(step: Any) -> Steps[Any]:
    return (yield step)


def _over(raw: Any, queue: Any) -> bool:
    """Whether all its leases and times to live are over."""
    seconds, micro = raw.time()
    last = [raw.zrange(queue._core.keys[name], -1, -1, withscores=True) for name in ("leases", "expiring")]
    return all(rows[0][1] < seconds * 1000 + micro // 1000 for rows in last)


# Trouble


def test_a_damaged_queue_does_not_hold_up_the_others(
    broker: Broker, raw: Any, maintaining: Maintaining, caplog: Any
) -> None:
    raw.sadd("rq:queues", "bad", "worse")
    raw.set("rq:{bad}:leases", "no index")
    raw.set("rq:{worse}:states", "no hash")
    raw.zadd("rq:{worse}:expiring", {"x": 1})
    raw.hset("rq:{worse}:messages", "x", "y" * 30)
    queue = broker.queue("a")
    queue.send("x", ttl="1ms")
    with maintaining(broker):
        wait_until(lambda: places(queue) == {"expired": 1})
        queue.send("x", ttl="1ms")
        wait_until(lambda: places(queue) == {"expired": 2})
    for name in ("bad", "worse"):
        said = [line for line in caplog.messages if line.startswith(f"{name} cannot be maintained")]
        assert len(said) == 1
        assert "WRONGTYPE" in said[0]
    raw.srem("rq:queues", "bad", "worse")


def test_full_memory_does_not_stop_it(fillable: tuple[Broker, Any], maintaining: Maintaining) -> None:
    broker, raw = fillable
    queue = broker.queue("a")
    queue.send_many(["x" * 1_000] * 300, ttl="1ms")
    raw.config_set("maxmemory", raw.info("memory")["used_memory"] - 100_000)
    with maintaining(broker):
        wait_until(lambda: places(queue) == {"expired": 300})


def test_it_waits_for_redis_and_says_so_once(maintaining: Maintaining, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "rq_dlq.maintenance")
    with restartable() as (path, (kill, start)), Broker(f"unix://{path}") as broker:
        queue = broker.queue("a")
        with maintaining(broker):
            queue.send("x", ttl="1ms")
            wait_until(lambda: places(queue) == {"expired": 1})
            queue.send("y", ttl="2s")
            kill()
            wait_until(lambda: any("waiting for Redis" in line for line in caplog.messages))
            time.sleep(2.5)  # it tries again meanwhile, more than once
            start()
            wait_until(lambda: places(queue) == {"expired": 2})
    assert [line.partition(":")[0] for line in caplog.messages if "Redis" in line] == [
        "waiting for Redis",
        "Redis is back",
    ]


# What it says


def test_figures_are_noted_and_the_dead_are_forgotten(
    broker: Broker, raw: Any, maintaining: Maintaining, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq.maintenance")
    now = moment(raw.time()[0] * 1000)
    said = {"roles": ["expiry"], "longest": 5, "swept": 7, "of a later version": [1]}
    for name, ago in (("dead:1", 61), ("future:1", -100), ("alive:1", 0)):
        store(raw, name, said | {"seen_at": now - timedelta(seconds=ago)})
    raw.hset("rq:processes", "broken:1", "no JSON")
    queue = broker.queue("a")
    queue.send_many(range(3), ttl="1ms")
    with maintaining(broker, "expiry", "redelivery"):

        def own() -> Any:
            found = broker._run(processes.maintainers("rq"))
            return next((one for one in found if one.expired == 3), None)

        wait_until(own)
        one = own()
        assert one.roles == ("redelivery", "expiry")
        assert now - timedelta(seconds=2) < one.started_at <= one.seen_at
        assert one.ago < 5
        names = {key.decode().partition("/")[0] for key in raw.hkeys("rq:processes")}
        assert names == {"alive:1", one.process}
    assert raw.hkeys("rq:processes") == [b"alive:1"]
    first, *_, last = caplog.messages
    assert first.startswith("maintaining the queues of rq at unix://")
    assert first.endswith(": redelivery, expiry, every 20ms")
    assert last.startswith("stopped: 3 expired; 1 queue, longest round ")
    assert any("3 expired" in line for line in caplog.messages[1:-1])
    assert len(caplog.messages) <= 5  # not one for each round


def test_a_process_is_alive_for_three_of_its_periods(
    broker: Broker, raw: Any, maintaining: Maintaining
) -> None:
    """It says something of itself once a period, which may be an hour."""
    now = moment(raw.time()[0] * 1000)
    for name, ago, period in (("alive:1", 10_000, 3_600), ("dead:1", 11_000, 3_600), ("alive:2", 50, 1)):
        store(
            raw, name, {"roles": ["expiry"], "period": period * 1000, "seen_at": now - timedelta(seconds=ago)}
        )
    with maintaining(broker, period="5m"):
        wait_until(lambda: len(broker._run(processes.maintainers("rq"))) == 3)
        found = broker._run(processes.maintainers("rq"))
    assert [one.process for one in found if one.period != 300_000] == ["alive:1", "alive:2"]


def test_discarded_messages_are_reported_at_the_interval(
    broker: Broker, maintaining: Maintaining, caplog: Any
) -> None:
    strategy = DiscardingDeadLetterStrategy(report_interval=10)
    queue = broker.queue("a", dead_letter=strategy)
    queue.send_many(range(35))
    queue.poison(queue.claim(12), "bad")
    with maintaining(broker):
        wait_until(lambda: broker._run(processes.maintainers("rq")))
        for count, said in ((7, []), (2, ["a: 21 messages discarded so far"])):
            _let_go_by(broker)
            queue.poison(queue.claim(count), "bad")
            _let_go_by(broker)
            assert [line for line in caplog.messages if "discarded" in line] == said


def store(raw: Any, process: str, report: dict[str, Any]) -> None:
    """Store a report, as a process does."""
    raw.hset("rq:processes", process, msgspec.json.encode(report))


def _let_go_by(broker: Broker) -> None:
    """Wait until the only process has done some rounds."""
    for _ in range(3):
        (before,) = broker._run(processes.maintainers("rq"))
        wait_until(_seen_since(broker, before.seen_at))


def _seen_since(broker: Broker, when: datetime) -> Callable[[], bool]:
    return lambda: broker._run(processes.maintainers("rq"))[0].seen_at > when


@each_row("roles", [["reaper"], ["expiry", "Redelivery"], "expire", []])
def test_unknown_roles_are_told(broker: Broker, roles: Any) -> None:
    with pytest.raises(InvalidInput, match="choose from redelivery, expiry, retention"):
        Maintenance(broker, roles)


def test_a_period_that_makes_no_sense_is_told(broker: Broker) -> None:
    for period in ("9ms", 0, "often"):
        with pytest.raises(InvalidInput, match="period"):
            Maintenance(broker, period=period)


# Without any


def test_a_worker_maintains_its_own_queues(
    broker: Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what no claim does (retention), and while its consumers are busy (I15)."""
    monkeypatch.setattr("rq_dlq.worker.upkeep.UPKEEP", 0.05)
    go_on = threading.Event()
    strategy = IndividualDeadLetterStrategy(expiration="1ms")
    queue = broker.queue("a", dead_letter=strategy, redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    queue.handler()(lambda _: go_on.wait(60))
    queue.send("dead")
    queue.poison(queue.claim(), "bad")
    with working(broker):
        queue.send("long")
        wait_until(lambda: places(queue) == {"leased": 1})
        queue.send("mortal", ttl="1ms")
        wait_until(lambda: places(queue) == {"leased": 1, "expired": 1})
        go_on.set()


def test_a_worker_alone_keeps_the_pace_of_a_redrive(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round every ten seconds made a rate of 50 a second one of 5, and let 100 a second back at most."""
    now = [1000.0]
    monkeypatch.setattr("rq_dlq.worker.upkeep.time", SimpleNamespace(monotonic=lambda: now[0]))
    queue = broker.queue("a")
    queue.handler()(lambda _: None)
    queue.send_many(range(150))
    queue.poison(queue.claim(150), "bad")
    monkeypatch.setattr("rq_dlq.worker.upkeep.A_FEW", 1)  # a round moves 50
    upkeep = Upkeep([handler for handler, _ in wanted(broker._handlers, None)], Vitals(lambda: False))
    job = queue.dlq.redrive(all=True, detach=True)
    moved = list[int]()
    connections = broker._connect(FAIL_FAST)
    for seconds in (9, 2, 0.5, 1, 1.5, 9):
        now[0] += seconds
        upkeep.look(connections)
        moved.append(job.refresh().counts.moved)
    assert moved == [0, 50, 50, 100, 150, 150]


def test_all_that_maintenance_counts_has_words() -> None:
    assert set(UPKEEP) == {name for counts in DONE.values() for name in counts}
