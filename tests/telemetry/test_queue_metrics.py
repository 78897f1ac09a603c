"""`QueueCollector`: what Prometheus sees of the queues."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import rq_dlq
from rq_dlq import asyncio
from rq_dlq.telemetry import metrics
from rq_dlq.telemetry._queues import COUNTERS
from rq_dlq.telemetry.metrics import QueueCollector
from rq_dlq.values.counts import DIED
from rq_dlq.values.failure import moment
from tests.conftest import Clock
from tests.servers import Server
from tests.telemetry.exposition import registry_of, scrape


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_AGE", 0.0)


@pytest.fixture
def registry(sync_broker: rq_dlq.Broker) -> CollectorRegistry:
    return registry_of(QueueCollector(sync_broker))


def report(raw: Any, process: str, *, ago: float = 0, **facts: Any) -> None:
    """Store the report of a process."""
    seconds, _ = raw.time()
    seen = moment((seconds - ago) * 1000)
    raw.hset("rq:processes", process, msgspec.json.encode({"seen_at": seen, "started_at": seen} | facts))


def bury(queue: rq_dlq.Queue[Any], count: int, error: Exception | str) -> None:
    queue.send_many(range(count))
    queue.poison(queue.claim(count), error)


def test_messages_by_state(sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock) -> None:
    orders = sync_broker.queue("orders")
    bury(orders, 3, ValueError("sold out"))
    orders.send(1, ttl="10s")
    clock.advance(20)
    orders.claim()
    orders.send_many([1, 2, 3])
    orders.send(4, delay="1h")
    orders.claim()
    seen = scrape(registry)
    states = ("ready", "scheduled", "leased", "dead", "expired")
    assert [seen[f'rq_dlq_messages{{queue="orders",state="{state}"}}'] for state in states] == [2, 1, 1, 3, 1]


def test_ages_are_in_seconds_of_the_servers_clock(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock
) -> None:
    orders = sync_broker.queue("orders", lease="10s")
    sync_broker.queue("mail").send(1, delay="1h")
    orders.send_many([1, 2])
    orders.claim()
    clock.advance(40)
    seen = scrape(registry)
    assert 40 <= seen['rq_dlq_oldest_ready_age_seconds{queue="orders"}'] < 41
    assert 30 <= seen['rq_dlq_overdue_seconds{queue="orders"}'] < 31
    assert seen['rq_dlq_oldest_ready_age_seconds{queue="mail"}'] == 0
    assert seen['rq_dlq_overdue_seconds{queue="mail"}'] == 0


def test_how_late_schedules_are(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock
) -> None:
    orders = sync_broker.queue("orders")
    orders.schedule("hourly", {}, every="1h")
    orders.schedule("paused", {}, every="1s")
    orders.pause_schedule("paused")
    name = 'rq_dlq_schedule_overdue_seconds{queue="orders"}'
    assert scrape(registry)[name] == 0
    clock.advance("1h2m")
    assert 118 <= scrape(registry)[name] < 125
    orders.maintain()
    assert scrape(registry)[name] == 0


def test_counters(sync_broker: rq_dlq.Broker, registry: CollectorRegistry) -> None:
    orders = sync_broker.queue("orders")
    bury(orders, 2, "sold out")
    orders.send_many(range(4))
    first, second, third, _ = orders.claim(4)
    first.ack()
    second.nack()
    third.release()
    orders.dlq.redrive(all=True).wait("5s")
    seen = scrape(registry)
    counted = {name: seen[f'rq_dlq_{name}_total{{queue="orders"}}'] for name in COUNTERS}
    wanted = {"sent": 6, "acked": 1, "nacked": 1, "released": 1, "redriven": 2}
    assert counted == dict.fromkeys(COUNTERS, 0) | wanted
    assert seen['rq_dlq_died_total{queue="orders",reason="poison"}'] == 2
    assert seen['rq_dlq_died_total{queue="orders",reason="exhausted"}'] == 0


def test_every_counter_of_a_queue_has_a_metric() -> None:
    """`QueueStats.totals` names them."""
    named = (rq_dlq.QueueStats.__doc__ or "").partition("reset: ")[2].partition(".")[0].replace("\n", " ")
    assert {name.strip() for name in named.split(",")} == {*COUNTERS, *DIED}


def test_a_counter_begins_again_with_its_queue(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry
) -> None:
    orders = sync_broker.queue("orders")
    orders.send(1)
    orders.claim()[0].ack()
    assert scrape(registry)['rq_dlq_sent_total{queue="orders"}'] == 1
    orders.delete()
    assert not [name for name in scrape(registry) if "orders" in name]
    sync_broker.queue("orders").send(1)
    seen = scrape(registry)
    assert seen['rq_dlq_sent_total{queue="orders"}'] == 1
    assert seen['rq_dlq_acked_total{queue="orders"}'] == 0


def test_a_paused_queue(sync_broker: rq_dlq.Broker, registry: CollectorRegistry) -> None:
    orders = sync_broker.queue("orders")
    orders.send(1)
    assert scrape(registry)['rq_dlq_queue_paused{queue="orders"}'] == 0
    orders.pause()
    assert scrape(registry)['rq_dlq_queue_paused{queue="orders"}'] == 1


def test_the_ten_largest_groups_of_all_queues(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry
) -> None:
    text = "card 4711 was refused"
    bury(sync_broker.queue("orders"), 5, ValueError(text))
    for number in range(12):
        kind = type(f"Error{number}", (Exception,), {})
        bury(sync_broker.queue("mail"), 3 if number < 9 else 1, kind("no answer"))
    seen, family = scrape(registry), "rq_dlq_dead_letter_group_messages"
    groups = {name: count for name, count in seen.items() if name.startswith(family)}
    assert sorted(groups.values()) == [3] * 9 + [5]
    (largest,) = [name for name, count in groups.items() if count == 5]
    (group,) = sync_broker.queue("orders").dlq.groups()
    assert largest == (
        'rq_dlq_dead_letter_group_messages{error_class="ValueError",'
        f'fingerprint="{group.fingerprint}",queue="orders"}}'
    )
    assert not any(text in name for name in scrape(registry))
    sync_broker.queue("orders").dlq.mute(group=group)
    muted = [name for name, value in scrape(registry).items() if "group_muted" in name and value == 1]
    assert muted == [largest.replace("_messages", "_muted")]


def test_redrives(sync_broker: rq_dlq.Broker, registry: CollectorRegistry) -> None:
    orders = sync_broker.queue("orders")
    bury(orders, 10, ValueError("sold out"))
    orders.dlq.redrive(limit=2).wait("5s")
    job = orders.dlq.redrive(all=True, canary=3, min_success=0.5)
    job.pause()
    seen = scrape(registry)
    assert seen['rq_dlq_redrive_jobs{queue="orders",state="done"}'] == 1
    assert seen['rq_dlq_redrive_jobs{queue="orders",state="paused"}'] == 1
    progress = [
        seen[f'rq_dlq_redrive_messages{{progress="{name}",queue="orders"}}'] for name in ("eligible", "moved")
    ]
    assert progress == [8, 0]
    job.cancel()
    assert not [name for name in scrape(registry) if name.startswith("rq_dlq_redrive_messages")]


def test_maintenance_processes(registry: CollectorRegistry, raw: Any) -> None:
    assert scrape(registry)["rq_dlq_maintenance_processes"] == 0
    assert "rq_dlq_maintenance_report_age_seconds" not in scrape(registry)
    report(raw, "here:1", roles=["redelivery"])
    report(raw, "here:2", roles=["redelivery"], ago=30)
    seen = scrape(registry)
    assert seen["rq_dlq_maintenance_processes"] == 1
    assert 0 <= seen["rq_dlq_maintenance_report_age_seconds"] < 15


def test_workers_by_queue(sync_broker: rq_dlq.Broker, registry: CollectorRegistry, raw: Any) -> None:
    sync_broker.queue("orders").send(1)
    sync_broker.queue("mail").send(1)
    report(raw, "a:1", queues={"orders": {"concurrency": 2, "held": 1, "oldest": 5.0}})
    report(raw, "a:2", queues={"orders": {"concurrency": 2}, "DLQ.orders": {"concurrency": 1}}, ago=4)
    report(raw, "dead:1", queues={"orders": {"concurrency": 1, "held": 1, "oldest": 90.0}}, ago=30)
    seen = scrape(registry)
    workers = [seen[f'rq_dlq_workers{{queue="{name}"}}'] for name in ("orders", "mail", "DLQ.orders")]
    assert workers == [2, 0, 1]
    assert 5 <= seen['rq_dlq_oldest_held_age_seconds{queue="orders"}'] < 15
    assert seen['rq_dlq_oldest_held_age_seconds{queue="mail"}'] == 0


def test_however_many_ask_redis_is_read_once_a_second(
    sync_broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []
    overview = sync_broker.overview

    def counted(before: Any) -> Any:
        reads.append(before)
        return overview(before)

    monkeypatch.setattr(sync_broker, "overview", counted)
    monkeypatch.setattr(metrics, "MAX_AGE", 60.0)
    registry = registry_of(QueueCollector(sync_broker))
    assert not reads  # to register it reads nothing
    askers = [threading.Thread(target=lambda: scrape(registry)) for _ in range(5)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(reads) == 1


def test_an_async_broker(redis_socket: str) -> None:
    broker = asyncio.Broker(f"unix://{redis_socket}", namespace="metrics-of-async")
    assert scrape(registry_of(QueueCollector(broker)))["rq_dlq_up"] == 1


@pytest.mark.redis
def test_redis_is_away_and_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Server(tmp_path) as server:
        broker = rq_dlq.Broker(server.url)
        registry = registry_of(QueueCollector(broker))
        broker.queue("orders").send(1)
        assert scrape(registry)["rq_dlq_up"] == 1
        server.kill()
        with caplog.at_level(logging.WARNING, "rq_dlq.metrics"):
            assert scrape(registry) == scrape(registry) == {"rq_dlq_up": 0}
        (record,) = caplog.records
        assert "cannot reach" in record.message
        server.start()
        assert scrape(registry)["rq_dlq_up"] == 1


@pytest.mark.redis
def test_a_scrape_does_not_wait_for_a_redis_that_hangs(
    sync_broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "READ_WITHIN", 0.05)
    hangs = threading.Event()
    overview = sync_broker.overview
    monkeypatch.setattr(sync_broker, "overview", lambda before: (hangs.wait(60), overview(before))[1])
    collector = QueueCollector(sync_broker)
    registry = registry_of(collector)
    assert scrape(registry) == {"rq_dlq_up": 0}
    hangs.set()
    monkeypatch.setattr(metrics, "READ_WITHIN", 60.0)
    assert scrape(registry)["rq_dlq_up"] == 1


def test_a_dependency_that_is_down(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock
) -> None:
    queue = sync_broker.queue("orders", breaker=rq_dlq.Breaker(distinct=2))
    queue.send_many(range(4), dependency="payments")
    for one in queue.claim(2):
        one.nack("down")
    labels = {"queue": "orders", "dependency": "payments"}
    assert registry.get_sample_value("rq_dlq_breaker_open", labels) == 1
    assert queue.claim(9) == []
    clock.advance("25s")
    oldest = registry.get_sample_value("rq_dlq_oldest_blocked_age_seconds", {"queue": "orders"})
    assert oldest == pytest.approx(25, abs=1)
    assert registry.get_sample_value("rq_dlq_oldest_ready_age_seconds", {"queue": "orders"}) == 0
    queue.dependency("payments").pause()
    assert registry.get_sample_value("rq_dlq_breaker_open", labels) == 0, (
        "no alert for what is paused by hand"
    )
    queue.dependency("payments").resume()
    queue.ack(queue.claim(9)[:1])
    assert registry.get_sample_value("rq_dlq_breaker_open", labels) == 0
