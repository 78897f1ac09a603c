"""How many finished calls of a worker process wait to be settled."""

from __future__ import annotations

from collections import deque
from typing import Any

MOST = 50  # a worker that is killed repeats at most so many calls that had ended
SETTLE_WITHIN = 0.005  # seconds after the end of a call; it repeats none that ended before


class Finished:
    """The finished calls of all consumers of a worker process that are not settled.

    If the process is killed, they are repeated. Each consumer has its own, since they are its messages; here
    they are counted.

    Args:
        most: so many at most.
    """

    def __init__(self, most: int = MOST) -> None:
        self._all: list[deque[Any]] = []
        self._most = self._enough = most
        self._threads = 0

    def of_consumer(self) -> deque[Any]:
        """Those of a new consumer, which are counted from now on."""
        own = deque[Any]()
        self._all.append(own)
        return own

    def leave_room(self) -> None:
        """For a thread more: each other thread may end a call before it looks how many there are."""
        self._threads += 1
        self._enough = max(1, self._most - self._threads + 1)

    def are_enough(self) -> bool:
        """Whether a consumer with finished calls is to settle them now."""
        return sum(map(len, self._all)) >= self._enough
