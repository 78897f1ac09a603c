"""T29: a thousand idle workers, one message, and a connection that all lose at once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rq_dlq.client.settings import read_info
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import Place, work
from tests.proofs.reliability.findings import audited, over, wrong
from tests.proofs.reliability.journal import noted
from tests.proofs.reliability.load import Load, load
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.site import Site, Talk, measure
from tests.servers import wait_until

PROCESSES, AWAITING = 4, 2  # of threads; and of async workers, who wait with one connection each
WINDOW = 0.1  # seconds
BUSIEST = 0.25  # of all, in one window
BUSIEST_OF_FEW = 0.4  # on the short scale, which runs beside other tests: a busy machine bunches them up
IDLE = 0.1  # of a core
TICK = 0.005  # seconds
CLIENTS = (b"INFO", b"clients")
AHEAD = 100  # calls at a time of an async worker
PATIENCE = 60.0  # seconds


def blocked(reply: bytes) -> int:
    """How many clients wait, by what INFO said."""
    return int(read_info(reply)["blocked_clients"])


@dataclass
class Herd:
    """A forked of workers that wait.

    Attributes:
        workers: how many, threads of a few processes and some async ones, each with a connection of its own.
        most: which part of them may come back in the busiest window.
        back: after each loss of all connections, how many came back.
        busiest: how many of them in the busiest window.
        woken: how many each message woke.
    """

    site: Site
    place: Place
    workers: int
    most: float
    forked: ForkedProcesses
    idle: Load = field(default_factory=lambda: Load(0, 0, 0))
    back: list[int] = field(default_factory=list)
    busiest: list[int] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    woken: list[int] = field(default_factory=list)

    def run(self, watch: float) -> None:
        """Look on while they are idle; have them lose their connections in both ways."""
        queue = self.place.queue()
        for number in range(PROCESSES):
            self.forked.start(f"herd.{number}", work, self.place, (self.workers - AWAITING) // PROCESSES)
        for number in range(AWAITING):
            self.forked.start(f"awaiting.{number}", work, self.place, AHEAD, colour="async def")
        raw = self.site.client()
        self._wait_until_all_wait(raw)
        self._count_the_woken(queue)
        self.idle = load(raw, watch, [process.pid or 0 for process in self.forked.processes.values()])
        self._one_message(queue)
        accepted = raw.info("stats")["total_connections_received"]
        for each in self.site.clients():
            each.client_kill_filter(_type="normal", skipme=True)
        self._come_back(accepted)
        self._one_message(queue)
        self.site.restart(*self.site.servers)
        self._come_back(0)
        self._one_message(queue)

    def _wait_until_all_wait(self, raw: Any) -> None:
        wait_until(lambda: raw.info("clients")["blocked_clients"] >= self.workers, PATIENCE)

    def _one_message(self, queue: Any) -> None:
        """Send one, and wait until it is done."""
        self.sent.append(queue.send(0))
        wait_until(lambda: set(self.sent) <= set(noted(self.place.journals, "acked")), PATIENCE)

    def _count_the_woken(self, queue: Any) -> None:
        """From now on see how many each round trip of a queue wakes: nobody comes between its commands."""

        def counting(talk: Talk) -> Talk:
            def counted(commands: list[tuple[Any, ...]]) -> list[Any]:
                replies = talk([CLIENTS, *commands, CLIENTS])
                self.woken.append(blocked(replies[0]) - blocked(replies[-1]))
                return replies[1:-1]

            return counted

        measure(queue._broker._connected(), counting)

    def _come_back(self, accepted: int) -> None:
        """They have just lost their connections: count how many come back, and in the busiest window.

        Where two looks are further apart, since the machine is busy, the mean between them counts.

        Args:
            accepted: connections that the server had accepted before the first of them could come back.
        """
        seen = deque([(time.monotonic(), accepted)])
        most, connections = 0.0, accepted
        for now, connections in self._coming(self.site.client()):
            seen.append((now, connections))
            while len(seen) > 2 and seen[1][0] <= now - WINDOW:
                seen.popleft()
            most = max(most, (connections - seen[0][1]) * min(1, WINDOW / max(now - seen[0][0], TICK)))
        self.back.append(connections - accepted)
        self.busiest.append(round(most))

    def _coming(self, raw: Any) -> Iterator[tuple[float, int]]:
        """Moments, and how many connections the server had accepted by then, until all wait again."""
        deadline = time.monotonic() + PATIENCE
        blocked = 0
        while blocked < self.workers and time.monotonic() < deadline:
            told = raw.info("clients") | raw.info("stats")
            blocked = told["blocked_clients"]
            yield time.monotonic(), told["total_connections_received"]
            time.sleep(TICK)


def judge(herd: Herd, raw: Any) -> Figures:
    """Compare what came of it with what was to come."""
    times = Counter(noted(herd.place.journals, "got"))
    found = wrong(
        {
            "not delivered": sum(times[name] == 0 for name in herd.sent),
            "delivered twice": sum(times[name] > 1 for name in herd.sent),
            f"connections in {WINDOW} s": over(max(herd.busiest), herd.most * herd.workers),
            "of whom it was not seen that they came back": max(0, herd.workers - min(herd.back)),
            "woken by one message": over(max(herd.woken), 1),
            "% of a core used by an idle server": over(100 * herd.idle.server, 100 * IDLE),
        }
    ) + audited(raw, herd.place.queue()._core.keys.family)
    killed, restarted = herd.busiest
    counted = [
        f"{herd.workers:,} idle workers claim {herd.idle.scripts:,.0f} times a second",
        f"meanwhile they are {herd.idle.clients:.0%} of a core busy, Redis {herd.idle.server:.1%}",
        f"{len(herd.sent)} messages, {times.total()} deliveries",
        f"in the busiest {WINDOW} s {killed} came back after CLIENT KILL, {restarted} after a restart",
    ]
    return Figures(
        trials=herd.workers * len(herd.busiest),
        acknowledged=len(herd.sent),
        lost=sum(times[name] == 0 for name in herd.sent),
        duplicated=times.total() - len(times),
        met=not found,
        note="; ".join(found + counted),
    )


def run(run: Run) -> Figures:
    """Let them wait, and lose their connections."""
    workers = run.pick(short=200, whole=1_000) + AWAITING
    most = run.pick(short=BUSIEST_OF_FEW, whole=BUSIEST)
    watch = run.pick(short=2.0, whole=10.0)
    with run.site("--maxclients", "4000") as site, ForkedProcesses() as forked:
        herd = Herd(site, Place(site.url, run.directory / "journals"), workers, most, forked)
        herd.run(watch)
        return judge(herd, site.client())


ROWS = (
    Row(
        "T29",
        "herd: idle workers and one message; all lose their connections at once, and a restart",
        f"each message delivered once, and wakes one; at most {BUSIEST:.0%} come back in the busiest "
        f"{WINDOW} s; Redis <= {IDLE:.0%} of a core while all are idle",
        run,
        on_nodes="the queue is on one, all lose their connections and restart",
    ),
)
