"""`WorkerMetrics`: what Prometheus sees of the handlers of a process."""

from __future__ import annotations

import asyncio as aio
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import rq_dlq
from rq_dlq import Poison, RedeliveryPolicy, asyncio
from rq_dlq.telemetry.metrics import WorkerMetrics
from rq_dlq.worker import Worker
from tests.conftest import Clock
from tests.servers import wait_until
from tests.telemetry.exposition import scrape

ONCE = RedeliveryPolicy(max_redeliveries=0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def handled(registry: CollectorRegistry, outcome: str, queue: str = "orders") -> float:
    return scrape(registry).get(f'rq_dlq_handling_seconds_count{{outcome="{outcome}",queue="{queue}"}}', 0)


def act(body: str, delivery: Any) -> None:
    match body:
        case "fails":
            raise ValueError("sold out")
        case "poison":
            raise Poison("never")
        case "by hand":
            delivery.ack()
        case _:
            pass


BODIES = ["good", "good", "fails", "poison", "by hand"]


def test_handlers_by_their_outcome(sync_broker: rq_dlq.Broker, registry: CollectorRegistry) -> None:
    sync_broker.observe(WorkerMetrics(registry))
    orders = sync_broker.queue("orders", redelivery=ONCE)
    orders.handler()(act)
    orders.send_many(BODIES)
    Worker(sync_broker, until="empty").run()
    assert [handled(registry, outcome) for outcome in ("acked", "dead")] == [3, 2]
    seen = scrape(registry)
    assert 0 < seen['rq_dlq_handling_seconds_sum{outcome="acked",queue="orders"}'] < 60
    assert seen['rq_dlq_time_in_queue_seconds_count{queue="orders"}'] == 5
    assert seen['rq_dlq_running_handlers{queue="orders"}'] == 0


def test_async_handlers(redis_socket: str, registry: CollectorRegistry) -> None:
    broker = asyncio.Broker(f"unix://{redis_socket}", namespace="metrics-of-async-handlers")
    broker.observe(WorkerMetrics(registry))
    orders = broker.queue("orders", redelivery=ONCE)

    @orders.handler(concurrency=3)
    async def handle(body: str, delivery: Any) -> None:
        await aio.sleep(0)
        if body == "by hand":
            await delivery.ack()
        else:
            act(body, delivery)

    async def send() -> None:
        await orders.send_many(BODIES)
        await broker.close()

    aio.run(send())
    Worker(broker, until="empty").run()
    assert [handled(registry, outcome) for outcome in ("acked", "dead")] == [3, 2]


def test_the_time_in_queue_is_from_due_to_claim_by_the_servers_clock(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock
) -> None:
    sync_broker.observe(WorkerMetrics(registry))
    orders = sync_broker.queue("orders")
    orders.send(1, delay="1h")
    clock.advance(3_600 + 20)
    (delivery,) = orders.claim()
    clock.advance(500)
    delivery.extend("1h")
    with delivery:
        pass
    waited = scrape(registry)['rq_dlq_time_in_queue_seconds_sum{queue="orders"}']
    assert 20 <= waited < 25


def test_a_redelivery_waits_from_its_own_due_time(
    sync_broker: rq_dlq.Broker, registry: CollectorRegistry, clock: Clock
) -> None:
    sync_broker.observe(WorkerMetrics(registry))
    orders = sync_broker.queue("orders", redelivery=RedeliveryPolicy(delays=[600], collision_avoidance=0))
    orders.send(1)
    orders.claim()[0].nack()
    clock.advance(610)
    with orders.claim()[0]:
        pass
    assert 10 <= scrape(registry)['rq_dlq_time_in_queue_seconds_sum{queue="orders"}'] < 15


def test_running_handlers(sync_broker: rq_dlq.Broker, registry: CollectorRegistry) -> None:
    sync_broker.observe(WorkerMetrics(registry))
    orders, go_on = sync_broker.queue("orders"), threading.Event()
    orders.handler(concurrency=2)(lambda _: go_on.wait(60))
    orders.send_many([1, 2])
    worker = Worker(sync_broker, until="empty")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: scrape(registry).get('rq_dlq_running_handlers{queue="orders"}') == 2)
    finally:
        go_on.set()
        thread.join(30)
    assert scrape(registry)['rq_dlq_running_handlers{queue="orders"}'] == 0
    assert handled(registry, "acked") == 2
