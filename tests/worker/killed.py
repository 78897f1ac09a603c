"""Workers that some of their messages kill."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from itertools import count
from typing import Any

import redis

import rq_dlq
from rq_dlq import RedeliveryPolicy
from tests.crowd import Crowd
from tests.servers import wait_until

CHARGED = "charged"  # a list of the innocent that were charged, as they were when their handler ran


def queue_of(broker: rq_dlq.Broker, most: int) -> rq_dlq.Queue[Any]:
    """With a budget of so many redeliveries."""
    return broker.queue("a", lease=2.5, redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=most))


def work(url: str, colour: str, concurrency: int, seconds: float, most: int) -> None:
    """Run a worker, for ever; the message "kill" kills it, any other takes so many seconds."""
    broker, notes = rq_dlq.Broker(url), redis.Redis.from_url(url)

    def plain(body: Any, delivery: Any) -> None:
        if body == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if delivery.charged:
            notes.rpush(CHARGED, str(body))
        time.sleep(seconds)  # what such a handler is for

    async def awaiting(body: Any, delivery: Any) -> None:
        plain(body, delivery)

    register = queue_of(broker, most).handler(concurrency=concurrency)
    register(plain if colour == "def" else awaiting)
    broker.run()


def drained(queue: rq_dlq.Queue[Any], url: str, workers: int, *args: Any, patience: float = 120) -> int:
    """Keep so many workers at it until all is settled; how many were killed."""
    deaths, names = Counter[int | None](), (f"worker.{n}" for n in count())
    with Crowd() as crowd:

        def all_done() -> bool:
            for name in [name for name, process in crowd.processes.items() if process.exitcode is not None]:
                deaths[crowd.processes[name].exitcode] += 1
                crowd.kill(name)
            while len(crowd.processes) < workers:
                crowd.start(next(names), work, url, *args)
            stats = queue.stats()
            return stats.waiting + stats.leased == 0

        wait_until(all_done, patience)
    assert deaths.keys() == {-signal.SIGKILL}
    return deaths.total()
