"""What runs when a message is delivered."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.durations import Duration, milliseconds, shown
from rq_dlq.errors import ConfigurationError
from rq_dlq.failure import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rq_dlq.message import Outcome, Received, Settlement

logger = logging.getLogger("rq_dlq.worker")
MOST_CONCURRENT = 1_000


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the queue whose messages it takes.

    Attributes:
        concurrency: how many run at once in one process.
        timeout: of one call, seconds; None: no limit.
        is_async: an `async def`.
        takes_delivery: it wants the delivery as its second argument.
    """

    queue: Any
    function: Callable[..., Any]
    concurrency: int
    timeout: float | None
    is_async: bool
    takes_delivery: bool

    @classmethod
    def checked(
        cls,
        queue: Any,
        function: Callable[..., Any],
        concurrency: int,
        timeout: Duration | None,
        others: Sequence[Handler] = (),
    ) -> Handler:
        """A handler, if it makes sense.

        Raises:
            ConfigurationError: it cannot be called with a body, or the queue has a handler already.
        """
        if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENT:
            message = f"concurrency {concurrency!r}: use a whole number from 1 to {MOST_CONCURRENT:,}"
            raise ConfigurationError(message)
        if any(other.queue.name == queue.name for other in others):
            message = f"queue {queue.name!r} has a handler already: one function takes all its messages"
            raise ConfigurationError(message)
        limit = None if timeout is None else milliseconds(timeout, name="timeout", minimum=1) / 1000
        return cls(
            queue,
            function,
            concurrency,
            limit,
            inspect.iscoroutinefunction(function),
            _takes_delivery(function),
        )


def _takes_delivery(function: object) -> bool:
    if not callable(function):
        message = f"{shown(function)} cannot be a handler: pass a function of (body) or (body, delivery)"
        raise ConfigurationError(message)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind("body", "delivery")
    except TypeError:
        pass
    else:
        return True
    try:
        signature.bind("body")
    except TypeError:
        message = f"{function!r} cannot be a handler: it takes (body) or (body, delivery)"
        raise ConfigurationError(message) from None
    return False


@dataclass
class Pace:
    """How long calls take, and so how many messages a consumer may claim at once.

    No more than it can start soon: a message that waits in one consumer's hands could run in another's.
    """

    soon: float = 0.1  # seconds within which the last of a claim is to start
    most: int = 100
    _usual: float | None = None  # seconds, a moving average

    def note(self, seconds: float) -> None:
        """A call took this long."""
        known = self._usual
        self._usual = seconds if known is None else known + 0.2 * (seconds - known)

    @property
    def claim(self) -> int:
        """How many messages to claim."""
        if self._usual is None:
            return 1
        return max(1, min(self.most, int(self.soon / max(self._usual, 1e-6))))


class Tally:
    """How deliveries ended, by outcome; safe with threads.

    Attributes:
        counts: so many of each outcome that a `Settlement` knows.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, settlements: Iterable[Settlement], asked: Outcome) -> None:
        """Count some more; as `asked`, what an earlier try of the same call had settled."""
        outcomes = [asked if said.outcome == "settled" else said.outcome for said in settlements]
        with self._lock:
            self.counts.update(outcomes)

    def note(self, delivery: Received[Any], settlement: Settlement, error: BaseException) -> None:
        """Count what failed, and report it."""
        self.add([settlement], "redelivered")
        report(delivery, settlement, error)


def report(delivery: Received[Any], settlement: Settlement, error: BaseException | None) -> None:
    """One line of log for each redelivery, death and lost lease."""
    cause = f"{type(error).__name__}: {Cause.of(error).message[:200]}" if error is not None else ""
    where, tries = f"{delivery.queue} {delivery.id}", delivery.delivery_count
    if settlement.outcome == "redelivered":
        logger.info("%s: delivery %d failed, again in %.3g s: %s", where, tries, settlement.delay, cause)
    elif settlement.outcome == "dead":
        logger.warning("%s: dead after %d deliveries: %s", where, tries, cause)
    elif settlement.outcome == "discarded":
        logger.info("%s: discarded after %d deliveries: %s", where, tries, cause)
    elif settlement.outcome == "expired":
        logger.warning("%s: expired after %d deliveries: %s", where, tries, cause)
    elif not settlement:
        logger.warning("%s: the lease was lost, so the result of delivery %d does not count", where, tries)
