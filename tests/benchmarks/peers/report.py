"""The tables: the figures of each peer, our goals beside them, and what each peer promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from tests.benchmarks.peers.install import US
from tests.benchmarks.peers.measure import ONE_BY_ONE, P50, P99, SEND_MANY, SEND_ONE, Measured
from tests.benchmarks.peers.peer import AS_IT_COMES, ASYNC_10, ASYNC_100, FOR_SPEED, WAYS

FIGURES = (SEND_ONE, SEND_MANY, *WAYS, ONE_BY_ONE, P50, P99)
PYTHON = ("rq", "celery", "dramatiq", "arq", "saq", "taskiq", "huey", "streaq", "repid")
Round = Mapping[str, Measured]  # by peer
Pick = Callable[[Round], float]


@dataclass(frozen=True)
class Sheet:
    """A table that can be shown on a terminal, and in Markdown."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def rich(self) -> Table:
        """For a terminal."""
        table = Table(*self.header, title=self.title)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a document."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join(["| " + " | ".join(line) + " |" for line in lines])


def of(peer: str, name: str) -> Pick:
    """A figure of a peer."""
    return lambda found: found[peer].figures[name]


def best(*peers: str) -> Pick:
    """The fastest drain of some peers, in whatever way; those that were not measured do not count."""
    return lambda found: max(
        figure
        for peer in peers
        if peer in found
        for name, figure in found[peer].figures.items()
        if name in WAYS
    )


@dataclass(frozen=True)
class Goal:
    """A ratio that is to be reached, or, without `beside`, a figure that is not to be passed."""

    name: str
    ours: Pick
    beside: Pick | None
    wanted: float

    def row(self, rounds: Sequence[Round]) -> list[str] | None:
        """What was reached: the median, and the lowest and the highest of the rounds."""
        try:
            ours = [self.ours(found) for found in rounds]
            theirs = [self.beside(found) if self.beside else 1.0 for found in rounds]
        except (KeyError, ValueError):
            return None  # somebody was not measured
        found = [a / b for a, b in zip(ours, theirs, strict=True)]
        middle = median(found)
        is_met = middle <= self.wanted if self.beside is None else middle >= self.wanted
        spread = f"{middle:.2f} ({min(found):.2f} to {max(found):.2f})"
        sign = "≤" if self.beside is None else "≥"
        return [self.name, f"{sign} {self.wanted:g}", spread, "yes" if is_met else "no"]


OURS = of(US, AS_IT_COMES)
GOALS = (
    Goal("worker as it comes : BullMQ's best", OURS, best("bullmq"), 15),
    Goal("worker as it comes : JetStream's best", OURS, best("nats"), 1.5),
    Goal("worker as it comes : the fastest Python peer on Redis", OURS, best(*PYTHON), 6),
    Goal("worker as it comes : RQ's SimpleWorker", OURS, of("rq", FOR_SPEED), 100),
    Goal("8 threads : BullMQ's best", of(US, "8 threads"), best("bullmq"), 4),
    Goal("10 async calls : BullMQ's best", of(US, ASYNC_10), best("bullmq"), 4),
    Goal("100 async calls : BullMQ's best", of(US, ASYNC_100), best("bullmq"), 4),
    Goal("100 async calls : worker as it comes", of(US, ASYNC_100), OURS, 0.7),
    Goal("a loop of one : BullMQ at concurrency 1", of(US, ONE_BY_ONE), of("bullmq", AS_IT_COMES), 2.5),
    Goal("send many : BullMQ", of(US, SEND_MANY), of("bullmq", SEND_MANY), 5),
    Goal("send many : JetStream", of(US, SEND_MANY), of("nats", SEND_MANY), 3),
    Goal("send one : RQ", of(US, SEND_ONE), of("rq", SEND_ONE), 4),
    Goal("send one : huey", of(US, SEND_ONE), of("huey", SEND_ONE), 1),
    Goal("idle pick-up, p50, ms", of(US, P50), None, 0.45),
    Goal("idle pick-up, p99, ms", of(US, P99), None, 0.9),
)


def in_readme(text: str, rounds: Sequence[Round]) -> str:
    """The text of README with the speed of these rounds."""
    drained = median(OURS(found) for found in rounds)
    ratio = median(OURS(found) / best(*PYTHON)(found) for found in rounds)
    text = re.sub(r"(?<=It handles )[\d,]+", f"{drained:,.0f}", text)
    return re.sub(r"[\d.]+(?= times as many as any other Python queue)", f"{ratio:.1f}", text)


def figures(rounds: Sequence[Round]) -> Sheet:
    """The medians of all figures."""

    def cell(peer: str, name: str) -> str:
        found = [one[peer].figures[name] for one in rounds if name in one[peer].figures]
        digits = 2 if name in {P50, P99} else 0
        if found:
            return f"{median(found):,.{digits}f}"
        return "failed" if any(name in one[peer].failed for one in rounds) else "-"

    rows = [[peer, *(cell(peer, name) for name in FIGURES)] for peer in rounds[0]]
    units = [f"{name}, {'ms' if name in {P50, P99} else '/s'}" for name in FIGURES]
    return Sheet(f"Medians of {len(rounds)} rounds", ["", *units], rows)


def goals(rounds: Sequence[Round]) -> Sheet:
    """Our goals."""
    rows = [row for goal in GOALS if (row := goal.row(rounds))]
    return Sheet("Goals", ["ratio, or figure", "goal", "median (lowest to highest)", "met"], rows)


def promises(rounds: Sequence[Round]) -> Sheet:
    """What was run, and what each peer promises for it."""
    rows = []
    for peer, found in rounds[0].items():
        about = found.about
        versions = [f"{name} {version}" for name, version in about["versions"].items()]
        said = [about[name] for name in ("setting", "crash", "fence", "leaves")]
        rows.append([peer, ", ".join(versions), *said])
    header = ["", "versions", "setting", "messages of a killed worker", "late acks refused", "left when done"]
    return Sheet("What was run, and what it promises", header, rows)


def imports(costs: Mapping[str, float]) -> Sheet:
    """The CPU of imports."""
    rows = [[f"`{name}`", f"{cost:.0f}"] for name, cost in costs.items()]
    return Sheet("CPU of a program that does nothing else", ["", "ms"], rows)


def failures(rounds: Sequence[Round]) -> list[str]:
    """What could not be measured, a sentence each."""
    return sorted(
        {
            f"{peer}, {name}: {why}"
            for one in rounds
            for peer, found in one.items()
            for name, why in found.failed.items()
        }
    )
