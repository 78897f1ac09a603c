"""T18: the server would drop whole queues when its memory is full, from the start or from some moment on."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from click.testing import CliRunner

import rq_dlq.asyncio
from rq_dlq import Broker, BrokerRefused
from rq_dlq.cli import main
from rq_dlq.values.durations import milliseconds
from rq_dlq.worker import Worker
from rq_dlq.worker.maintenance import Maintenance
from rq_dlq.worker.stopping import TICK
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until

UNSAFE = (
    "allkeys-lru", "allkeys-lfu", "allkeys-random",
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
)  # fmt: skip
WITHIN = 60.0  # seconds
OFTEN = "50ms"  # between two looks at the server, here


class Alarms(logging.Handler):
    """What is logged as an error of the server."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said.append(record.getMessage())

    def about(self, policy: str) -> bool:
        """Whether the last one was about this policy."""
        return bool(self.said) and policy in self.said[-1]


def run(run: Run) -> Figures:
    """Each policy at the start, then each one switched on while a worker or a maintenance process runs."""
    refused = [policy for policy in UNSAFE if is_refused(run, policy)]
    run.done(1, 3, "at start")
    slowest, logger, alarms = 0.0, logging.getLogger("rq_dlq.doctor"), Alarms()
    logger.addHandler(alarms)
    logger.propagate = False
    try:
        for n, kind in enumerate((working, maintaining), 2):
            with Server(run.directory / kind.__name__) as server, kind(server):
                slowest = max(slowest, slowest_alarm(server, alarms))
            run.done(n, 3, kind.__name__)
    finally:
        logger.removeHandler(alarms)
        logger.propagate = True
    as_it_is = slowest - milliseconds(OFTEN, name="period") / 1000 + usual_period()
    return Figures(
        trials=3 * len(UNSAFE),
        met=len(refused) == len(UNSAFE) and as_it_is < WITHIN,
        note=f"{len(refused)} of {len(UNSAFE)} refused at start, no key written; looked at each {OFTEN} the "
        f"slowest alarm came after {slowest * 1000:.0f} ms: as it is set, after {as_it_is:.1f} s",
    )


def is_refused(run: Run, policy: str) -> bool:
    """Whether everyone refuses such a server, and writes nothing."""
    options = ("--maxmemory", "50mb", "--maxmemory-policy", policy)
    with Server(run.directory / policy, *options) as server, server.client() as raw:
        broker = Broker(server.url)
        broker.queue("q").handler()(print)
        attempts: tuple[Callable[[], Any], ...] = (
            lambda: broker.queue("q").send("x"),
            lambda: broker.queue("q").claim(),
            lambda: asyncio.run(sent_awaiting(server.url)),
            Worker(broker, until="empty").run,
        )
        doctor = CliRunner().invoke(main, ["--url", server.url, "doctor"])
        return all(map(refuses, attempts)) and doctor.exit_code == 1 and raw.dbsize() == 0


def refuses(attempt: Callable[[], Any]) -> bool:
    """Whether it says what to do."""
    try:
        attempt()
    except BrokerRefused as error:
        return "maxmemory-policy noeviction" in str(error)
    return False


async def sent_awaiting(url: str) -> None:
    """Send in the other colour."""
    async with rq_dlq.asyncio.Broker(url) as broker:
        await broker.queue("q").send("x")


def slowest_alarm(server: Server, alarms: Alarms) -> float:
    """Switch on each policy, and back: the seconds until the slowest alarm."""
    slowest = 0.0
    with server.client() as raw:
        for policy in UNSAFE:
            began = time.monotonic()
            raw.config_set("maxmemory-policy", policy)
            wait_until(partial(alarms.about, policy))
            slowest = max(slowest, time.monotonic() - began)
            raw.config_set("maxmemory-policy", "noeviction")
    return slowest


@contextmanager
def working(server: Server) -> Iterator[None]:
    """A worker runs meanwhile."""
    broker, begun = Broker(server.url), threading.Event()
    broker.queue("q").handler()(lambda _: begun.set())
    broker.queue("q").send("x")
    worker = Worker(broker, checkup=OFTEN)
    with in_a_thread(worker.run, worker.stop.finishing.set):
        wait_until(begun.is_set)
        yield


@contextmanager
def maintaining(server: Server) -> Iterator[None]:
    """A maintenance process runs meanwhile."""
    maintenance = Maintenance(Broker(server.url), period="100ms", checkup=OFTEN)
    with in_a_thread(maintenance.run, maintenance.stop), server.client() as raw:
        wait_until(raw.dbsize)  # it has reported
        yield


@contextmanager
def in_a_thread(target: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """It has ended when the block does."""
    with ExitStack() as stack:
        thread = threading.Thread(target=target)
        thread.start()
        stack.callback(thread.join, 15)
        stack.callback(stop)
        yield


def usual_period() -> float:
    """Seconds between two looks of a worker or a maintenance process at the server, at most."""
    periods = (inspect.signature(kind).parameters["checkup"].default for kind in (Worker, Maintenance))
    return max(milliseconds(period, name="checkup") for period in periods) / 1000 + TICK


ROWS = (
    Row(
        "T18",
        f"the {len(UNSAFE)} unsafe eviction policies, at start and switched on at run time",
        f"refused at start, alarm within {WITHIN:.0f} s: {len(UNSAFE)} of {len(UNSAFE)}",
        run,
    ),
)
