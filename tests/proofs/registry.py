"""What there is to prove: what each proof takes, needs and shows. docs/proofs.md has it as a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests import servers
from tests.checkout import ROOT
from tests.proofs.live_brokers import brokers

PAGE = ROOT / "docs" / "proofs.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
HEADS = ("proof", "takes", "needs", "shows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A program that shows something, in a folder with the tests of the program itself.

    Attributes:
        name: of the folder, and of the command: `python -m tests.proofs NAME`.
        takes: its time, on two cores.
        needs: beside a redis-server.
        missing: why it cannot be run here; empty where it can.
        runs: the arguments of its runs, unless others are given.
    """

    name: str
    takes: str
    needs: str
    shows: str
    missing: Callable[[], str]
    runs: Sequence[Sequence[str]] = ((),)

    def cells(self) -> tuple[str, ...]:
        """As text, in the order of HEADS."""
        return self.name, self.takes, self.needs, self.shows


def without(*commands: str) -> Callable[[], str]:
    """Says which is missing: a redis-server, or one of these on the PATH."""

    def missing() -> str:
        found = {"redis-server": servers.binary(), **{name: shutil.which(name) for name in commands}}
        return ", ".join(f"no {name} here" for name, path in found.items() if not path)

    return missing


PROOFS = {
    proof.name: proof
    for proof in (
        Proof(
            name="reliability",
            takes="three hours; `--scale short` ten minutes, `--scale soak` hours",
            needs="for some rows gcc, root (network namespaces), the extras `web` and `fuzz`, pip",
            shows="what is promised under faults: each fault is caused, and what is lost is counted",
            missing=without(),
        ),
        Proof(
            name="sabotage",
            takes="half an hour",
            needs="what its rows need",
            shows="each row of `reliability` finds the bugs that it is for: they are planted, one at a time",
            missing=without(),
        ),
        Proof(
            name="mutants",
            takes="hours; it continues where it was interrupted",
            needs="nothing more",
            shows="the tests see faults in the Lua: each mutant is one",
            missing=without(),
        ),
        Proof(
            name="live_brokers",
            takes="ten minutes",
            needs="Maven, Go, a JDK, ActiveMQ Classic, nats-server: those whose broker is to be compared",
            shows="ActiveMQ Classic and Artemis, NATS Streaming and JetStream do the same as we do, or the "
            "difference is explained",
            missing=brokers.none_is_here,
        ),
        Proof(
            name="spark_chaos",
            takes="half an hour",
            needs="Java 17",
            shows="nothing is lost or doubled when drivers, executors and Redis are killed under Spark",
            missing=without("java"),
        ),
        Proof(
            name="triage",
            takes="two minutes",
            needs="chromium",
            shows="the way from an outage to its redriven letters, on the command line and in a browser",
            missing=without("chromium"),
            runs=((), ("--browser",)),
        ),
    )
}


def as_markdown() -> str:
    """The table of the page."""
    rows = (
        HEADS,
        ["---"] * len(HEADS),
        *([f"`{name}`", *rest] for name, *rest in map(Proof.cells, PROOFS.values())),
    )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{as_markdown()}\n{END}{rest.split(END)[1]}"
