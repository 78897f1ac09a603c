# Generated from rq_dlq/asyncio/dependency.py by `python -m tests.colours_twin --write`.
"""Dependencies of the messages of a queue, or of all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.client.lane import Lane
from rq_dlq.core.keyed import outages
from rq_dlq.core.managing import pausing
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.broker import Broker
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.durations import Duration


class Dependency(Lane):
    """One dependency of a queue's messages; `queue.dependency(…)` makes it.

    Examples:
        >>> orders.dependency("payments").pause(until="10m")
        True
        >>> stats = orders.dependency("payments").stats()
        >>> stats.open
        True
    """

    _of = "dependency"

    def stats(self) -> DependencyStats:
        """Its state: whether it counts as down, since when, how many messages wait, and the next probe.

        Returns:
            Its state in this queue.

        Raises:
            InvalidInput: this is not a valid name of a dependency, or the queue is a dead-letter or expiry
                queue.

        Examples:
            >>> orders = broker.queue("orders", breaker=Breaker())
            >>> changed = orders.dependency("payments").pause(until="10m")
            >>> stats = orders.dependency("payments").stats()
            >>> stats.open, stats.paused, stats.waiting
            (True, True, 0)
        """
        return self._broker._run(outages.of_dependency(self._core, self._text))

    def resume(self, *, close: bool = False, by: str | None = None) -> bool:
        """End its pause: its messages are delivered again, 32 at first, then as earlier ones succeed.

        A dependency that counts as down is tested by itself, and needs no `resume`. To let its messages in
        although it is down is for those who know better: their failures are charged from then on, and for ten
        minutes nothing opens its breaker (`stats().charged_until`).

        Args:
            close: also close its breaker, if it counts as down.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed; False: it was neither paused nor down.

        Raises:
            InvalidInput: it counts as down, is not paused, and `close` is False; an argument is not valid; or
                the queue is a dead-letter or expiry queue.

        Examples:
            >>> changed = orders.dependency("payments").pause()
            >>> orders.dependency("payments").resume()
            True
        """
        return self._set_paused(paused=False, until=None, close=close, by=by)

    def probe(self, *, by: str | None = None) -> bool:
        """Test it now: let one of the messages through that wait for it, also while it is paused.

        If it succeeds, a dependency that counts as down comes back; a pause stays. If it fails, the
        message is not charged.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether a message was let through; False: none waits for it.

        Raises:
            InvalidInput: `by` is not valid, or the queue is a dead-letter or expiry queue.

        Examples:
            >>> orders.dependency("payments").probe()
            False
        """
        return self._broker._run(pausing.probe(self._core, self._text, by=by))


class DependencyOfAll(Answering):
    """One dependency of the messages of all queues; `broker.dependency(…)` makes it.

    Examples:
        >>> broker.dependency("payments").resume()
        0
    """

    def __init__(self, dependency: str, broker: Broker) -> None:
        self._dependency = dependency
        self._broker = broker

    def __repr__(self) -> str:
        return f"<Dependency {self._dependency!r} of all queues>"

    def stats(self) -> list[DependencyStats]:
        """Its state in each queue, like `queue.dependency(…).stats()`.

        Returns:
            Its state in each queue where it is known.

        Examples:
            >>> changed = broker.dependency("payments").pause(until="10m")
            >>> [(one.queue, one.paused) for one in broker.dependency("payments").stats()]
            [('mails', True), ('orders', True)]
        """
        return [one.stats() for one in self._each()]

    def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> int:
        """Deliver no messages that need it, in all queues that exist now; otherwise like `Dependency.pause`.

        Args:
            until, by: as in `Dependency.pause`.

        Returns:
            The number of queues in which anything changed.

        Examples:
            >>> broker.dependency("payments").pause(until="10m", by="anna")
            2
        """
        return sum([one.pause(until, by=by) for one in self._each()])

    def resume(self, *, close: bool = False, by: str | None = None) -> int:
        """Deliver them again, in all queues; otherwise like `Dependency.resume`.

        Args:
            close, by: as in `Dependency.resume`.

        Returns:
            The number of queues in which anything changed.

        Raises:
            InvalidInput: as in `Dependency.resume`; earlier queues are resumed.

        Examples:
            >>> changed = broker.dependency("payments").pause()
            >>> broker.dependency("payments").resume()
            2
        """
        return sum([one.resume(close=close, by=by) for one in self._each()])

    def probe(self, *, by: str | None = None) -> int:
        """Test it now, in all queues; otherwise like `Dependency.probe`.

        Args:
            by: as in `Dependency.probe`.

        Returns:
            The number of queues in which a message was let through.

        Examples:
            >>> broker.dependency("payments").probe()
            0
        """
        return sum([one.probe(by=by) for one in self._each()])

    def _each(self) -> list[Dependency]:
        broker = self._broker
        return [broker.queue(name).dependency(self._dependency) for name in broker.queues()]
