"""T14: a server that forgets libraries and scripts over and over, and is killed; no caller notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import rq_dlq
import rq_dlq.asyncio
from rq_dlq._redis import Retries
from rq_dlq._redis.exchange import packed
from tests.connections.sources import Address, Colour, Direct
from tests.proofs.reliability.findings import first, wrong
from tests.proofs.reliability.lossy import Work, live
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, forms, free_port
from tests.servers.counts import verbs_failed
from tests.verbs.life import Life

FLUSH_EVERY = 0.1  # seconds
FOREIGN = 600  # scripts of others after each flush; they come by EVAL, ours by FUNCTION LOAD or SCRIPT LOAD
KEPT = 500  # of them, by every server; from Redis 7.4 on no more, which is only about what came by EVAL
RARELY = 1_000  # calls: a flush that comes only once in so many is none to speak of
OTHERS = b"".join(packed((b"EVAL", f"return {n}", 0)) for n in range(FOREIGN))
SIDE_BY_SIDE = 3  # brokers
AS_WORKERS = Retries(attempts=None, seconds=20)
"""A worker waits for the server for ever; a producer would be told after a second."""


def connected(broker: Any, at: Address) -> Any:
    """A broker of a worker's patience."""
    return broker(at.url, retries=AS_WORKERS)


@dataclass
class Forgetful:
    """A server whose libraries and scripts are flushed over and over, and replaced by scripts of others.

    Attributes:
        flushes: how often that was.
        crowded: how often it knew as many scripts afterwards as it keeps.
        missed: calls that it refused, since it did not know their verb.
        evicted: scripts that it dropped by itself: foreign ones, for ours come by SCRIPT LOAD.
        seconds: that it lasted.
    """

    server: Server
    flushes: int = 0
    crowded: int = 0
    missed: int = 0
    evicted: int = 0
    restarts: int = 0
    seconds: float = 0

    @contextmanager
    def meanwhile(self, restarts: int) -> Generator[None]:
        """It forgets, and is killed so many times more."""
        over, began = threading.Event(), time.monotonic()
        with ThreadPoolExecutor(1) as thread:
            going = thread.submit(self._go_on, over, self.restarts + restarts)
            try:
                yield
            finally:
                over.set()
        going.result()
        self.seconds += time.monotonic() - began

    def _go_on(self, over: threading.Event, restarts: int) -> None:
        pause = FLUSH_EVERY
        while not over.wait(pause):
            began = time.monotonic()
            self._forget()
            if self.restarts < restarts and self.flushes % 2:
                self._count()
                self.server.kill()
                self.server.start()
                self.restarts += 1
            pause = max(0, began + FLUSH_EVERY - time.monotonic())
        self._count()

    def _forget(self) -> None:
        with self.server.client() as client:
            client.function_flush()
            client.script_flush()
            self.flushes += 1
            connection = client.connection_pool.get_connection()
            connection.send_packed_command([OTHERS])
            for _ in range(FOREIGN):
                connection.read_response()
            client.connection_pool.release(connection)
            self.crowded += client.info("memory")["number_of_cached_scripts"] >= KEPT

    def _count(self) -> None:
        """What the server counts, which begins anew when it starts again."""
        with self.server.client() as client:
            self.missed += verbs_failed(client)
            self.evicted += client.info("stats").get("evicted_scripts", 0)


@contextmanager
def beginning(form: str) -> Generator[None]:
    """New brokers begin with functions, or with the text as a script."""
    try:
        forms.use(form)
        yield
    finally:
        forms.use("functions")


def run(run: Run) -> Figures:
    """Have messages live on such a server, by calls of either colour, in either form of the verbs."""
    lives, restarts = run.pick(short=(60, 1), whole=(1_000, 10), soak=(20_000, 200))
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    kinds: tuple[tuple[Colour, type, str], ...] = (
        ("blocking", rq_dlq.Broker, "functions"),
        ("awaiting", rq_dlq.asyncio.Broker, "functions"),
        ("blocking", rq_dlq.Broker, "text"),
        ("awaiting", rq_dlq.asyncio.Broker, "text"),
    )
    lived: list[Life] = []
    with Server(run.directory, *kept, port=free_port()) as server, server.client() as raw:
        forgetful = Forgetful(server)
        for number, (colour, broker, form) in enumerate(kinds):
            works = [
                Work(partial(connected, broker), f"{colour}-{form}{n}", lives // len(kinds) // SIDE_BY_SIDE)
                for n in range(SIDE_BY_SIDE)
            ]
            with beginning(form), forgetful.meanwhile(restarts // len(kinds) or 1):
                lived += chain.from_iterable(live(works, Direct(server), colour))
            run.done(number + 1, len(kinds))
        for life in lived:
            life.look(raw)
    return judged(lived, forgetful, run.pick(short=1_200, whole=20_000), restarts)


def judged(lived: Sequence[Life], server: Forgetful, least: int, restarts: int) -> Figures:
    """What came of it all.

    Args:
        least: calls that there should be.
    """
    calls = sum(life.calls.total() for life in lived)
    unknown = sum(life.unknown for life in lived)
    found = first([finding for life in lived for finding in life.wrong]) + wrong(
        {
            "calls with an error": unknown,
            "calls too few": max(0, least - calls),
            "flushes too few": max(0, calls // RARELY - server.flushes),
            "calls that met a flush too few": max(0, calls // RARELY - server.missed),
            "flushes without the scripts of others": server.flushes - server.crowded,
            "restarts too few": max(0, restarts - server.restarts),
        }
    )
    each = 1_000 * server.seconds / max(1, server.flushes)
    counted = [
        f"{calls:,} calls, {unknown} of them with an error",
        f"{server.flushes} flushes, one each {each:.0f} ms; {server.restarts} restarts",
        f"{server.missed:,} times a verb was not there",
        f"{server.flushes * FOREIGN:,} scripts of others, of which the server dropped {server.evicted:,}",
    ]
    return Figures(
        trials=server.flushes + server.restarts,
        acknowledged=sum(life.acknowledged for life in lived),
        met=not found,
        note="; ".join(found + counted),
    )


ROWS = (
    Row(
        "T14",
        "FUNCTION FLUSH and SCRIPT FLUSH each 100 ms, restarts, 600 scripts of others after each flush",
        "20,000 calls, 0 errors for the user",
        run,
    ),
)
