"""The number of a worker's finished calls that are not settled yet."""

from __future__ import annotations

from collections import deque
from typing import Any

MOST = 50  # a killed worker repeats at most this many finished calls
SETTLE_WITHIN = 0.005  # seconds after the end of a call; earlier ones are not repeated


class Finished:
    """The finished calls of all consumers of a worker process that are not settled.

    If the process is killed, they are repeated. Each consumer keeps its own calls; here they are counted.

    Args:
        most: the limit of finished calls.
    """

    def __init__(self, most: int = MOST) -> None:
        self._all: list[deque[Any]] = []
        self._most = self._enough = most
        self._threads = 0

    def of_consumer(self) -> deque[Any]:
        """A collection for a new consumer, whose calls are counted."""
        own = deque[Any]()
        self._all.append(own)
        return own

    def leave_room(self) -> None:
        """Lower the limit for another thread: each may finish a call before it checks the count."""
        self._threads += 1
        self._enough = max(1, self._most - self._threads + 1)

    def are_enough(self) -> bool:
        """Whether a consumer must settle its finished calls now."""
        return sum(map(len, self._all)) >= self._enough
