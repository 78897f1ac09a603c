"""T22: handlers that end, break or hang the worker that runs them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import rq_dlq
from tests.reliability.crowd import Crowd
from tests.reliability.findings import audited, wrong
from tests.reliability.harm import BROKEN_OFF, HARMS, LAPSED, LONG, queue_of, work
from tests.reliability.row import Figures, Row, Run
from tests.servers import Server

KINDS = {"brief": HARMS, "long": LONG}
PATIENCE = 30.0  # seconds without progress
TICK = 0.01  # seconds between two looks


@dataclass(frozen=True)
class Plan:
    """How much is done.

    Attributes:
        each: messages of each kind.
        innocent: messages that do nothing, for each of those.
        workers: processes of either queue, half of them with async handlers.
    """

    each: int
    innocent: int
    workers: dict[str, int]


class Trial:
    """One run: workers that are started again when they die, until all messages are settled."""

    def __init__(self, plan: Plan, url: str, notes: Path, random: Random, crowd: Crowd) -> None:
        self.plan, self.crowd, self._url, self._notes = plan, crowd, url, notes
        self.broker = rq_dlq.Broker(url)
        self.queues = {name: queue_of(self.broker, name) for name in KINDS}
        self.ends: Counter[int] = Counter()
        self.unexplained: Counter[str] = Counter()
        self._numbers = count()
        for name, kinds in KINDS.items():
            bodies: list[Any] = [*kinds] * plan.each
            bodies += range(len(bodies) * plan.innocent)
            random.shuffle(bodies)
            self.queues[name].send_many(bodies)

    def run(self, show: Callable[[float, float, str], None]) -> None:
        """Until all is done, or nothing is done any more."""
        moved, before = time.monotonic(), 0
        while time.monotonic() - moved < PATIENCE:
            self._start_again()
            stats = [queue.stats() for queue in self.queues.values()]
            left = sum(queue.waiting + queue.leased for queue in stats)
            sent = sum(queue.totals["sent"] for queue in stats)
            if left == 0:
                return
            if left != before:
                moved, before = time.monotonic(), left
            show(sent - left, sent, f"{self.ends.total()} workers died")
            time.sleep(TICK)

    def _start_again(self) -> None:
        for worker, process in list(self.crowd.processes.items()):
            if process.exitcode is not None:
                self.ends[process.exitcode] += 1
                self._explain(worker, process.exitcode)
                self.crowd.kill(worker)
        for name, number in self.plan.workers.items():
            alive = [worker for worker in self.crowd.processes if worker.startswith(name)]
            for _ in range(number - len(alive)):
                new = next(self._numbers)
                colour = ("def", "async def")[new % 2]
                self.crowd.start(f"{name}.{new}", work, self._url, self._notes, name, colour)

    def _explain(self, worker: str, code: int) -> None:
        """Its last message is what may end it; but a connection that one has closed may be missed later."""
        *_, last = bodies = ["nothing", *(self._notes / f"{worker}.bodies").read_text().splitlines()]
        to_blame = bodies if code == BROKEN_OFF else [last]
        if not any(body in HARMS and HARMS[body].ends == code for body in to_blame):
            self.unexplained[f"workers that ended with {code} by {last}"] += 1


def judge(trial: Trial, raw: Any) -> Figures:
    """Compare what came of the messages with what their handlers did."""
    plan, died, otherwise, lapses = trial.plan, Counter[str](), Counter[str](), 0
    for name, kinds in KINDS.items():
        for letter in trial.queues[name].dlq.browse(limit=None):
            harm = kinds.get(letter.body)
            if harm is None or letter.reason != "exhausted" or letter.cause.type not in harm.causes:
                otherwise[f"{letter.body!r} that died of {letter.cause.type}, {letter.reason}"] += 1
            else:
                died[letter.body] += 1
                lapses += sum(event.cause.type == LAPSED for event in letter.history)
    expected = Counter(dict.fromkeys([*HARMS, *LONG], plan.each))
    stats = [queue.stats() for queue in trial.queues.values()]
    totals = sum((Counter(queue.totals) for queue in stats), Counter[str]())
    harmed, innocent = expected.total(), expected.total() * plan.innocent
    gone = (
        totals["sent"] - totals["acked"] - sum(queue.dead + queue.waiting + queue.leased for queue in stats)
    )
    found = wrong(
        {
            "harmful messages that did not die of what they did": (expected - died).total(),
            "innocent ones that were not acked": innocent - totals["acked"],
            "messages lost": gone,
            "left waiting or leased": sum(queue.waiting + queue.leased for queue in stats),
        }
    )
    found += wrong(otherwise) + wrong(trial.unexplained)
    found += [finding for name in KINDS for finding in audited(raw, name)]
    told = [
        f"{len(expected)} kinds x {plan.each}",
        f"{trial.ends.total():,} workers died and were started again",
        f"{innocent:,} innocent messages, {totals['lapsed'] - lapses} times charged",
        f"{totals['released']:,} in the hands of who died went back uncharged",
    ]
    return Figures(
        trials=harmed, acknowledged=totals["sent"], lost=gone, met=not found, note="; ".join(found + told)
    )


def run(run: Run) -> Figures:
    """All kinds at once, among innocent messages."""
    plan = run.pick(
        short=Plan(3, 5, {"brief": 4, "long": 6}),
        whole=Plan(100, 5, {"brief": 6, "long": 16}),
    )
    with Server(run.directory / "redis") as server, Crowd() as crowd:
        trial = Trial(plan, server.url, run.directory, run.random, crowd)
        trial.run(run.done)
        return judge(trial, server.client())


ROWS = (
    Row(
        "T22",
        "handlers hang, hold the GIL, os._exit, segfault, use up memory, recurse, fork, close descriptors, …",
        "each message dies of what its handler did; the worker lives, or its successor goes on: 100 %",
        run,
    ),
)
