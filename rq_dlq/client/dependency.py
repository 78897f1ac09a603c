# Generated from rq_dlq/asyncio/dependency.py by `python -m tests.colours_twin --write`.
"""What the messages of a queue, or of all queues, need to succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed import outages
from rq_dlq.core.managing import pausing
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.durations import Duration


class Dependency(Answering):
    """One dependency of a queue's messages; `queue.dependency(…)` makes it."""

    def __init__(self, dependency: str, core: QueueState[Any], broker: Broker) -> None:
        self._dependency = dependency
        self._core = core
        self._broker = broker

    def __repr__(self) -> str:
        return f"<Dependency {self._dependency!r} of {self._core.name!r}>"

    def stats(self) -> DependencyStats:
        """Whether it counts as down, since when, how many messages wait, and when the next is tried.

        Raises:
            InvalidInput: this cannot be a dependency, or the queue is one of dead letters.
        """
        return self._broker._run(outages.of_dependency(self._core, self._dependency))

    def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> bool:
        """Deliver no messages that need it. What is in work goes on; if it fails, it is not charged.

        Args:
            until: when that ends: a time with its zone, or a duration; None: at `resume`.
            by: who pauses it, for the audit; None: this process.

        Returns:
            Whether this changed anything.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.
        """
        return self._set_paused(True, until, by)  # noqa: FBT003 - private

    def resume(self, *, by: str | None = None) -> bool:
        """Deliver them again, 32 at a time and then by success. No failures open the breaker for ten minutes.

        Returns:
            Whether this changed anything; False: it was neither paused nor open.

        Raises:
            InvalidInput: an argument is not valid, or the queue is one of dead letters.
        """
        return self._set_paused(False, None, by)  # noqa: FBT003 - private

    def _set_paused(self, paused: bool, until: datetime | Duration | None, by: str | None) -> bool:  # noqa: FBT001
        return self._broker._run(
            pausing.set_lane_paused(
                self._core, "dependency", self._dependency, paused=paused, until=until, by=by
            )
        )


class DependencyOfAll(Answering):
    """One dependency of the messages of all queues; `broker.dependency(…)` makes it."""

    def __init__(self, dependency: str, broker: Broker) -> None:
        self._dependency = dependency
        self._broker = broker

    def __repr__(self) -> str:
        return f"<Dependency {self._dependency!r} of all queues>"

    def stats(self) -> list[DependencyStats]:
        """What each queue knows of it, as `queue.dependency(…).stats()`."""
        return [one.stats() for one in self._each()]

    def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> int:
        """Deliver no messages that need it, in all queues that there are now; else as `Dependency.pause`.

        Returns:
            In how many queues this changed anything.
        """
        return sum([one.pause(until, by=by) for one in self._each()])

    def resume(self, *, by: str | None = None) -> int:
        """Deliver them again, in all queues; else as `Dependency.resume`.

        Returns:
            In how many queues this changed anything.
        """
        return sum([one.resume(by=by) for one in self._each()])

    def _each(self) -> list[Dependency]:
        broker = self._broker
        return [broker.queue(name).dependency(self._dependency) for name in broker.queues()]
