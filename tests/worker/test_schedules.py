"""Workers and maintenance processes fire schedules."""

from __future__ import annotations

import logging
import threading
from collections import deque
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

import rq_dlq.asyncio
from rq_dlq import Broker, ConfigurationError, Delivery, InvalidInput
from rq_dlq.worker import Worker, upkeep
from rq_dlq.worker.maintenance import Maintenance
from tests.servers import wait_until
from tests.worker.conftest import Working


def make_due(raw: Any, queue: str, name: str) -> None:
    """Let the next tick of a schedule have been a moment ago."""
    seconds, micros = raw.time()
    due = seconds * 1000 + micros // 1000 - 5
    record = msgspec.json.decode(raw.hget(f"rq:{{{queue}}}:schedules", name))
    raw.hset(f"rq:{{{queue}}}:schedules", name, msgspec.json.encode(record | {"due": due}))
    raw.zadd(f"rq:{{{queue}}}:ticks", {name: due})


def test_workers_fire_each_tick_once(broker: Broker, working: Working) -> None:
    calls: deque[tuple[str, datetime]] = deque()

    @broker.task(queue="reports", every="1s")
    def report(day: str = "today", *, delivery: Delivery[Any] | None = None) -> None:
        assert delivery is not None
        calls.append((day, datetime.fromisoformat(delivery.headers["tick"])))

    with working(broker), working(broker):
        wait_until(lambda: len(calls) >= 3, 30)
    days, ticks = zip(*calls, strict=True)
    assert set(days) == {"today"}
    assert len(set(ticks)) == len(ticks)
    assert all((tick - ticks[0]) % timedelta(seconds=1) == timedelta(0) for tick in ticks)
    (said,) = broker.schedules()
    assert (said.queue, said.name, said.rule, said.declared) == ("reports", "report", "every 1s", True)


def test_a_burst_sends_what_is_due(broker: Broker, raw: Any) -> None:
    calls: list[int] = []

    @broker.task(queue="reports", cron="0 7 * * mon-fri", timezone="Europe/Berlin")
    async def report() -> None:
        calls.append(1)

    broker.run(burst=True)
    assert calls == []
    make_due(raw, "reports", "report")
    broker.run(burst=True)
    assert calls == [1]


def test_a_worker_that_starts_while_memory_is_full_works_and_declares_later(
    fillable: tuple[Broker, Any],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP", 0.05)
    calls = list[int]()
    broker, raw = fillable

    @broker.task(queue="reports", every="1h")
    def report(day: int = 0) -> None:
        calls.append(day)

    report.send(1)
    raw.config_set("maxmemory", 1)
    with working(broker):
        wait_until(lambda: calls == [1])
        assert "cannot write the schedules of the tasks: Redis is out of memory" in caplog.text
        assert broker.schedules() == []
        raw.config_set("maxmemory", 0)
        wait_until(lambda: [one.name for one in broker.schedules()] == ["report"])


async def test_an_async_program_declares_too(server: str, raw: Any) -> None:
    calls: list[int] = []
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:

        @broker.task(every="1h")
        async def tidy() -> None:
            calls.append(1)

        await broker.run(burst=True)
        make_due(raw, "tidy", "tidy")
        await broker.run(burst=True)
        assert calls == [1]
        assert [one.name for one in await broker.schedules()] == ["tidy"]


def test_what_a_worker_declares(
    server: str, broker: Broker, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    @broker.task(queue="reports", every="1h")
    def old() -> None: ...

    broker.run(burst=True)
    (first,) = broker.schedules()
    broker.queue("reports").schedule("by hand", {}, every="1h", headers={"task": "new"})
    broker.queue("reports").pause_schedule("old")
    other = Broker(f"unix://{server}")

    @other.task(queue="reports", every="2h", missed="skip")
    def new() -> None: ...

    with other, caplog.at_level(logging.WARNING):
        other.run(burst=True)
    told = [record.message for record in caplog.records if "declares it" in record.message]
    (line,) = told
    assert line.startswith("reports: schedule old is active, but no task of this program declares it: ")
    assert line.endswith("`rq-dlq schedule rm reports old` removes it")
    broker.run(burst=True)
    by_name = {one.name: one for one in broker.schedules()}
    assert by_name.keys() == {"old", "new", "by hand"}
    assert by_name["old"].paused, "the next worker does not resume it"
    assert (by_name["new"].rule, by_name["new"].missed) == ("every 2h", "skip")
    assert not by_name["by hand"].declared
    assert first.next_at is not None
    with working(broker):
        assert broker.queue("reports").resume_schedule("old")


def test_a_maintenance_process_fires(broker: Broker, raw: Any) -> None:
    broker.queue("orders").schedule("t", 0, every="1h")
    make_due(raw, "orders", "t")
    maintenance = Maintenance(broker, ["schedules"], "20ms")
    thread = threading.Thread(target=maintenance.run)
    thread.start()
    wait_until(lambda: broker.queue("orders").stats().ready == 1, 15)
    maintenance.stop()
    thread.join(15)
    assert maintenance._watch.done["fired"] == 1


def test_a_task_with_arguments_cannot_be_scheduled(broker: Broker) -> None:
    @broker.task(every="1h")
    def report(day: str) -> None:
        del day

    with pytest.raises(ConfigurationError, match="task 'report' has a schedule, which sends no arguments"):
        Worker(broker)


def test_a_rule_is_checked_where_it_is_written(broker: Broker) -> None:
    with pytest.raises(InvalidInput, match="Bad minute"):
        broker.task(cron="60 * * * *")(print)
    with pytest.raises(InvalidInput, match="either cron"):
        broker.task(timezone="Europe/Berlin")(print)
    with pytest.raises(InvalidInput, match="either cron"):
        broker.task(cron="* * * * *", every="1h")(print)
