"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

State = Literal["ok", "warn", "fail"]
STATES: tuple[State, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what to do about it.

    Attributes:
        state: fail: queues cannot work here, or not as they promise. warn: they can, but read the advice; or
            it is not known. ok: it is known to be well.
        found: with figures as they are at the moment.
        advice: the same as long as it is the same that is wrong, so it holds no figure that moves.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def untold(name: str, command: str = "INFO") -> Check:
    """What is not known, since the server refuses the command that would tell."""
    right = command.lower().replace(" ", "|")
    return Check(name, "warn", "unknown: the server does not tell", f"let this user run {command} (+{right})")


def of_all(by_node: Mapping[str, Sequence[Check]]) -> Iterator[Check]:
    """The checks of several nodes as one list: of each check what is worst, and where."""
    by_name: dict[str, dict[str, Check]] = {}
    for node, checks in by_node.items():
        for check in checks:
            by_name.setdefault(check.name, {})[node] = check
    for same in by_name.values():
        worst = max(same.values(), key=lambda check: STATES.index(check.state))
        told = {node: check.found for node, check in same.items() if check.state == worst.state}
        if len(set(told.values())) == 1 and len(told) == len(by_node):
            yield worst
        else:
            yield replace(worst, found="; ".join(f"{node}: {found}" for node, found in told.items()))
