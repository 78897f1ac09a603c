"""The state of a dependency of a queue's messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

Condition = Literal["up", "down", "testing", "coming back", "paused"]


class Hanging(NamedTuple):
    """A call that was let through to test a dependency, and has not ended for `longest_probe`.

    Attributes:
        id: of its message.
        consumer: who holds it.
        since: when it was let through (UTC).

    Examples:
        >>> orders.dependency("payments").stats().hangs
        ()
    """

    id: str
    consumer: str
    since: datetime


@dataclass(frozen=True, slots=True)
class DependencyStats:
    """The state of a dependency in a queue, such as "payments".

    Attributes:
        dependency: its name.
        queue: the queue's name; each queue counts separately.
        open: whether it counts as down or is paused, so that its messages wait.
        condition: in a word: up, down, testing (messages were let through, and none has succeeded yet),
            coming back (a test succeeded, and messages follow as earlier ones succeed), or paused (by an
            operator).
        since: when it went down or was paused (UTC), the earlier one; None: neither.
        waiting: how many messages wait for it. When it works again, they follow as others succeed.
        behind: how many more wait behind these, for their keys (`PerKey(order=True)`); of very many, about.
        oldest: how long the oldest of these has existed, seconds; None: none waits.
        next_probe: when the next messages are tried (UTC); None: no probe is due, or it is paused.
        paused: whether an operator has paused it.
        until: when the pause ends (UTC); None: at `resume`.
        dead: the ids of the newest messages, at most 100, that died of the failures that opened the breaker.
        died: how many died so.
        error: the newest error, as text; empty: unknown.
        hangs: calls that were let through and have not ended, the longest first.
        ended: when it came back (UTC), while its messages still follow; None: none follow.
        charged_until: since an operator closed the breaker, failures are charged, and nothing opens it, until
            then (UTC); None: no operator has.

    Examples:
        >>> changed = orders.dependency("payments").pause(until="10m")
        >>> stats = orders.dependency("payments").stats()
        >>> stats.dependency, stats.condition, stats.paused, stats.waiting
        ('payments', 'paused', True, 0)
    """

    dependency: str
    queue: str
    open: bool = False
    condition: Condition = "up"
    since: datetime | None = None
    waiting: int = 0
    oldest: float | None = None
    next_probe: datetime | None = None
    paused: bool = False
    until: datetime | None = None
    dead: tuple[str, ...] = ()
    died: int = 0
    error: str = ""
    hangs: tuple[Hanging, ...] = ()
    ended: datetime | None = None
    charged_until: datetime | None = None
    behind: int = 0
