"""`broker.workers()`: the reports of worker processes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from rq_dlq import ConsumerReport, ProcessReport
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.failure import moment
from tests.tables import each_row_afresh

NOW = 1_800_000_000_000  # moment(NOW) is a whole second


def store(raw: Any, process: str, *, ago: float = 0, **report: Any) -> None:
    """Store a report, as a process does."""
    seconds, micro = raw.time()
    seen = moment(seconds * 1000 + micro // 1000) - timedelta(seconds=ago)
    text = msgspec.json.encode({"seen_at": seen, "started_at": moment(NOW)} | report)
    raw.hset("rq:processes", process, text)


async def test_nobody_works(broker: Any) -> None:
    assert await broker.workers() == []


async def test_a_report_says_on_what_and_since_when(broker: Any, raw: Any) -> None:
    queues = {"orders": {"concurrency": 8, "held": 3, "oldest": 4.5}, "mail": {"concurrency": 1}}
    store(raw, "web-1:7", version="1.4", rq_dlq_version="9.9", period=5_000, queues=queues, done=5, failed=2)
    (worker,) = await broker.workers()
    assert (worker.process, worker.version, worker.rq_dlq_version) == ("web-1:7", "1.4", "9.9")
    assert worker.queues == {"orders": ConsumerReport(8, 3, 4.5), "mail": ConsumerReport(1)}
    assert (worker.held, worker.oldest, worker.done, worker.failed) == (3, 4.5, 5, 2)
    assert worker.started_at == moment(NOW)
    assert 0 <= worker.ago < 10


@each_row_afresh(
    "report, state",
    [
        ({}, "idle"),
        ({"queues": {"a": {"concurrency": 1, "held": 1, "oldest": 0.1}}}, "working"),
        ({"stopping": True}, "stopping"),
        ({"stopping": True, "ago": 16}, "silent"),
        ({"ago": 16, "period": 60_000}, "idle"),
        ({"ago": 59}, "silent"),
    ],
)
async def test_states(broker: Any, raw: Any, report: dict[str, Any], state: str) -> None:
    usual: dict[str, Any] = {"queues": {"a": {"concurrency": 1}}, "period": 5_000}
    store(raw, "a:1", **usual | report)
    assert [worker.state for worker in await broker.workers()] == [state]


async def test_two_processes_of_one_name(broker: Any) -> None:
    """In containers the host name may be the same, and the process id 1: both are seen, and one may end."""
    report = ProcessReport("web:1", queues={"a": ConsumerReport(1)}, period=5_000)
    one, other = Reporter(report), Reporter(report)
    for reporter in (one, other):
        await broker._run(reporter.note(broker.settings.namespace))
    assert [worker.process for worker in await broker.workers()] == ["web:1", "web:1"]
    await broker._run(one.leave(broker.settings.namespace))
    assert [worker.process for worker in await broker.workers()] == ["web:1"]


async def test_who_is_silent_for_long_is_forgotten(broker: Any, raw: Any) -> None:
    works: dict[str, Any] = {"queues": {"a": {"concurrency": 1}}, "period": 5_000}
    store(raw, "alive:1", **works)
    store(raw, "dead:1", ago=61, **works)
    store(raw, "from the future:1", ago=-100, **works)
    raw.hset("rq:processes", "broken:1", '{"seen_at": "2026-01-01T00:00:00"}')  # without a time zone
    assert [worker.process for worker in await broker.workers()] == ["alive:1"]
    assert raw.hkeys("rq:processes") == [b"alive:1"]


async def test_a_report_of_a_later_version_is_read(broker: Any, raw: Any) -> None:
    later = {"a": {"concurrency": 2, "held": 1, "oldest": 1, "paused": True}}
    store(raw, "a:1", queues=later, mood="good", roles=["dreaming"])
    assert [worker.held for worker in await broker.workers()] == [1]


async def test_maintenance_processes_are_no_workers(broker: Any, raw: Any) -> None:
    store(raw, "a:1", roles=["expiry"], period=1_000)
    assert await broker.workers() == []
    assert raw.hkeys("rq:processes") == [b"a:1"]
