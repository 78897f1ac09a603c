"""What is known of a dependency of a queue's messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DependencyStats:
    """The messages of a queue that need one thing to succeed, such as "payments".

    Attributes:
        dependency: its name.
        queue: the queue; each counts for itself.
        open: whether it counts as down, or somebody has paused it, so that its messages wait.
        since: since when (UTC); None: it is not open.
        waiting: how many messages wait for it. After it has come back they are let in by success.
        next_probe: when the next message is tried (UTC); None: none is to be, or somebody has paused it.
        paused: whether somebody has paused it.
        until: when that ends (UTC); None: when somebody resumes it.
        dead: ids of messages that died in the window of failures by which it was noticed.

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
