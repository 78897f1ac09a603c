"""Workers that some of their messages kill, and maintenance processes that are killed at any time."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import redis

import rq_dlq
from rq_dlq import RedeliveryPolicy
from rq_dlq.core.processes import processes
from rq_dlq.worker.maintenance import Maintenance
from tests.forked import ForkedProcesses
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
    with ForkedProcesses() as forked:

        def all_done() -> bool:
            for name in [name for name, process in forked.processes.items() if process.exitcode is not None]:
                deaths[forked.processes[name].exitcode] += 1
                forked.kill(name)
            while len(forked.processes) < workers:
                forked.start(next(names), work, url, *args)
            stats = queue.stats()
            return stats.waiting + stats.leased == 0

        wait_until(all_done, patience)
    assert deaths.keys() == {-signal.SIGKILL}
    return deaths.total()


def maintain(url: str) -> None:
    """Maintain the queues of a server, for ever."""
    Maintenance(rq_dlq.Broker(url), period="20ms").run()


def maintained(broker: rq_dlq.Broker, url: str, done: Callable[[], bool], patience: float = 240) -> None:
    """Keep three processes at it, of which one that works is killed now and then, until all is done."""
    chance, names = random.Random(3), (f"maintenance.{n}" for n in count())
    kills, deadline = 0, time.monotonic() + patience
    with ForkedProcesses() as forked:

        def works(name: str) -> bool:
            end = f":{forked.processes[name].pid}"
            return any(one.process.endswith(end) for one in broker._run(processes.maintainers("rq")))

        while not done():
            assert time.monotonic() < deadline, "it is not done, and nobody does it"
            while len(forked.processes) < 3:
                forked.start(next(names), maintain, url)
            victim = chance.choice([*forked.processes])
            wait_until(partial(works, victim))
            time.sleep(chance.uniform(0, 0.6))
            assert forked.alive(victim), "it ended by itself"
            forked.kill(victim)
            kills += 1
    assert kills > 1  # more than ten on a machine that has nothing else to do
