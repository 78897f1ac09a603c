"""The deliveries that a consumer holds: claimed, and not settled yet."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.values.message import Leased


class Holding:
    """Deliveries that were not started, the current one, and finished ones that are not acked.

    The consumer's thread moves them on; another thread extends their leases and releases those that wait too
    long. There is no lock: a delivery is in one deque at a time, and the thread that pops it owns it.

    Attributes:
        current: the delivery whose handler runs, or which is about to be settled.
        claimed: the time of the last claim, monotonic seconds.
        extended: when the leases were last extended, monotonic seconds.
    """

    def __init__(self) -> None:
        self._unstarted: deque[Leased[Any]] = deque()
        self.current: Leased[Any] | None = None
        self._done: deque[Leased[Any]] = deque()
        self.claimed = self.extended = 0.0
        self._in_doubt = False  # deliveries that were not started may be lost

    def add(self, deliveries: Iterable[Leased[Any]]) -> None:
        """Add deliveries that were just claimed."""
        self.claimed = self.extended = time.monotonic()
        self._unstarted.extend(deliveries)

    def next(self) -> Leased[Any] | None:
        """Take the next delivery to start; None: there is none."""
        try:
            self.current = self._unstarted.popleft()
        except IndexError:
            self.current = None
        return self.current

    def finish(self, delivery: Leased[Any]) -> int:
        """Note that a call succeeded; returns how many deliveries wait to be acked."""
        self._done.append(delivery)
        self.current = None
        return len(self._done)

    def let_go(self) -> None:
        """Note that the current delivery is settled."""
        self.current = None

    def take_unstarted(self) -> list[Leased[Any]]:
        """Take all that were not started, to release them."""
        return _take(self._unstarted)

    def take_done(self) -> list[Leased[Any]]:
        """Take all finished ones, to ack them."""
        return _take(self._done)

    def put_back(self, done: list[Leased[Any]]) -> None:
        """Put back finished ones that could not be acked."""
        self._done.extendleft(reversed(done))

    def kept(self, *, current: bool) -> list[Leased[Any]]:
        """One delivery per lease to extend.

        Args:
            current: whether the current delivery counts.
        """
        working = self.current
        held = [working] if current and working is not None else []
        held += (*self._done.copy(), *self._unstarted.copy())
        kept: dict[str, Leased[Any]] = {}
        for delivery in held:
            if not (delivery.settled or delivery.lost):
                kept.setdefault(delivery.token, delivery)
        return list(kept.values())

    def doubt(self) -> None:
        """Note that a lease was lost."""
        self._in_doubt = True

    def is_doubtful(self, now: float, lease: float) -> bool:
        """Whether the lease (seconds) of the deliveries that were not started may have lapsed."""
        return self._in_doubt or now - self.extended > lease

    def doubtful(self) -> list[Leased[Any]]:
        """The deliveries that were not started, to check their leases."""
        self._in_doubt = False
        return list(self._unstarted.copy())

    def drop(self, lost: Sequence[Leased[Any]]) -> None:
        """Drop the lost deliveries; the leases of the others were extended."""
        self.extended = time.monotonic()
        for delivery in lost:
            if delivery in self._unstarted:
                self._unstarted.remove(delivery)


def _take(deliveries: deque[Leased[Any]]) -> list[Leased[Any]]:
    taken: list[Leased[Any]] = []
    while deliveries:
        try:
            taken.append(deliveries.popleft())
        except IndexError:  # another thread was faster
            break
    return taken
