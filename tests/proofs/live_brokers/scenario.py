"""A scenario: what happens, written once and run on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.proofs.live_brokers.driver import Consumer, Delivery, Letter, Side
from tests.proofs.live_brokers.facts import LATE, Facts, Waits, Why

Run = Callable[[Side], Facts]
Reasons = Mapping[str, Why]
ALIKE: Reasons = {}
TICK = 700
"""Milliseconds by which Classic's scheduler may be late: it looks twice a second, and takes its own steps."""
MOST = 40
"""Deliveries after which a message is taken to come back for ever."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row.

    Attributes:
        name: on the command line.
        told: what happens.
        run: does it on one side, and returns what was seen.
        reasons: by fact, why it differs.
    """

    name: str
    told: str
    run: Run
    reasons: Reasons


class Scenarios(dict[str, Scenario]):
    """The scenarios beside one broker, by name.

    Args:
        prefix: of all names, to tell them from those beside another broker.
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def add(self, told: str, **reasons: Why) -> Callable[[Run], Run]:
        """Decorate a function that runs one; its name is the scenario's."""

        def added(run: Run) -> Run:
            name = self._prefix + run.__name__.replace("_", "-")
            assert name not in self
            self[name] = Scenario(name, told, run, reasons)
            return run

        return added

    def include(self, part: Scenarios) -> None:
        """Add all of a part; names are told apart."""
        assert not self.keys() & part.keys()
        self.update(part)

    def add_failing(self, name: str, told: str, queue: str, *, why: Reasons = ALIKE, **given: Any) -> None:
        """Add one whose only message fails until it does not come back; see `failing`."""
        name = self._prefix + name
        assert name not in self
        self[name] = Scenario(name, told, lambda side: failing(side, queue, **given), why)


def failing(
    side: Side,
    queue: str,
    *,
    how: str = "rollback",
    late: int = LATE,
    quiet: float | None = None,
    **settings: Any,
) -> Facts:
    """A message that fails until it does not come back: how often, after what, and where it ends."""
    side.send(queue, queue)
    seen = fail(side.consumer(queue, **settings), how, quiet=quiet)
    return {"deliveries": len(seen), "waits": waits(seen, late), "ends_in": places(side.find(queue))}


def fail(consumer: Consumer, how: str = "rollback", *, quiet: float | None = None) -> list[Delivery]:
    """Receive and roll back, until nothing comes for a while: longer than it ever took."""
    seen: list[Delivery] = []
    while len(seen) < MOST:
        longest = max(waits(seen).values, default=0) / 1000
        delivery = consumer.receive(quiet or 1.5 + 2 * longest)
        if delivery is None:
            break
        seen.append(delivery)
        consumer.do(how)
    return seen


def waits(seen: Iterable[Delivery], late: int = LATE, within: tuple[int, int] | None = None) -> Waits:
    """Between deliveries."""
    return Waits(tuple(after.at - before.at for before, after in pairwise(seen)), late, within)


def counts(seen: Iterable[Delivery]) -> tuple[int, ...]:
    """The delivery counts that consumers saw."""
    return tuple(delivery.count for delivery in seen)


def bodies(seen: Iterable[Delivery | Letter]) -> tuple[str, ...]:
    """In which order."""
    return tuple(delivery.body for delivery in seen)


def places(letters: Iterable[Letter]) -> tuple[str, ...]:
    """In which queues, each once."""
    return tuple(dict.fromkeys(letter.queue for letter in letters))
