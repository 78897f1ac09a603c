"""Counts and logs how deliveries ended."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rq_dlq.values.failure import Cause
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rq_dlq.values.message import Received
    from rq_dlq.values.settlement import Fate, Settlement

logger = logging.getLogger("rq_dlq.worker")


class Tally:
    """How deliveries ended; safe with threads.

    Attributes:
        counts: the number of deliveries by `Settlement.outcome`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, settlements: Iterable[Settlement], asked: Fate) -> None:
        """Count settlements; "settled", by an earlier try of the same call, counts as `asked`."""
        outcomes = [asked if one.outcome == "settled" else one.outcome for one in settlements]
        with self._lock:
            self.counts.update(outcomes)

    def note(self, delivery: Received[Any], settlement: Settlement, error: BaseException) -> None:
        """Count a failure, and log it."""
        self.add([settlement], "redelivered")
        report(delivery, settlement, error)


def report(delivery: Received[Any], settlement: Settlement, error: BaseException | None) -> None:
    """Log a redelivery, a death or a lost lease."""
    cause = f"{type(error).__name__}: {Cause.of(error).message[:200]}" if error is not None else ""
    cause = visible_line(cause)  # which a message may have chosen
    where, tries = f"{delivery.queue} {delivery.id}", delivery.delivery_count
    if settlement.outcome in {"redelivered", "kept"}:
        logger.info("%s: delivery %d failed, again in %.3g s: %s", where, tries, settlement.delay or 0, cause)
    elif settlement.outcome in {"dead", "expired", "discarded"}:
        level = logging.INFO if settlement.outcome == "discarded" else logging.WARNING
        noun = "delivery" if tries == 1 else "deliveries"
        logger.log(level, "%s: %s after %d %s: %s", where, settlement.outcome, tries, noun, cause)
    elif not settlement:
        logger.warning("%s: the lease was lost, so the result of delivery %d does not count", where, tries)
