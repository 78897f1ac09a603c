"""Workers of two versions of a program: the new one has one more task, and a task with one more argument."""

from __future__ import annotations

import logging
from typing import Any, Literal

import redis

import rq_dlq
from rq_dlq import Delivery, Task
from rq_dlq.testing.clock import MOVED_CLOCK

Version = Literal["old", "new"]
SHOP, CALLED = "shop", "called"
LEASE = "24h"  # longer than all that the clock is moved by


def program(url: str, version: Version) -> tuple[rq_dlq.Broker, dict[str, Task[..., Any]]]:
    """A version of the program: its broker, and its tasks by name. A call notes what its delivery says."""
    broker = rq_dlq.Broker(url, verbs=MOVED_CLOCK)
    queue = broker.queue(SHOP, lease=LEASE, outcomes=1_000_000)
    raw = redis.Redis.from_url(url)

    def note(delivery: Delivery[Any]) -> None:
        raw.rpush(CALLED, f"{delivery.id} {delivery.attempt} {int(delivery.redelivered)}")

    def known(n: int, delivery: Delivery[Any]) -> None:
        del n
        note(delivery)

    def fresh(n: int, delivery: Delivery[Any]) -> None:
        del n
        note(delivery)

    def grown_before(n: int, delivery: Delivery[Any]) -> None:
        del n
        note(delivery)

    def grown(n: int, delivery: Delivery[Any], vat: int = 0) -> None:
        del n, vat
        note(delivery)

    if version == "old":
        functions = {"known": known, "grown": grown_before}
    else:
        functions = {"known": known, "grown": grown, "fresh": fresh}
    return broker, {name: broker.task(queue=queue, name=name)(task) for name, task in functions.items()}


def work(url: str, version: Version) -> None:
    """Run a worker of this version until it is told to stop."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    program(url, version)[0].run()
