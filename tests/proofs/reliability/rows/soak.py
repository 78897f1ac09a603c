"""T31: everything at once, at random, for a while."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from redis import exceptions

import rq_dlq
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import Place, consume, is_empty, send, steadily, work
from tests.proofs.reliability.findings import audited, counters, unexplained, wrong
from tests.proofs.reliability.journal import sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.rows import full_memory
from tests.servers import Server, wait_until

LEASE = 1_000  # milliseconds
SENDERS, CONSUMERS, WORKERS = 3, 4, 2
PACE = 0.05  # seconds between two chunks of a sender
PAUSES = (0.05, 0.5)  # seconds between two blows
STANDSTILL = (0.2, 1.5)  # seconds that a process stands still
SMALL = "1mb"  # of memory, less than an empty server takes
DRAIN = 60.0  # seconds
ASIDE = "{work}.aside"  # where messages are moved to, and back
SOME = 20  # messages of a move


def send_steadily(place: Place, sender: str) -> None:
    """Send until one is killed, but no faster than PACE; what a full server refuses is given up."""
    chunks = steadily(PACE)
    while True:
        with contextlib.suppress(rq_dlq.BrokerRefused):
            send(place, sender, chunks)


def move_about(place: Place) -> None:
    """Move some of what waits to another queue and back, until one is killed."""
    queue = place.queue()
    aside = queue._broker.queue(ASIDE)
    for _ in steadily(PACE):
        with contextlib.suppress(rq_dlq.BrokerRefused):
            aside.open()
            queue.select(limit=SOME).move(aside)
            aside.select(limit=SOME).move(queue)


@dataclass
class Nemesis:
    """Hits a server and its clients, one blow after the other, as the seed has it.

    Attributes:
        dealt: how often all kinds of blows have come.
    """

    server: Server
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

    def _kill_the_server(self) -> None:
        self.server.kill()
        self.server.start()

    def _freeze_the_server(self) -> None:
        self.server.signal(signal.SIGSTOP)
        self._stand_still()
        self.server.signal(signal.SIGCONT)

    def _forget_scripts(self) -> None:
        self._ask("FUNCTION", "FLUSH")
        self._ask("SCRIPT", "FLUSH")

    def _cut_connections(self) -> None:
        self._ask("CLIENT", "KILL", "TYPE", "normal")

    def _rewrite_the_file(self) -> None:
        self._ask("BGREWRITEAOF")

    def _fill_memory(self) -> None:
        self._ask("CONFIG", "SET", "maxmemory", SMALL)
        self._stand_still()
        self._ask("CONFIG", "SET", "maxmemory", "0")

    def _ask(self, *words: str) -> None:
        with self.server.client() as raw:
            try:
                raw.execute_command(*words)
            except exceptions.ResponseError as error:  # a file is being rewritten already
                if words != ("BGREWRITEAOF",):
                    raise exceptions.ResponseError(*words) from error


ACTORS: dict[Callable[..., None], int] = {
    send_steadily: SENDERS,
    consume: CONSUMERS,
    work: WORKERS,
    move_about: 1,
}


def soak(run: Run) -> Figures:
    """Strike for a while, then drain, and count."""
    seconds = run.pick(short=4.0, whole=60.0, soak=600.0)
    options = ("--appendonly", "yes", "--appendfsync", "always")
    place = Place(f"unix://{run.directory}/redis/redis.sock", run.directory / "journals", LEASE)
    with Server(run.directory / "redis", *options) as server, ForkedProcesses() as forked:
        nemesis = Nemesis(server, forked, place, run.random)
        nemesis.begin()
        queue = place.queue()
        wait_until(lambda: queue.stats().totals.get("acked"), DRAIN)
        began = time.monotonic()
        while (past := time.monotonic() - began) < seconds or not nemesis.dealt:
            run.done(past, seconds, f"{nemesis.blows.total()} blows")
            time.sleep(run.random.uniform(*PAUSES))
            nemesis.strike()
        for name in [name for name in forked.processes if name.startswith(("send", "move"))]:
            forked.kill(name)
        aside = queue._broker.queue(ASIDE)
        wait_until(
            lambda: aside.select(all=True).move(queue) == 0 and is_empty(aside) and is_empty(queue), DRAIN
        )
        for name in list(forked.processes):
            assert forked.alive(name)
            forked.kill(name)
        with server.client() as raw:
            queue._broker.close()
            found = sums(place.journals, (name.decode() for name in raw.hkeys(queue._core.keys["messages"])))
            here, there = (counters(raw, family) for family in ("work", ASIDE))
            bad = [*audited(raw, "work"), *audited(raw, ASIDE)]
    moved, back = there.get("sent", 0), there.get("moved", 0)
    bad += wrong(
        {
            **found.faults,
            **unexplained({**here, "sent": here["sent"] - back}, found),
            "moves counted that the other queue does not know": abs(here.get("moved", 0) - moved),
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
    ),
)
