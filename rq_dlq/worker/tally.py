"""Counts and logs the outcomes of deliveries."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed.keyed import said
from rq_dlq.core.policies import policies
from rq_dlq.errors import Poison, Redeliver, RqDlqError
from rq_dlq.values.durations import human
from rq_dlq.values.failure import Cause
from rq_dlq.values.fingerprint import from_user
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.policy import QueueSettings
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Fate, Settlement

logger = logging.getLogger("rq_dlq.worker")
FRESH = 5.0  # seconds for which settings are cached
MOST = 200  # how many characters of an error's text are logged
LEVELS: dict[Fate, int] = {
    "redelivered": logging.WARNING,
    "kept": logging.WARNING,
    "expired": logging.WARNING,
    "dead": logging.ERROR,
    "discarded": logging.INFO,  # by the dead-letter strategy
    "settled": logging.WARNING,
    "passed_on": logging.INFO,
}
ON_PURPOSE: dict[type, int] = {Redeliver: logging.INFO, Poison: logging.WARNING}
"""The exceptions that a handler raises to choose the outcome."""


_outcome = attrgetter("outcome")


class Tally:
    """The outcomes of deliveries; thread-safe.

    Attributes:
        counts: the number of deliveries by `Settlement.outcome`.
        then: is called whenever they have grown; None: nothing is.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.then: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def add(self, settlements: Iterable[Settlement], asked: Fate) -> Counter[str]:
        """Count settlements; "settled" (by an earlier try of the same call) counts as `asked`.

        Returns:
            The number of these settlements by outcome.
        """
        counts: Counter[str] = Counter(map(_outcome, settlements))
        if "settled" in counts:
            counts[asked] += counts.pop("settled")
        with self._lock:
            for outcome, number in counts.items():  # `update` takes longer than the rest
                self.counts[outcome] += number
        if self.then is not None:
            self.then()
        return counts


class SettingsInForce:
    """The settings of a queue for the log: its limit of redeliveries, and its dead-letter queue."""

    def __init__(self, queue: QueueState[Any]) -> None:
        self._queue = queue
        self._settings: QueueSettings | None = None
        self._until = 0.0

    def read(self) -> Steps[QueueSettings | None]:
        """The settings; None: unknown, or the queue is a dead-letter or expiry queue."""
        queue, now = self._queue, time.monotonic()
        if now > self._until and queue.part == "live" and not queue.view:
            self._until = now + FRESH
            try:
                self._settings = yield from policies.explain_policy(queue.keys, queue.naming)
            except RqDlqError:
                self._settings = None
        return self._settings


def report(
    delivery: Leased[Any],
    settlement: Settlement,
    error: BaseException | str | None,
    settings: QueueSettings | None = None,
) -> None:
    """Log a failure, a lost lease, or an error after the message was settled.

    A death is logged with its traceback; at the level DEBUG, so is each failure. The line has the context of
    the handler.

    Args:
        settings: the queue's settings; None: unknown.
    """
    if delivery.cancelled and not settlement:
        logger.info("%s %s was cancelled, so the result of its call is ignored", delivery.queue, delivery.id)
    elif delivery._handling is None:
        _report(delivery, settlement, error, settings)
    else:
        delivery._handling.run(_report, delivery, settlement, error, settings)


def _report(
    delivery: Leased[Any],
    settlement: Settlement,
    error: BaseException | str | None,
    settings: QueueSettings | None,
) -> None:
    where = f"{delivery.queue} {delivery.id}"
    fields = {
        "queue": delivery.queue,
        "message_id": delivery.id,
        "attempt": delivery.attempt,
        "delivery_count": delivery.delivery_count,
    }
    if settlement.outcome in LEVELS:
        at_most = next(
            (level for kind, level in ON_PURPOSE.items() if isinstance(error, kind)), logging.ERROR
        )
        level = min(LEVELS[settlement.outcome], at_most)
        seen = (settlement.outcome == "dead" and level == logging.ERROR) or logger.isEnabledFor(logging.DEBUG)
        trace = None
        if seen and isinstance(error, BaseException):
            trace = type(error), error, from_user(error.__traceback__)
        then = _then(delivery, settlement, settings)
        what = _what(delivery, settlement, settings)
        logger.log(level, "%s: %s: %s; %s", where, what, _text(error), then, exc_info=trace, extra=fields)
    elif settlement:
        line = "%s: its handler failed after it was %s: %s"
        logger.warning(line, where, settlement.outcome, _text(error), extra=fields)
    else:
        why = "it is no longer in the queue" if settlement.outcome == "gone" else "the lease was lost"
        line = "%s: %s, so the result of attempt %d is ignored"
        logger.warning(line, where, why, delivery.attempt, extra=fields)


def _text(error: BaseException | str | None) -> str:
    """An error in one line; its text is not trusted."""
    if error is None:
        return "without an error"
    kind = type(error).__name__ if isinstance(error, BaseException) else ""
    return visible_line(": ".join(filter(None, (kind, Cause.of(error).message[:MOST]))))


def _is_parked(delivery: Leased[Any], settlement: Settlement, settings: QueueSettings | None) -> bool:
    """Whether a message waits, uncharged, until its dependency works again."""
    at_once = settlement.uncharged and not settlement.delay
    return at_once and settings is not None and bool(settings.breaker and said(delivery)[1])


def _what(delivery: Leased[Any], settlement: Settlement, settings: QueueSettings | None) -> str:
    """What happened to a delivery, for the log; the budget is shown only if the failure is charged to it."""
    if settlement.outcome == "passed_on":
        return "passed on"
    if settlement.uncharged:
        return f"uncharged attempt {delivery.attempt} failed"
    if settlement.outcome == "settled":  # by an earlier try, whose reply was lost
        return f"attempt {delivery.attempt} failed"
    limit = None if settings is None else settings.redelivery.max_redeliveries
    return f"try {delivery.charged + 1}{'' if limit is None else f' of {limit + 1}'} failed"


def _then(delivery: Leased[Any], settlement: Settlement, settings: QueueSettings | None) -> str:
    """The outcome of the message, for the log."""
    match settlement.outcome:
        case "dead":
            return f"dead letter in {settings.dead_name}" if settings else "dead letter"
        case "expired":
            where = f", in {settings.expired_name}" if settings else ""
            return f"expired{where}: its time to live ends before the next try"
        case "discarded":
            return "discarded by the queue's dead-letter strategy"
        case "settled":
            return "outcome unknown: the reply to an earlier try was lost"
        case "redelivered" if _is_parked(delivery, settlement, settings):
            return f"back as soon as {said(delivery)[1]} is up"
        case _:
            stays = {"passed_on": "it waits for another version, ", "kept": "stays a dead letter, "}
            wait = human(round((settlement.delay or 0) * 1000))
            return f"{stays.get(settlement.outcome, '')}back in {wait}"
