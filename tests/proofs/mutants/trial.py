"""Tries mutants: which test may see it, the most telling first, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.mutants.forks import ENDLESS, Message, Slot, attempt, ready, record
from tests.proofs.mutants.mutate import Mutant
from tests.proofs.mutants.results import Result
from tests.servers import Server

QUICK = 12  # tests, before the model has its turn: it takes longest, and sees most
MODEL = "tests/model/test_model.py"
HANGS = 60  # seconds after which a test that has not ended never will: no sound one takes so long


@contextmanager
def slots(directory: Path, number: int) -> Iterator[list[Slot]]:
    """So many places, each with a server; whatever still runs in them is killed at the end."""
    with ExitStack() as stack:
        found: list[Slot] = []
        for n in range(number):
            place = directory / f"slot{n}"
            place.mkdir(parents=True, exist_ok=True)
            server = Server(place, "--lua-time-limit", str(ENDLESS))
            found.append(Slot(stack.enter_context(server)))
        try:
            yield found
        finally:
            for slot in found:
                if slot.pid:
                    slot.end()


@dataclass
class Known:
    """What is known of a test; `lines`: the statements that it comes by, file and line; None: not known."""

    seconds: float
    lines: set[tuple[str, int]] | None = None
    failed: bool = False
    why: str = ""
    runs: Counter[str] = field(default_factory=Counter[str])
    kills: Counter[str] = field(default_factory=Counter[str])

    def cells(self) -> list[Any]:
        """For a file."""
        return [self.seconds, sorted(self.lines or ()), self.failed, self.why]

    @classmethod
    def of(cls, cells: list[Any]) -> Known:
        """From a file."""
        seconds, lines, failed, why = cells
        return cls(seconds, {(file, line) for file, line in lines}, failed, why)

    def telling(self, file: str) -> float:
        """How likely it kills a mutant of this file, a second: by what it did, and what it is about."""
        mostly = self.kills.total() / (1 + self.runs.total())
        lines = len(self.lines or ())
        likely = self.kills[file] + 0.2 * mostly + self.files[file] / (lines or 1) + lines / 1_000
        return likely / (1 + self.runs[file]) / (self.seconds + 0.02)

    @cached_property
    def files(self) -> Counter[str]:
        """How many statements of each file it comes by."""
        return Counter(file for file, _ in self.lines or ())


def observe(
    items: Sequence[pytest.Item], places: Sequence[Slot], seconds: float, done: Callable[[int], None]
) -> dict[str, Known]:
    """Run the tests once on sound Lua; those that had no turn in time are not in the answer."""
    known: dict[str, Known] = {}
    for n, slot in enumerate(places):
        record(items[n :: len(places)], slot, seconds)
    while any(slot.pid for slot in places):
        for slot in ready(places, 1):
            for message in slot.messages():
                if "broke" in message:
                    raise RuntimeError(message["broke"])
                if "test" in message:
                    lines = {(file, line) for file, line in message["lines"]}
                    known[message["test"]] = Known(
                        message["seconds"], lines, message["failed"], message["why"]
                    )
                    done(len(known))
        for slot in places:
            if slot.pid and time.monotonic() - slot.began > seconds + 60:
                slot.end()
    return known


@dataclass
class Trial:
    """Mutants on several servers side by side.

    Args:
        known: by the name of the test; a test that is not in it is tried last.
        patience: seconds for a mutant.
        killers: the test to begin with, by the mark of a mutant.
    """

    items: Sequence[pytest.Item]
    known: dict[str, Known]
    places: Sequence[Slot]
    patience: float
    killers: Mapping[str, str] = field(default_factory=dict[str, str])
    _turns: dict[int, _Turn] = field(default_factory=dict[int, "_Turn"])

    def run(self, mutants: Iterable[Mutant], until: float = float("inf")) -> Iterator[Result]:
        """Try them, as long as the time is not over; each result as it comes."""
        waiting = iter(mutants)
        more = True
        while more or any(slot.pid for slot in self.places):
            for n, slot in enumerate(self.places):
                if more and not slot.pid:
                    mutant = next(waiting, None) if time.monotonic() < until else None
                    more = mutant is not None
                    if mutant is not None:
                        yield from self._begin(n, mutant)
            for slot in ready(self.places, 0.2):
                turn = self._turns[self.places.index(slot)]
                for message in slot.messages():
                    yield from self._heard(turn, message)
            for n, slot in enumerate(self.places):
                if slot.pid:
                    yield from self._watch(slot, self._turns[n])

    def candidates(self, mutant: Mutant) -> list[pytest.Item]:
        """The tests that come by the change, the most telling first, then those of which nothing is known."""
        place = (mutant.file, mutant.statement)

        def tells(item: pytest.Item) -> float:
            known = self.known.get(item.nodeid)
            return -known.telling(mutant.file) if known else 0.0

        seen = {name: known.lines for name, known in self.known.items() if known.lines is not None}
        coming = [item for item in self.items if place in seen.get(item.nodeid, ())]
        coming.sort(key=tells)
        model = [item for item in coming[QUICK:] if item.nodeid.startswith(MODEL)]
        rest = [item for item in coming[QUICK:] if item not in model]
        others = [item for item in self.items if item.nodeid not in seen]
        others.sort(key=lambda item: (not item.nodeid.startswith(MODEL), tells(item)))
        order = [*coming[:QUICK], *model, *rest, *others]
        killer = self.killers.get(mutant.mark)
        return sorted(order, key=lambda item: item.nodeid != killer)

    def _begin(self, n: int, mutant: Mutant) -> Iterator[Result]:
        items = self.candidates(mutant)
        self._turns[n] = _Turn(mutant, len(items))
        if not items:
            yield self._turns[n].result("survived", "no test comes by", 0.0)
            return
        slot = self.places[n]
        slot.refresh()
        usual = [it.seconds if (it := self.known.get(item.nodeid)) and it.lines else 5.0 for item in items]
        attempt(items, usual, mutant, slot)

    def _heard(self, turn: _Turn, message: Message) -> Iterator[Result]:
        if "begins" in message:
            turn.test, turn.since = message["begins"], time.monotonic()
        elif "test" in message:
            turn.tests += 1
            turn.spent += message["seconds"]
            known = self.known.setdefault(message["test"], Known(message["seconds"]))
            known.runs[turn.mutant.file] += 1
            if message["failed"]:
                known.kills[turn.mutant.file] += 1
                turn.killed = True
        elif "broke" in message:
            if not turn.test:
                raise RuntimeError(message["broke"])
            turn.killed = True
        elif turn.killed:
            yield turn.result("killed", turn.test, turn.spent)
        elif turn.tests == turn.of:
            yield turn.result("survived", "", turn.spent)
        elif turn.test and not turn.over:
            yield turn.result("killed", f"the process died in {turn.test}", turn.spent)
        elif not turn.over:
            reason = f"nothing was tried on {turn.mutant}"
            raise RuntimeError(reason)

    def _watch(self, slot: Slot, turn: _Turn) -> Iterator[Result]:
        """End what does not end by itself."""
        took = time.monotonic() - slot.began
        looked = time.monotonic() - turn.looked > 1
        if looked:
            turn.looked = time.monotonic()
        if looked and slot.is_stuck():
            slot.end()
            yield turn.result("killed", f"without an end in {turn.test}", took)
        elif took > self.patience:
            slot.end()
            if turn.test and time.monotonic() - turn.since > HANGS:
                yield turn.result("killed", f"without an end in {turn.test}", took)
            else:
                yield turn.result("unsettled", "", took)


@dataclass
class _Turn:
    mutant: Mutant
    of: int
    test: str = ""
    since: float = 0.0  # when it began
    tests: int = 0
    spent: float = 0.0
    killed: bool = False
    over: bool = False
    looked: float = field(default_factory=time.monotonic)

    def result(self, outcome: str, by: str, seconds: float) -> Result:
        self.over = True
        return Result(self.mutant.key, str(self.mutant), outcome, by, self.tests, round(seconds, 2))  # type: ignore[arg-type]
