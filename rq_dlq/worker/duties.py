"""A consumer's steps on its queue, for threads and event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _work
from rq_dlq.errors import BrokerUnavailable, InvalidInput, RqDlqError
from rq_dlq.values.settlement import Settlement
from rq_dlq.worker.permit import Permit
from rq_dlq.worker.stopping import Patience, Stopped
from rq_dlq.worker.tally import Tally, logger, report

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from rq_dlq.values.message import Leased, Row
    from rq_dlq.worker.stopping import Stop, Until

ACK_WITHIN = 0.005  # seconds that a finished message waits for others, to be acked with them
ACK_TOGETHER = 100  # this many finished messages are acked at once
RETRY_AFTER = 1.0  # seconds before a refused call is tried again

D = TypeVar("D", bound="Leased[Any]")


class Duties(Generic[D]):
    """One consumer's claims and settlements. An error of Redis is logged, not raised.

    Args:
        make: makes a delivery from a claimed row.
        only: the permit to run a suspect, shared by the consumers of the process.

    Attributes:
        permit: this consumer's access to it.
        pause: seconds to wait before the next claim, because the last one was refused.
        until: when the worker ends.
    """

    def __init__(
        self,
        queue: _work.Queue[Any],
        make: Callable[[Row, str, int], D],
        *,
        stop: Stop,
        until: Until,
        tally: Tally,
        only: threading.Lock,
    ) -> None:
        self.queue = queue
        self.permit = Permit(only)
        self.pause = 0.0
        self._make = make
        self._stop = stop
        self.until = until
        self._tally = tally
        self._patience = Patience(until)

    def claim(self, count: int) -> _work.Steps[Sequence[D]]:
        """Claim up to `count` messages; how long it waits for the first depends on when the worker ends."""
        found: Sequence[D] = ()
        self.pause = 0.0
        try:
            found = yield from _work.claim(
                self.queue,
                self._make,
                count=count,
                wait=self._patience.wait,
                permit=self.permit,
                undecodable=self._tally.note,
                stopped=self._stop.finishing.is_set,
            )
        except RqDlqError as error:
            if not (isinstance(error, BrokerUnavailable) and self._stop.finishing.is_set()):
                logger.error("%s: cannot claim: %s", self.queue.name, error)
                self.pause = 0.0 if self.until == "empty" else RETRY_AFTER
        self._patience.note(found=bool(found))
        return found

    def over(self) -> _work.Steps[bool]:
        """Whether the consumer ends after a claim that found nothing."""
        if self.until != "drained":
            return self.until == "empty"
        try:
            return (yield from _work.is_drained(self.queue))
        except RqDlqError as error:
            logger.error("%s: cannot see whether it is drained: %s", self.queue.name, error)
            return False

    def settle(self, delivery: D, error: BaseException | None) -> _work.Steps[bool]:
        """Settle by how a call ended; False: Redis cannot be reached, so try again."""
        if error is None:
            return not (yield from self.ack([delivery]))
        try:
            (settlement,) = yield from _settle_call(self.queue, delivery, error)
        except RqDlqError as failure:
            logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
            return not isinstance(failure, BrokerUnavailable)
        self._tally.note(delivery, settlement, error)
        return True

    def settled_itself(self, delivery: D) -> bool:
        """Whether the handler settled its delivery itself; if so, it is counted here."""
        if delivery.outcome is None:
            return False
        self._tally.add([Settlement(delivery.id, delivery.outcome)], "acked")
        return True

    def ack(self, done: list[D]) -> _work.Steps[list[D]]:
        """Ack finished messages; returns those to ack again, because Redis cannot be reached."""
        if not done:
            return done
        try:
            settlements = yield from _work.ack(self.queue, [delivery._held for delivery in done])
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self.queue.name, len(done), failure)
            return done if isinstance(failure, BrokerUnavailable) else []
        self._tally.add(settlements, "acked")
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)
        return []

    def release(self, deliveries: Sequence[D]) -> _work.Steps[None]:
        """Release messages that were not started, or whose calls were cut short."""
        if not deliveries:
            return
        try:
            settlements = yield from _work.release(self.queue, [delivery._held for delivery in deliveries])
        except RqDlqError as failure:
            logger.error("%s: cannot release: %s", self.queue.name, failure)
        else:
            self._tally.add(settlements, "released")

    def extend(self, kept: Sequence[D], runs: Callable[[D], bool]) -> _work.Steps[bool]:
        """Extend the leases of these deliveries; returns whether all are still held.

        Args:
            runs: whether the handler of a delivery still runs; if so, a lost lease sets its `lost`.
        """
        try:
            held = [delivery._held for delivery in kept]
            deadline, still = yield from _work.extend(self.queue, held, self.queue.lease)
        except RqDlqError as failure:
            logger.warning("%s: cannot extend the leases: %s", self.queue.name, failure)
            return True
        for delivery, held_still in zip(kept, still, strict=True):
            if held_still:
                delivery._lease_ends = deadline
            elif not delivery.settled and runs(delivery):
                delivery.lost = True
                logger.warning(
                    "%s %s: the lease was lost while its handler runs", delivery.queue, delivery.id
                )
        return all(still)

    def lost_of(self, unstarted: Sequence[D]) -> _work.Steps[list[D] | None]:
        """Extend the leases of deliveries that were not started; returns the lost ones. None: unknown."""
        try:
            held = [delivery._held for delivery in unstarted]
            _, still = yield from _work.extend(self.queue, held, self.queue.lease)
        except RqDlqError as failure:
            logger.warning("%s: cannot see whether the leases still hold: %s", self.queue.name, failure)
            return None
        lost = [d for d, held_still in zip(unstarted, still, strict=True) if not held_still]
        if lost:
            self._tally.add([Settlement(delivery.id, "lost") for delivery in lost], "lost")
            logger.warning("%s: the lease was lost before %d calls began", self.queue.name, len(lost))
        return lost


def _settle_call(
    queue: _work.Queue[Any], delivery: Leased[Any], error: BaseException
) -> _work.Steps[list[Settlement]]:
    """Settle a call by its error.

    Only calls that the worker cut short are released: a message whose handler raises SystemExit would come
    back at once, for ever. For the same reason a dead letter that fails is held until its lease ends. It
    stays a dead letter.
    """
    if (queue.view or queue.part != "live") and not isinstance(error, Stopped):
        return [Settlement(delivery.id, "kept")]
    if isinstance(error, Exception | Stopped):
        try:
            return (yield from _work.settle_by_error(queue, [delivery._held], error))
        except InvalidInput as nonsense:  # as in Redeliver(after="soon")
            error = nonsense
    return (yield from _work.nack(queue, [delivery._held], error))
