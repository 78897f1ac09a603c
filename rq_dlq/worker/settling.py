"""Settles the calls of a consumer by how they ended, together where possible.

- *Failures are settled like acks*: they wait with them, and go in one round trip, 20 at a time. When each was
  settled on its own, while the pace counted the call alone, handlers that failed at once claimed 250 ahead
  and gave most of them back: four claims for each failure. So the pace counts a call and its settlement. A
  failure that is refused is tried alone, and holds up no other.
- *No error of a handler* ends the worker or the call's settling. If its settlement fails, for example for a
  `Redeliver` with invalid attributes, the message is nacked with that failure as its cause. A settlement
  without an answer is repeated until the worker gives up. A refused one is repeated for as long as a lease
  lasts: a full disk refuses everything until there is room again, but a damaged key refuses forever, and must
  not stop a worker.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rq_dlq.core.claiming import passing_on
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.step import CHANGED, chunks
from rq_dlq.errors import BrokerUnavailable, InvalidInput, RqDlqError, UnfitMessage
from rq_dlq.values import deques
from rq_dlq.values.readable import many
from rq_dlq.values.settlement import FAILED, Settlement
from rq_dlq.worker.stopping import DeadlinePassed, Stopped
from rq_dlq.worker.tally import SettingsInForce, logger, report

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.holding import Holding
    from rq_dlq.worker.tally import Tally

D = TypeVar("D", bound="Leased[Any]")


class Failure(NamedTuple):
    """The error of a call, and when it failed, monotonic seconds."""

    error: Exception
    at: float


class Settling(Generic[D]):
    """Settles the calls of one consumer.

    `finish` is for the thread or the event loop in which a call has ended, the steps also for the worker's
    thread.

    Args:
        holding: what the consumer holds; calls that ended are in its `done`.
        ack_each: each call is settled individually.

    Attributes:
        failures: the failures of deliveries in `done`.
        underway: settlements without a reply yet.
    """

    def __init__(self, holding: Holding[D], tally: Tally, *, ack_each: bool) -> None:
        self._holding, self._tally, self._ack_each = holding, tally, ack_each
        self._done, self._permit = holding.done, holding.permit
        self.failures: dict[D, Failure] = {}
        self.underway: set[object] = set()
        self._settings = SettingsInForce(holding.queue)

    def finish(self, delivery: D, error: BaseException | None, ended: float) -> bool:
        """Note the end of a call, to settle it with others; False: it must be settled now.

        It is settled now if the handler settled it or may have, if the worker interrupted the call, and if
        the next call must wait for it: after a suspect, or with `ack_each`.
        """
        if delivery.outcome is not None or delivery._chain is not None:
            return False
        if self._ack_each or delivery is self._permit.suspect:
            return False
        if error is not None:
            if not isinstance(error, Exception):
                return False
            self.failures[delivery] = Failure(error, ended)
        self._done.append(delivery)
        return True

    def settle_done(self) -> Steps[bool]:
        """Settle all finished calls; False: some are left for a retry."""
        if self._holding.gives_up:
            return not self._done
        self.underway.add(underway := object())
        unacked, failed = deques.take_all(self._done), list[D]()
        if self.failures:
            failed = [delivery for delivery in unacked if delivery in self.failures]
            unacked = [delivery for delivery in unacked if delivery not in self.failures]
        try:
            unacked = yield from self._holding.ack(unacked)
            yield from self._settle_failures(failed)
        finally:
            again = [*unacked, *(delivery for delivery in failed if delivery in self.failures)]
            self._done.extendleft(reversed(again))
            self.underway.discard(underway)
        return not again

    def _settle_failures(self, failed: list[D]) -> Steps[None]:
        """Settle failed calls together. Calls to retry stay in `failures`."""
        for part in chunks(failed, CHANGED):
            settling = [self._settle_failed(delivery, self.failures[delivery].error) for delivery in part]
            try:
                settled = yield from together(settling)
            except BrokerUnavailable as failure:
                self._holding.log(f"cannot settle {many(len(part), 'message')}", failure)
                self._holding.failed = time.monotonic()
                for one in settling:
                    with suppress(BrokerUnavailable):
                        one.throw(failure)
                break
            except RqDlqError:  # perhaps only one of them was refused
                for one in settling:
                    one.close()  # its outcome is unknown: the next try is a repetition
                yield from self._settle_one_by_one(part)
            else:
                for delivery, (settlement, error) in zip(part, settled, strict=True):
                    del self.failures[delivery]
                    yield from self.note(delivery, settlement, error)

    def _settle_one_by_one(self, failed: Sequence[D]) -> Steps[None]:
        for delivery in failed:
            error, at = self.failures[delivery]
            if (yield from self.settle(delivery, error, at)):
                del self.failures[delivery]
            else:
                self._holding.failed = time.monotonic()

    def settle(self, delivery: D, error: BaseException | None, began: float) -> Steps[bool]:
        """Settle a call by how it ended, or count its handler's settlement; False: retry.

        Args:
            began: when this was first tried, monotonic seconds.
        """
        if delivery.outcome is not None:
            yield from self._note_settled(delivery, error)
            return True
        if error is None and delivery._chain is not None:
            error = BrokerUnavailable("its handler passed over an ack whose outcome is unknown")
        if error is None:
            return not (yield from self._holding.ack([delivery]))
        try:
            settlement, error = yield from self._settle_failed(delivery, error)
        except RqDlqError as failure:
            self._holding.log(f"cannot settle {delivery.id}", failure)
            return not self._holding.may_pass(failure, began)
        yield from self.note(delivery, settlement, error)
        return True

    def leave(self, delivery: D, error: BaseException | None) -> None:
        """Give up a settlement that got no answer; an ack is tried once more at the very end."""
        if error is None:
            self._done.append(delivery)
        else:
            name = self._holding.queue.name
            logger.error("%s: cannot settle %s: redelivered after the lease", name, delivery.id)

    def note(self, delivery: D, settlement: Settlement, error: BaseException | str | None) -> Steps[None]:
        """Count a failure, and log it."""
        self._tally.add([settlement], "redelivered")
        report(delivery, settlement, error, (yield from self._settings.read()))

    def _note_settled(self, delivery: D, error: BaseException | None) -> Steps[None]:
        """Count and log the handler's own settlement of its delivery."""
        settlement, cause = delivery._settled or (Settlement(delivery.id, delivery.outcome or "acked"), None)
        if settlement.outcome in FAILED:
            yield from self.note(delivery, settlement, cause or error)
            return
        self._tally.add([settlement], "acked")
        if isinstance(error, Exception):
            report(delivery, settlement, error)

    def _settle_failed(self, delivery: D, error: BaseException) -> Steps[tuple[Settlement, BaseException]]:
        """Settle a call by its error; returns the outcome and the error used for it.

        Only calls that the worker interrupted are released: a message whose handler raises SystemExit would
        be redelivered immediately, forever.
        """
        queue = self._holding.queue
        if delivery._unfit and isinstance(error, UnfitMessage):
            return (yield from passing_on.pass_on(queue, delivery, error)), error
        charge = not isinstance(error, DeadlinePassed)
        if isinstance(error, Exception | Stopped) and charge:
            try:
                (settlement,) = yield from settle.settle_by_error(
                    queue, [delivery._held], error, delivery._values
                )
            except Exception as nonsense:  # for example a Redeliver whose delay was changed to "soon"
                if isinstance(nonsense, RqDlqError) and not isinstance(nonsense, InvalidInput):
                    raise  # not caused by the handler's error
                error = nonsense
            else:
                return settlement, error
        nacking = settle.nack(queue, [delivery._held], error, charge=charge, values=delivery._values)
        (settlement,) = yield from nacking
        return settlement, error
