"""A server whose memory is full refuses what adds, and lets the rest drain it (I9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from rq_dlq import Broker, BrokerRefused, RedeliveryPolicy
from rq_dlq.settings import version_of
from tests import servers
from tests.audit import audit


@pytest.fixture
def full() -> Iterator[tuple[Broker, Any]]:
    """A broker whose server has taken 300 messages and takes no more."""
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        Broker(f"unix://{path}") as broker,
    ):
        queue = broker.queue(
            "q", redelivery=RedeliveryPolicy(initial_delay="1h", max_delay="1h", max_redeliveries=1)
        )
        queue.send_many(["x" * 1000] * 300)
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] - 100_000)
        yield broker, raw


def test_a_send_is_refused_and_adds_nothing(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    with pytest.raises(BrokerRefused, match="out of memory"):
        broker.queue("q").send("y" * 1000)
    assert audit(raw, "q")["ready"] == 300


def test_what_is_there_can_be_drained(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    if version_of(raw.info("server")["redis_version"]) < (7,):
        pytest.skip("before Redis 7 no script may add a lease when memory is full")
    queue = broker.queue("q")
    queue.nack(queue.claim(100), ValueError("x"))
    queue.poison(queue.claim(50), "bad")
    queue.release(queue.claim(50))
    while deliveries := queue.claim(100):
        queue.ack(deliveries)
    assert audit(raw, "q") == {"scheduled": 100, "dead": 50}
    assert queue.stats().totals["acked"] == 150
