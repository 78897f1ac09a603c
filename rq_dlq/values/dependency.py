"""The state of a dependency of a queue's messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DependencyStats:
    """The state of a dependency in a queue, such as "payments".

    Attributes:
        dependency: its name.
        queue: the queue's name; each queue counts separately.
        open: whether it counts as down or is paused, so that its messages wait.
        since: when it opened (UTC); None: it is not open.
        waiting: how many messages wait for it. When it works again, they follow as others succeed.
        next_probe: when the next message is tried (UTC); None: no probe is due, or it is paused.
        paused: whether an operator has paused it.
        until: when the pause ends (UTC); None: at `resume`.
        dead: the ids of messages that died in the window of failures that opened the breaker.

    Examples:
        >>> changed = orders.dependency("payments").pause(until="10m")
        >>> stats = orders.dependency("payments").stats()
        >>> stats.dependency, stats.open, stats.paused, stats.waiting
        ('payments', True, True, 0)
    """

    dependency: str
    queue: str
    open: bool = False
    since: datetime | None = None
    waiting: int = 0
    next_probe: datetime | None = None
    paused: bool = False
    until: datetime | None = None
    dead: tuple[str, ...] = ()
