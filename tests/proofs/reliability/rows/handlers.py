"""T22: handlers that end, break or hang the worker that runs them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import rq_dlq
from rq_dlq._keys import QueueKeys
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.harm import ABREAST, BROKEN_OFF, EACH, HARMS, LONG, MOST, queue_of, work
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.site import Site

KINDS = {"brief": HARMS, "long": LONG}
PATIENCE = 30.0  # seconds without progress
TICK = 0.01  # seconds between two looks
LAPSED = 6  # which word of a state counts the lapses


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


class Begun(NamedTuple):
    """A line of a worker's notes: a handler that began."""

    id: str
    charged: int
    lapsed: int
    body: str


def began(notes: Path) -> list[tuple[Begun, bool]]:
    """What began, and whether it ended."""
    lines = [line.split(" ", 4) for line in notes.read_text().splitlines()] if notes.exists() else []
    ended = Counter(words[1] for words in lines if words[0] == "ends")
    calls = []
    for _, message_id, charged, lapsed, body in [words for words in lines if words[0] == "begins"]:
        calls.append((Begun(message_id, int(charged), int(lapsed), body), ended[message_id] > 0))
        ended[message_id] -= 1
    return calls


class Trial:
    """One run: workers that are started again when they die, until all messages are settled."""

    def __init__(self, plan: Plan, site: Site, notes: Path, random: Random, forked: ForkedProcesses) -> None:
        self.plan, self.forked, self._url, self._notes = plan, forked, site.url, notes
        self._raw = site.client()
        self.broker = rq_dlq.Broker(site.url)
        self.queues = {name: queue_of(self.broker, name) for name in KINDS}
        self.innocent: set[str] = set()  # ids
        self.ends: Counter[int] = Counter()
        self.unexplained: Counter[str] = Counter()
        self.beside = 0  # workers that were ended while they held a suspect that is innocent
        self._numbers = count()
        for name, kinds in KINDS.items():
            bodies: list[Any] = [*kinds] * plan.each
            innocent = range(len(bodies) * plan.innocent)
            bodies += innocent if name == "brief" else [n * EACH for n in innocent]  # none of those is slow
            random.shuffle(bodies)
            ids = self.queues[name].send_many(bodies)
            self.innocent |= {id for id, body in zip(ids, bodies, strict=True) if isinstance(body, int)}

    def run(self, show: Callable[[float, float, str], None]) -> None:
        """Until all is done, or nothing is done any more."""
        moved, before = time.monotonic(), 0
        while time.monotonic() - moved < PATIENCE:
            self._start_again()
            # Calls may hold up all its workers at once; what nobody has seen lapse can still be acked.
            self.queues["long"].maintain()
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
        for worker, process in list(self.forked.processes.items()):
            if process.exitcode is not None:
                self.ends[process.exitcode] += 1
                self._explain(worker, process.exitcode, process.pid)
                self.forked.kill(worker)
        for name, number in self.plan.workers.items():
            alive = [worker for worker in self.forked.processes if worker.startswith(name)]
            for _ in range(number - len(alive)):
                new = next(self._numbers)
                colour = ("def", "async def")[new % 2]
                self.forked.start(f"{name}.{new}", work, self._url, self._notes, name, colour)

    def _explain(self, worker: str, code: int, pid: int | None) -> None:
        """What ran may end it; but a connection that a handler has closed may be missed later."""
        calls = began(self._notes / f"{worker}.bodies")
        running = [call for call, ended in calls if not ended]
        to_blame = [call for call, _ in calls] if code == BROKEN_OFF else running
        if not any(call.body in HARMS and HARMS[call.body].ends == code for call in to_blame):
            self.unexplained[f"workers that ended with {code} while these ran: {running}"] += 1
        suspects = [call for call, _ in calls if call.lapsed]  # each is settled before the next one begins
        began_one = bool(suspects) and suspects[-1].body.isdigit()
        self.beside += began_one or self._held_innocent_suspect(worker.partition(".")[0], pid)

    def _held_innocent_suspect(self, name: str, pid: int | None) -> bool:
        """Whether a worker that has just died holds one, whose handler perhaps had not begun."""
        keys = QueueKeys("rq", name)
        held: set[str] = set()
        for claim in self._raw.hvals(keys["claims"]):
            consumer, *ids = claim.decode().split("\n")
            if f':{pid}"' in consumer:
                held.update(ids)
        innocent = [*held & self.innocent]
        states = self._raw.hmget(keys["states"], innocent) if innocent else []
        return any(int(state.split()[LAPSED]) > 0 for state in states if state is not None)

    @property
    def charged(self) -> int:
        """How often the innocent were charged."""
        seen: Counter[str] = Counter()
        for notes in self._notes.glob("*.bodies"):
            for call, _ in began(notes):
                if call.body.isdigit():
                    seen[call.id] = max(seen[call.id], call.charged)
        return seen.total()


