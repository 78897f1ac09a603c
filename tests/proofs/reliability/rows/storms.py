"""T27: every handler fails, with every message, until all are dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import rq_dlq
from rq_dlq import DeadLetter, RedeliveryPolicy
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import Place, work
from tests.proofs.reliability.findings import audited, over, wrong
from tests.proofs.reliability.journal import noted, sums
from tests.proofs.reliability.load import Load, load
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until
from tests.servers.counts import verbs_run

WAITS = (0.1, 0.2, 0.4, 0.8, 600.0)  # seconds; the last one is cut short
ATTEMPTS = len(WAITS) + 1
POLICY = RedeliveryPolicy(delays=WAITS, max_redeliveries=len(WAITS))
WORKERS, CONCURRENCY = 2, 2
CONSUMERS = WORKERS * CONCURRENCY
IDLE_CLAIMS = 2  # a second, of a consumer
IDLE = 0.2  # of a core, of all workers
PATIENCE = 300.0  # seconds


class Storm:
    """One run of it.

    Attributes:
        idle: while all wait for their last attempt, which is not due.
        scripts: until all were dead.
    """

    idle: Load
    scripts: int
    letters: list[DeadLetter[int]]
    redriven: int
    ready: int

    def __init__(self, place: Place, raw: Any, forked: ForkedProcesses, messages: int, watch: float) -> None:
        self.place, self.raw, self.forked, self.messages, self._watch = place, raw, forked, messages, watch
        self.queue: rq_dlq.Queue[int] = place.queue()
        self.ids = self.queue.send_many([0] * messages)

    def run(self) -> None:
        """From the first failure until the last one that was redriven has succeeded."""
        before = verbs_run(self.raw)
        self._hire("failing", fails=True)
        self._wait(lambda: self._total("nacked") == self.messages * len(WAITS))
        pids = [process.pid or 0 for process in self.forked.processes.values()]
        self.idle = load(self.raw, self._watch, pids)
        self.queue.select(places=["scheduled"]).deliver_now()
        self._wait(lambda: self.queue.stats().dead == self.messages)
        self.scripts = verbs_run(self.raw) - before
        self._dismiss()
        self.letters = self.queue.dlq.browse(limit=None)
        self.redriven = self.queue.dlq.redrive(all=True).counts.moved
        self.ready = self.queue.stats().ready
        self._hire("succeeding", fails=False)
        self._wait(lambda: self._total("acked") == self.messages)
        self._dismiss()

    def _hire(self, kind: str, *, fails: bool) -> None:
        for number in range(WORKERS):
            self.forked.start(f"{kind}.{number}", work, self.place, CONCURRENCY, fails)

    def _dismiss(self) -> None:
        for name in list(self.forked.processes):
            self.forked.kill(name)

    def _total(self, name: str) -> int:
        return int(self.raw.hget(self.queue._core.keys["counters"], name) or 0)

    @staticmethod
    def _wait(condition: Callable[[], object]) -> None:
        wait_until(condition, PATIENCE)


def is_whole(letter: DeadLetter[int]) -> bool:
    """Whether a dead letter tells all of its story, and no wait was shorter than it says.

    A worker on a busy machine gives back what it could not begin: a delivery, but no attempt.
    """
    story = letter.history
    counts = {letter.delivery_count - letter.released, letter.charged, letter.nacked, len(story)}
    attempts = [(event.event, event.cause.type, event.cause.message) for event in story]
    deliveries = [event.delivery for event in story]
    waits = [event.delay for event in story]
    kept = [later.at - event.at >= timedelta(seconds=event.delay) for event, later in pairwise(story)]
    return (
        letter.reason == "exhausted"
        and counts == {ATTEMPTS}
        and attempts == [("nacked", "ValueError", f"attempt {n}") for n in deliveries]
        and deliveries == sorted({*deliveries})
        and "ValueError" in letter.cause.traceback
        and waits == [*WAITS, 0]
        and all(kept[:-1])
    )


def judge(storm: Storm) -> Figures:
    """Compare what came of it with what was to come."""
    messages, place = storm.messages, storm.place
    told = sums(place.journals, ())
    times = Counter(noted(place.journals, "got"))
    attempts = times.total() - messages
    per_consumer = storm.idle.scripts / CONSUMERS
    found = wrong(
        {
            "attempts too many or too few": abs(attempts - messages * ATTEMPTS),
            "messages with another number of attempts": sum(
                times[name] != ATTEMPTS + 1 for name in storm.ids
            ),
            "early": told.early,
            "dead letters too many or too few": abs(len(storm.letters) - messages),
            "dead letters without their whole story": sum(not is_whole(letter) for letter in storm.letters),
            "not redriven": messages - storm.redriven,
            "not ready after it": messages - storm.ready,
            "scripts beyond three an attempt": max(0, storm.scripts - 3 * attempts),
            "claims a second of an idle consumer": over(per_consumer, IDLE_CLAIMS),
            "% of a core used by idle workers": over(100 * storm.idle.clients, 100 * IDLE),
        }
    ) + audited(storm.raw, storm.queue._core.keys.family)
    busy = f"workers {storm.idle.clients:.1%}, Redis {storm.idle.server:.1%} busy"
    counted = [
        f"{attempts:,} attempts by {storm.scripts:,} scripts",
        f"{len(storm.letters):,} dead, {storm.redriven:,} redriven",
        f"while nothing was due: {per_consumer:.1f} claims/s a consumer, {busy}",
    ]
    return Figures(
        trials=attempts,
        acknowledged=messages,
        lost=messages - len(times.keys() & set(storm.ids)),
        early=told.early,
        met=not found,
        note="; ".join(found + counted),
    )


def run(run: Run) -> Figures:
    """Fail, and look at what is left."""
    messages = run.pick(short=500, whole=10_000, soak=100_000)
    watch = run.pick(short=1.0, whole=5.0)
    with Server(run.directory / "redis") as server, server.client() as raw, ForkedProcesses() as forked:
        storm = Storm(
            Place(server.url, run.directory / "journals", policy=POLICY), raw, forked, messages, watch
        )
        storm.run()
        return judge(storm)


ROWS = (
    Row(
        "T27",
        f"poison storm: every handler fails, {ATTEMPTS} attempts",
        f"exactly {ATTEMPTS} attempts of each, each dead with its whole story, all redriven; "
        f"<= {IDLE_CLAIMS} claims/s a consumer and <= {IDLE:.0%} of a core while nothing is due",
        run,
    ),
)
