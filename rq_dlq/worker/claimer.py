"""The claims of a consumer, and whether it ends after one that found nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.core.claiming import claim
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.worker.claiming import Patience
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.claiming.claim import Make
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Settlement
    from rq_dlq.worker.holding import Holding
    from rq_dlq.worker.settling import Settling
    from rq_dlq.worker.shared import Shared

D = TypeVar("D", bound="Leased[Any]")


class Claimer(Generic[D]):
    """Claims the messages of one consumer; only its own thread or event loop does.

    Redis errors are logged, not raised.

    Args:
        make: makes the deliveries.

    Attributes:
        queue: from which it claims.
        pause: seconds to wait before the next claim, because the last one was refused.
        trouble: why the last claim was refused; empty: it was not refused.
    """

    def __init__(self, holding: Holding[D], settling: Settling[D], shared: Shared, make: Make[D]) -> None:
        self.queue, self.pause, self.trouble = holding.queue, 0.0, ""
        self._holding, self._settling, self._make = holding, settling, make
        self._until, self._together, self._stop = shared.until, shared.together, shared.stop
        self._vitals = shared.vitals
        self._together.join(self)
        self._patience = Patience(shared.until)
        self._seen = 0  # the number of releases before the last claim
        self._waited = 0  # how long the last claim waited at most, milliseconds

    def claim(self, count: int, *, waits: bool = True) -> Steps[Sequence[D]]:
        """Claim up to `count` messages; the wait for the first one depends on `until`."""
        found: Sequence[D] = ()
        undecodable: list[tuple[D, Settlement, BaseException]] = []
        holding = self._holding
        self.pause, self.trouble, self._seen = 0.0, "", holding.releases
        self._waited = self._patience.wait if waits else 0
        try:
            found = yield from claim.claim(
                holding.queue,
                self._make,
                count=count,
                wait=self._waited,
                permit=holding.permit,
                undecodable=lambda delivery, settlement, error: undecodable.append(
                    (delivery, settlement, error)
                ),
                stopped=self._stop.finishing.is_set,
            )
        except RqDlqError as error:
            self.trouble = str(error)
            if waits:  # otherwise acks need not wait for the next try
                holding.failed = time.monotonic()
            if not (isinstance(error, BrokerUnavailable) and self._stop.finishing.is_set()):
                holding.log("cannot claim", error)
                ends = self._until == "empty" and not self._together.works
                self.pause = 0.0 if ends else RETRY_AFTER
        else:
            self._vitals.note_success(self.queue.name, logger)
        for failure in undecodable:
            yield from self._settling.note(*failure)
        if waits:
            self._patience.note(found=bool(found))
        if found:
            self._together.begin(self)
        return found

    def over(self, held: int) -> Steps[bool]:
        """Whether the consumer ends after a claim that found no messages, with all others (`Together`).

        The worker's thread may have released some after that claim: then it claims again.

        Args:
            held: the number of messages that the consumer holds.
        """
        releases = self._holding.releases
        released = self._seen != releases or releases % 2 == 1
        if self._until == "stopped" or held or self._settling.underway or released:
            return False
        self._together.rest(self)
        if self._together.works:
            return False
        if self._waited:
            self._patience.wait = 0
            return False
        try:
            return (yield from self._together.over(self))
        except RqDlqError as error:
            self._holding.log("cannot see whether anything is left", error)
            if self._until == "empty":
                self._together.leave(self)
            return self._until == "empty"