def judge(trial: Trial, raw: Any) -> Figures:
    """Compare what came of the messages with what their handlers did."""
    plan, died, otherwise = trial.plan, Counter[str](), Counter[str]()
    for name, kinds in KINDS.items():
        for letter in trial.queues[name].dlq.browse(limit=None):
            harm = kinds.get(letter.body)
            causes = {event.cause.type for event in letter.history}  # the last may be a neighbour's
            if harm is None or letter.reason != "exhausted" or causes.isdisjoint(harm.causes):
                otherwise[f"{letter.body!r} that died of {letter.cause.type}, {letter.reason}"] += 1
            else:
                died[letter.body] += 1
    expected = Counter(dict.fromkeys([*HARMS, *LONG], plan.each))
    stats = [queue.stats() for queue in trial.queues.values()]
    totals = sum((Counter(queue.totals) for queue in stats), Counter[str]())
    harmed, innocent = expected.total(), expected.total() * plan.innocent
    gone = (
        totals["sent"] - totals["acked"] - sum(queue.dead + queue.waiting + queue.leased for queue in stats)
    )
    charged = trial.charged
    kills = sum(HARMS[kind].ends is not None for kind in HARMS) * plan.each
    spare = (MOST + 2) * kills - trial.ends.total()  # the first crash is forgiven
    found = wrong(
        {
            "innocent ones that were not acked": innocent - totals["acked"],
            "messages lost": gone,
            "left waiting or leased": sum(queue.waiting + queue.leased for queue in stats),
            "times an innocent one was charged, and nothing beside it killed": max(0, charged - trial.beside),
            "times a killer killed beyond its budget and one": max(0, -spare),
        }
    )
    alive = {f"{kind!r} that did not die of it": number for kind, number in (expected - died).items()}
    found += wrong(alive) + wrong(otherwise) + wrong(trial.unexplained)
    found += audited(raw, *KINDS)
    told = [
        f"{len(expected)} kinds x {plan.each}",
        f"{trial.ends.total():,} workers died and were started again",
        f"{ABREAST['brief']['def']} threads, {ABREAST['brief']['async def']} async calls side by side",
        f"{innocent:,} innocent messages, {charged} times charged, beside another that killed",
        f"{totals['lapsed']:,} leases ran out",
    ]
    return Figures(
        trials=harmed, acknowledged=totals["sent"], lost=gone, met=not found, note="; ".join(found + told)
    )


def run(run: Run) -> Figures:
    """All kinds at once, among innocent messages."""
    plan = run.pick(
        short=Plan(1, 10, {"brief": 2, "long": 3}),
        whole=Plan(100, 20, {"brief": 6, "long": 16}),
    )
    with run.site() as site, ForkedProcesses() as forked:
        trial = Trial(plan, site, run.directory, run.random, forked)
        trial.run(run.done)
        return judge(trial, site.client())


ROWS = (
    Row(
        "T22",
        "handlers hang, hold the GIL, os._exit, segfault, use up memory, recurse, fork, close descriptors, …",
        "each message dies of what its handler did; the worker lives, or its successor goes on: 100 %",
        run,
        on_nodes="what ends at once on one, what does not on another",
    ),
)
