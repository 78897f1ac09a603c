"""One result of the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["ok", "warn", "fail"]
STATES: tuple[State, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its result, its finding, and advice.

    Attributes:
        state: fail: queues do not work here, or lack the chosen durability. warn: they work, but read the
            advice; or the server does not report the facts. ok: no problem.
        found: the finding, with figures.
        advice: what to do. It contains no changing figures: the same fault has the same advice, so that a
            `Watch` reports it once.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def untold(name: str, command: str = "INFO") -> Check:
    """A check without a result, because the server refuses the command that it needs."""
    right = command.lower().replace(" ", "|")
    return Check(
        name, "warn", "unknown: the server does not report it", f"grant this user {command} (+{right})"
    )


def of_all(by_node: Mapping[str, Sequence[Check]]) -> Iterator[Check]:
    """Merge the checks of several nodes: the worst result of each check, and the nodes with that result."""
    by_name: dict[str, dict[str, Check]] = {}
    for node, checks in by_node.items():
        for check in checks:
            by_name.setdefault(check.name, {})[node] = check
    for same in by_name.values():
        worst = max(same.values(), key=lambda check: STATES.index(check.state))
        found = {node: check.found for node, check in same.items() if check.state == worst.state}
        if len(set(found.values())) == 1 and len(found) == len(by_node):
            yield worst
        else:
            yield replace(worst, found="; ".join(f"{node}: {text}" for node, text in found.items()))
