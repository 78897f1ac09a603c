"""What a consumer holds: claimed, and not settled yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.message import Leased


class Holding:
    """What was not started, what is worked on, and what is done and not acked; safe with threads.

    Attributes:
        current: what is worked on: its handler runs, or it is about to be settled.
        claimed: when the last of it was claimed, monotonic seconds.
        extended: when its lease was last started anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unstarted: deque[Leased[Any]] = deque()
        self.current: Leased[Any] | None = None
        self._done: list[Leased[Any]] = []
        self.claimed = self.extended = 0.0
        self._in_doubt = False  # whether what was not started is still held

    def add(self, deliveries: Iterable[Leased[Any]]) -> None:
        """What was just claimed."""
        with self._lock:
            self._unstarted.extend(deliveries)
            self.claimed = self.extended = time.monotonic()

    def next(self) -> Leased[Any] | None:
        """The next to be started."""
        with self._lock:
            self.current = self._unstarted.popleft() if self._unstarted else None
            return self.current

    def finish(self, delivery: Leased[Any]) -> int:
        """A call has ended well; how many wait to be acked."""
        with self._lock:
            self.current = None
            self._done.append(delivery)
            return len(self._done)

    def let_go(self) -> None:
        """What was worked on is settled."""
        with self._lock:
            self.current = None

    def take_unstarted(self) -> list[Leased[Any]]:
        """What was not started, to be given back."""
        with self._lock:
            unstarted, self._unstarted = list(self._unstarted), deque()
        return unstarted

    def take_done(self) -> list[Leased[Any]]:
        """What is done, to be acked."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def put_back(self, done: list[Leased[Any]]) -> None:
        """What is done and could not be acked."""
        with self._lock:
            self._done = done + self._done

    def kept(self, *, current: bool) -> list[Leased[Any]]:
        """What each lease is kept for: one for all that was claimed of one queue.

        Args:
            current: also for what is worked on.
        """
        with self._lock:
            held = [self.current] if current and self.current is not None else []
            held += (*self._done, *self._unstarted)
        kept: dict[str, Leased[Any]] = {}
        for delivery in held:
            if not (delivery.settled or delivery.lost):
                kept.setdefault(delivery.token, delivery)
        return list(kept.values())

    def doubt(self) -> None:
        """A lease turned out to be lost."""
        self._in_doubt = True

    def doubtful(self, lease: float) -> list[Leased[Any]]:
        """What was not started, where its lease (seconds) may have run out."""
        with self._lock:
            late = time.monotonic() - self.extended > lease
            unstarted = list(self._unstarted) if late or self._in_doubt else []
            self._in_doubt = False
        return unstarted

    def drop(self, lost: Sequence[Leased[Any]]) -> None:
        """These are somebody else's by now; the others are held anew."""
        with self._lock:
            self.extended = time.monotonic()
            self._unstarted = deque(d for d in self._unstarted if d not in lost)
