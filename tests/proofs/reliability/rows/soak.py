"""T31: everything at once, at random, for a while."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from redis import exceptions

import rq_dlq
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import BATCH, Place, consume, is_empty, send, steadily, work
from tests.proofs.reliability.findings import audited, counters, remaining, unexplained, wrong
from tests.proofs.reliability.journal import sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.rows import full_memory
from tests.proofs.reliability.site import Site
from tests.servers import Server, wait_until

LEASE = 1_000  # milliseconds
SENDERS, CONSUMERS = 3, 4
PACE = 0.05  # seconds between two chunks of a sender
PAUSES = (0.05, 0.5)  # seconds between two blows
STANDSTILL = (0.2, 1.5)  # seconds that a process stands still
SMALL = "1mb"  # of memory, less than an empty server takes
DRAIN = 60.0  # seconds
ASIDE = "{{{}}}.aside"  # beside a queue, on the same server
SOME = 20  # messages of a move


def send_steadily(place: Place, sender: str) -> None:
    """Send until one is killed, but no faster than PACE; what a full server refuses is given up."""
    chunks = steadily(PACE)
    while True:
        with contextlib.suppress(rq_dlq.BrokerRefused):
            send(place, sender, chunks)


def aside_of(queue: rq_dlq.Queue[int]) -> rq_dlq.Queue[Any]:
    """Where messages of a queue are moved to, and back."""
    return queue._broker.queue(ASIDE.format(queue.name))


def work_awaiting(place: Place) -> None:
    """Run a worker whose handler is a coroutine, for ever."""
    work(place, BATCH, colour="async def")


def move_about(place: Place) -> None:
    """Move some of what waits to another queue and back, until one is killed."""
    for queue, _ in zip(cycle(place.open()), steadily(PACE), strict=False):
        aside = aside_of(queue)
        with contextlib.suppress(rq_dlq.BrokerRefused):
            aside.open()
            queue.select(limit=SOME).move(aside)
            aside.select(limit=SOME).move(queue)


@dataclass
class Nemesis:
    """Hits servers and their clients, one blow after the other, as the seed has it.

    Attributes:
        dealt: how often all kinds of blows have come.
    """

    site: Site
    forked: ForkedProcesses
    place: Place
    drawn: random.Random
    blows: Counter[str] = field(default_factory=Counter)
    dealt: int = 0
    _left: list[Callable[[], None]] = field(default_factory=list)
    _started: int = 0

    def begin(self) -> None:
        """Bring everybody on stage."""
        for act, number in ACTORS.items():
            for _ in range(number):
                self._start(act)

    def strike(self) -> None:
        """One blow."""
        if not self._left:
            self._left = [
                self._kill_a_process, self._kill_a_process, self._freeze_a_process, self._kill_the_server,
                self._freeze_the_server, self._forget_scripts, self._cut_connections, self._fill_memory,
                self._rewrite_the_file,
            ]  # fmt: skip
            self._left += [self._move_a_queue] * (len(self.site.servers) > 1)
            self.drawn.shuffle(self._left)
        blow = self._left.pop()
        blow()
        self.dealt += not self._left
        self.blows[blow.__name__.strip("_").replace("_", " ")] += 1

    def _start(self, act: Callable[..., None]) -> None:
        self._started += 1
        name = f"{act.__name__}-{self._started}"
        mine = (self.place, f"s{self._started}") if act is send_steadily else (self.place,)
        self.forked.start(name, act, *mine)

    def _anyone(self) -> str:
        name = self.drawn.choice(sorted(self.forked.processes))
        assert self.forked.alive(name)
        return name

    def _kill_a_process(self) -> None:
        name = self._anyone()
        self.forked.kill(name)
        self._start({act.__name__: act for act in ACTORS}[name.partition("-")[0]])

    def _freeze_a_process(self) -> None:
        name = self._anyone()
        self.forked.signal(name, signal.SIGSTOP)
        self._stand_still()
        self.forked.signal(name, signal.SIGCONT)

    def _stand_still(self) -> None:
        time.sleep(self.drawn.uniform(*STANDSTILL))

    def _a_server(self) -> Server:
        return self.drawn.choice(self.site.servers)

    def _kill_the_server(self) -> None:
        self.site.restart(self._a_server())
        self.site.wait_well()

    def _freeze_the_server(self) -> None:
        server = self._a_server()
        server.signal(signal.SIGSTOP)
        self._stand_still()
        server.signal(signal.SIGCONT)

    def _forget_scripts(self) -> None:
        server = self._a_server()
        self._ask(server, "FUNCTION", "FLUSH")
        self._ask(server, "SCRIPT", "FLUSH")

    def _cut_connections(self) -> None:
        self._ask(self._a_server(), "CLIENT", "KILL", "TYPE", "normal")

    def _rewrite_the_file(self) -> None:
        self._ask(self._a_server(), "BGREWRITEAOF")

    def _fill_memory(self) -> None:
        server = self._a_server()
        self._ask(server, "CONFIG", "SET", "maxmemory", SMALL)
        self._stand_still()
        self._ask(server, "CONFIG", "SET", "maxmemory", "0")

    def _move_a_queue(self) -> None:
        self.site.move(self.drawn.choice(self.place.names))

    def _ask(self, server: Server, *words: str) -> None:
        with server.client() as raw:
            try:
                raw.execute_command(*words)
            except exceptions.ResponseError as error:  # a file is being rewritten already
                if words != ("BGREWRITEAOF",):
                    raise exceptions.ResponseError(*words) from error


ACTORS: dict[Callable[..., None], int] = {
    send_steadily: SENDERS,
    consume: CONSUMERS,
    work: 1,
    work_awaiting: 1,
    move_about: 1,
}


def is_drained(queue: rq_dlq.Queue[int]) -> bool:
    """Whether a queue is empty, now that what was moved aside is back."""
    aside = aside_of(queue)
    return aside.select(all=True).move(queue) == 0 and is_empty(aside) and is_empty(queue)


def soak(run: Run) -> Figures:
    """Strike for a while, then drain, and count."""
    seconds = run.pick(short=4.0, whole=60.0, soak=600.0)
    options = ("--appendonly", "yes", "--appendfsync", "always", "--cluster-node-timeout", "1000")
    with run.site(*options) as site, ForkedProcesses() as forked:
        place = Place(site.url, run.directory / "journals", LEASE, names=site.names("work"))
        nemesis = Nemesis(site, forked, place, run.random)
        nemesis.begin()
        queues = place.open()
        wait_until(lambda: all(queue.stats().totals.get("acked") for queue in queues), DRAIN)
        began = time.monotonic()
        while (past := time.monotonic() - began) < seconds or not nemesis.dealt:
            run.done(past, seconds, f"{nemesis.blows.total()} blows")
            time.sleep(run.random.uniform(*PAUSES))
            nemesis.strike()
        for name in [name for name in forked.processes if name.startswith(("send", "move"))]:
            forked.kill(name)
        wait_until(lambda: all(map(is_drained, queues)), DRAIN)
        for name in list(forked.processes):
            assert forked.alive(name)
            forked.kill(name)
        queues[0]._broker.close()
        raw, asides = site.client(), [ASIDE.format(name) for name in place.names]
        found = sums(place.journals, remaining(raw, place.names))
        here, there = counters(raw, *place.names), counters(raw, *asides)
        bad = audited(raw, *place.names, *asides)
    moved, back = there["sent"], there["moved"]
    bad += wrong(
        {
            **found.faults,
            **unexplained({**here, "sent": here["sent"] - back}, found),
            "moves counted that the other queue does not know": abs(here["moved"] - moved),
            "moves back that are missing": abs(moved - back),
            "moves too few": moved < SOME,
        }
    )
    return Figures(
        trials=nemesis.blows.total(),
        **found.counts,
        early=found.early,
        met=not bad,
        note="; ".join(
            [
                *bad,
                f"{found.indeterminate:,} acks repeated, {moved:,} messages moved aside and back",
                *(f"{name} x {times}" for name, times in sorted(nemesis.blows.items())),
            ]
        ),
    )


ROWS = (
    Row(
        "T31",
        "all of it at random for a while: kills, standstills, a full memory, lost scripts and connections",
        "0 lost, 0 unexpected, 0 settled twice, 0 early; 10 minutes by `make soak`",
        soak,
        missing=full_memory.missing,
        on_nodes="a queue on each; their slots move, too",
    ),
)
