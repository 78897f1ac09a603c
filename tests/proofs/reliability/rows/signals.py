"""T21: workers that are told to stop, once, twice, or from inside a handler."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any, Literal, get_args

from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import lines, noted, repeated
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.stopped import INTERRUPTS, Place, work
from tests.servers import wait_until

Way = Literal["SIGTERM", "SIGTERM twice", "SIGINT in a handler"]
COLOURS = ("def", "async def")
MESSAGES = 40  # at the beginning of each round
LONGEST = 0.05  # seconds of a call
SOON = 20.0  # seconds in which a worker has to end; it gives up a call after 5, and a busy machine adds some
STARTING = 30.0  # seconds in which it has to begin


@dataclass
class Seen:
    """What the rounds came to.

    Attributes:
        unfinished: calls that a first signal cut short.
        cut_short: calls that a second one did.
        held: messages that a worker held when it had ended.
        odd: workers that did not end, or with an exit code that was not to come.
        slowest: seconds from the last signal to the end.
    """

    unfinished: int = 0
    cut_short: int = 0
    held: int = 0
    odd: int = 0
    slowest: float = 0.0


class Rounds:
    """Workers one after the other, each told to stop while it works."""

    def __init__(self, place: Place, random: Random, forked: ForkedProcesses) -> None:
        self.place, self.random, self.forked = place, random, forked
        self.queues = place.open()
        self.seen = Seen()

    def run(self, rounds: int, show: Callable[[float, float, str], None]) -> None:
        """So many rounds, of each way and colour by turns; then what is left is worked off."""
        ways = list(product(get_args(Way), COLOURS))
        for number in range(rounds):
            show(number, rounds, "")
            self._round(f"worker.{number}", *ways[number % len(ways)])
            if self.seen.held:  # a fault, and what follows would wait for the end of its lease
                return
        with self._worker("last", "def"):
            wait_until(lambda: not self._left(), STARTING)
            self._stop("last")

    def _round(self, name: str, way: Way, colour: str) -> None:
        for _ in range(MESSAGES - self._left()):
            self.random.choice(self.queues).send(self.random.uniform(0, LONGEST))
        some = self._acked() + self.random.randrange(MESSAGES // 2)
        with self._worker(name, colour) as worker:
            wait_until(lambda: self._acked() > some, STARTING)
            if way == "SIGINT in a handler":
                self.random.choice(self.queues).send(INTERRUPTS, priority=9)
            else:
                self._stop(name)
            if way == "SIGTERM twice":
                time.sleep(self.random.uniform(0, LONGEST / 3))
                self._stop(name)
            began = time.monotonic()
            worker.join(SOON)
            self.seen.slowest = max(self.seen.slowest, time.monotonic() - began)
            # The second one may come when the worker has ended, and its process nearly so.
            orderly = {0, -signal.SIGTERM} if way == "SIGTERM twice" else {0}
            self.seen.odd += worker.exitcode not in orderly
        self._look(name, way)

    def _look(self, name: str, way: Way) -> None:
        """What a worker left, right after its end."""
        self.seen.held += self.counts()["leased"]
        said = Counter(event for event, _ in lines(self.place.journals / f"{name}.journal"))
        if way == "SIGTERM twice":
            self.seen.cut_short += said["got"] - said["ack"]
        else:
            self.seen.unfinished += said["got"] - said["ack"]

    def counts(self) -> Counter[str]:
        """The totals of all queues, and what is left in them."""
        found: Counter[str] = Counter()
        for stats in (queue.stats() for queue in self.queues):
            found.update(stats.totals)
            found.update(waiting=stats.waiting, leased=stats.leased)
        return found

    def _left(self) -> int:
        counts = self.counts()
        return counts["waiting"] + counts["leased"]

    def _acked(self) -> int:
        return self.counts()["acked"]

    def _stop(self, name: str) -> None:
        with suppress(ProcessLookupError):  # it was faster
            self.forked.signal(name, signal.SIGTERM)

    @contextmanager
    def _worker(self, name: str, colour: str) -> Iterator[BaseProcess]:
        self.forked.start(name, work, self.place, name, colour)
        try:
            yield self.forked.processes[name]
        finally:
            self.forked.kill(name)


def judge(rounds: Rounds, number: int, raw: Any) -> Figures:
    """Compare what the calls noted with what the queue counted."""
    seen, counts, place = rounds.seen, rounds.counts(), rounds.place
    sent, left = counts["sent"], counts["waiting"] + counts["leased"]
    done, again = repeated(noted(place.journals, "ack"))
    lost = sent - counts["acked"] - left
    found = wrong(
        {
            "messages lost": lost,
            "that no call finished": sent - len(done),
            "left": left,
            "held by workers that had ended": seen.held,
            "lapsed": counts["lapsed"],
            "calls that a first signal cut short": seen.unfinished,
            "workers that did not end in order": seen.odd,
        }
    ) + audited(raw, *place.names)
    told = [
        f"{seen.cut_short:,} calls cut short by a second signal, and given back",
        f"{counts['released']:,} messages released",
        f"at most {seen.slowest:.2f} s from the last signal to the end",
    ]
    return Figures(
        trials=number,
        acknowledged=sent,
        lost=lost,
        duplicated=again.total(),
        met=not found,
        note="; ".join(found + told),
    )


def run(run: Run) -> Figures:
    """By turns: SIGTERM, SIGTERM twice, SIGINT; sync, async."""
    rounds = run.pick(short=6, whole=200)
    with run.site() as site, ForkedProcesses() as forked:
        place = Place(site.url, site.names("stopped"), run.directory / "journals")
        trial = Rounds(place, run.random, forked)
        trial.run(rounds, run.done)
        return judge(trial, rounds, site.client())


ROWS = (
    Row(
        "T21",
        "SIGTERM, a second SIGTERM, SIGINT in a handler, while sync and async workers work",
        "what runs is finished, or given back at once: 0 lost, 0 held after the end, 0 lapses",
        run,
        on_nodes="a worker has a queue on each",
    ),
)
