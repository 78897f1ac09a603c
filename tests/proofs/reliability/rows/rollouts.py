"""T39: a fleet is renewed: workers of two versions on one queue, and tasks that only the new one takes."""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import cycle, islice, pairwise
from typing import Any

from rq_dlq import ConsumerReport, Outcome, ProcessReport
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.signature import Taken
from tests.conftest import Clock
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.rollout import CALLED, SHOP, Version, program, work
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until

OLD, NEW = ("old.1", "old.2"), "new.1"
TEN_MINUTES = 600.0
RESTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LONGEST = 60.0
STARTING, SOON = 30.0, 60.0  # seconds of the real clock


class Rollout:
    """Workers of both versions; the clock of the scripts is moved whenever nothing is left to do before."""

    def __init__(self, url: str, raw: Any, forked: ForkedProcesses) -> None:
        self._url, self._raw, self._forked = url, raw, forked
        self.clock = Clock(raw)
        self.broker, self.tasks = program(url, "new")
        self.queue = self.broker.queue(SHOP)
        self.sent: list[str] = []
        tasks: Any = self.broker._handlers[0].function
        self.taken: Taken = tasks.taken()
        self.standing: Reporter | None = None

    def start(self, version: Version, *names: str) -> None:
        """Start workers, and wait until they report."""
        before = len(self.broker.workers())
        for name in names:
            self._forked.start(name, work, self._url, version)
        wait_until(lambda: len(self.broker.workers()) >= before + len(names), STARTING)

    def stop(self, name: str) -> None:
        """Tell a worker to stop; it takes its report with it."""
        self._forked.signal(name, signal.SIGTERM)
        self._forked.processes[name].join(SOON)
        self._forked.kill(name)

    def stand_in(self) -> None:
        """Report a live worker of the new version, which never comes."""
        self.standing = Reporter(ProcessReport(process="busy", period=3_600_000))
        queues = {SHOP: ConsumerReport(1, takes=self.taken)}
        self.broker._run(self.standing.note(self.broker.settings.namespace, queues=queues))

    def stand_off(self) -> None:
        """Take that report away."""
        assert self.standing is not None
        self.broker._run(self.standing.leave(self.broker.settings.namespace))

    def send(self, count: int, *names: str) -> list[str]:
        """Messages of these tasks by turns; their ids."""
        ids: list[str] = [
            self.tasks[name].send(n, vat=1) if name == "grown" else self.tasks[name].send(n)
            for n, name in enumerate(islice(cycle(names), count))
        ]
        self.sent += ids
        return ids

    def go_on(self, until: float | None = None) -> None:
        """Move the clock to what is due next, again and again: until nothing is left, or until that time."""
        given_up = time.monotonic() + SOON
        while time.monotonic() < given_up:
            stats = self.queue.stats()
            if stats.ready or stats.leased:
                time.sleep(0.002)
                continue
            given_up = time.monotonic() + SOON
            if not stats.scheduled or (until is not None and self.clock.now >= until):
                return
            self.clock.advance(f"{round((stats.next_due or 0) * 1000)}ms")
            self.queue.maintain()

    def totals(self) -> Counter[str]:
        """The totals of the queue."""
        return Counter(self.queue.stats().totals)

    def called(self) -> list[tuple[str, ...]]:
        """What the calls noted."""
        return [tuple(line.decode().split()) for line in self._raw.lrange(CALLED, 0, -1)]


def run(run: Run) -> Figures:
    """Side by side; then the new version is busy elsewhere; then there is only the old one."""
    count = run.pick(short=120, whole=1_000)
    with Server(run.directory / "redis") as server, ForkedProcesses() as forked:
        raw = server.client()
        rollout = Rollout(server.url, raw, forked)
        rollout.start("old", *OLD)
        rollout.start("new", NEW)
        rollout.send(count, "known", "fresh", "grown")
        rollout.go_on()
        side_by_side = rollout.totals()
        run.done(1, 3, "side by side")
        rollout.stop(NEW)
        rollout.stand_in()
        waiting = rollout.send(count // 10, "fresh", "grown")
        rollout.go_on(until=rollout.clock.now + 2 * TEN_MINUTES * 1000)
        awaited = rollout.totals()
        run.done(2, 3, "the new one is busy")
        rollout.stand_off()
        alone = rollout.send(count // 10, "fresh", "grown")
        rollout.go_on()
        run.done(3, 3, "the old one alone")
        for name in OLD:
            rollout.stop(name)
        stories = _stories(rollout.queue.outcomes(limit=None))
        called = rollout.called()
        totals = rollout.totals()
        dead = {letter.id for letter in rollout.queue.dlq.browse(limit=10 * count)}
        found = wrong(
            {
                "dead beside workers that take them": side_by_side["unprocessable"],
                "not done beside them": count - side_by_side["acked"],
                "dead while a live worker may take them": awaited["unprocessable"],
                "dead early": _early(stories, alone),
                "not dead after ten minutes": len({*alone, *waiting} - dead),
                "lost": len(rollout.sent) - totals["acked"] - totals["unprocessable"],
                "calls that say that they are not the first": sum(said[1:] != ("1", "0") for said in called),
                "rests that are not as long as they are to be": sum(map(_odd_rests, stories.values())),
                "ended before their time": sum(map(_hasty, stories.values())),
            }
        ) + audited(raw, SHOP)
        passes = totals["passed_on"]
        return Figures(
            trials=passes,
            acknowledged=len(rollout.sent),
            lost=len(rollout.sent) - totals["acked"] - totals["unprocessable"],
            duplicated=len(called) - len({message_id for message_id, *_ in called}),
            early=_early(stories, alone) + sum(map(_hasty, stories.values())),
            met=not found,
            note="; ".join([
                *found,
                f"{passes:,} passed on, {totals['acked']:,} done, {len(dead):,} dead, each after ten minutes",
            ]),
        )  # fmt: skip


Story = Sequence[Outcome]


def _stories(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.id].append(outcome)
    return found


def _passed_on(story: Story) -> list[Outcome]:
    return [outcome for outcome in story if outcome.event == "passed_on"]


def _odd_rests(story: Story) -> int:
    """How many of its rests are other than 1, 2, 4 … 60 s; the last may be shorter."""
    rests = [outcome.delay for outcome in _passed_on(story)]
    wanted = [*RESTS, *[LONGEST] * len(rests)]
    odd = sum(rest != right for rest, right in zip(rests[:-1], wanted, strict=False))
    return odd + (bool(rests) and rests[-1] > wanted[len(rests) - 1])


def _hasty(story: Story) -> int:
    """How often it was handed out before its rest was over."""
    rests = _passed_on(story)
    pairs = pairwise([*rests, story[-1]])
    return sum(_between(rest, then) < rest.delay for rest, then in pairs if then != rest)


def _early(stories: dict[str, list[Outcome]], ids: Sequence[str]) -> int:
    """How many of these died sooner than ten minutes after they were first passed on."""
    told = [stories[message_id] for message_id in ids if message_id in stories]
    return len(ids) - sum(_between(story[0], story[-1]) >= TEN_MINUTES for story in told)


def _between(one: Outcome, another: Outcome) -> float:
    """Seconds, exact to the millisecond."""
    return round(another.age - one.age, 3)


ROWS = (
    Row(
        "T39",
        "a rollout: 2 workers of the old version and 1 of the new, which alone takes some tasks and "
        "arguments; then it is busy, then it is gone",
        "0 dead and 0 undone beside it, each at its first attempt; 0 dead while it lives; without it dead "
        "after ten minutes, not before; rests of 1, 2, 4 … 60 s",
        run,
    ),
)
