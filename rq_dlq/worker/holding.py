"""The messages that a consumer holds: their acks, leases and releases."""

from __future__ import annotations

import time
from collections import deque
from logging import ERROR, WARNING
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.core.claiming import cut_off
from rq_dlq.core.results.results import results_of
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.step import CHUNK_BYTES
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, MissingRights, RqDlqError
from rq_dlq.values import deques
from rq_dlq.values.readable import many
from rq_dlq.values.settlement import Settlement
from rq_dlq.worker.claiming import Permit
from rq_dlq.worker.tally import logger, report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.errors import InvalidMessage
    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.shared import Shared

RETRY_AFTER = 1.0  # seconds before a refused call is tried again

_held = attrgetter("_held")

D = TypeVar("D", bound="Leased[Any]")


class Holding(Generic[D]):
    """Messages of one queue, from their claim until they are settled or released.

    A message whose call has not begun, or has ended, is in a deque here. The thread that pops it owns it: the
    consumer's own thread or event loop, or the worker's thread, which also releases and settles messages.
    Redis errors are logged, not raised.

    Attributes:
        permit: the consumer's access to the permit to run a suspect.
        lease: seconds.
        unstarted: claimed; their calls have not begun.
        done: their calls have ended, and must be settled (`Settling`).
        doubt: another object whenever messages in `unstarted` may have been lost or released: their leases
            must be extended before one begins.
        checked: the `doubt` before the last extension.
        extended: when all leases were last extended, or no later than that; monotonic seconds.
        releases: begins and ends of releases of `unstarted`: odd while one runs.
        failed: when an ack, a release or a claim last failed, monotonic seconds.
        failing_since: when acks began to fail; 0: the last acks succeeded.
        bulky: the last acks may have taken more than one call, because of their results.
    """

    def __init__(self, queue: QueueState[Any], shared: Shared) -> None:
        self.queue = queue
        self.permit = Permit(shared.only)
        self.lease: float = queue.lease / 1000
        self._tally, self._vitals, self._stop = shared.tally, shared.vitals, shared.stop
        self.unstarted: deque[D] = deque()
        self.done: deque[D] = shared.finished.of_consumer()
        self.checked = self.doubt = object()
        self.extended = time.monotonic()
        self.releases = 0
        self.failed = -inf
        self.failing_since = 0.0
        self.bulky = False

    def log(self, what: str, failure: RqDlqError, level: int = ERROR) -> None:
        """Log a failure."""
        name = self.queue.name
        self._vitals.note_failure(f"{name}: {what}", failure, logger, level, name)

    def ack(self, done: list[D]) -> Steps[list[D]]:
        """Ack finished messages; returns those to ack again."""
        if not done:
            return done
        try:
            results = results_of(done, self._without_result)
            self.bulky = bool(results) and sum(map(len, results.values())) > CHUNK_BYTES
            settlements = yield from settle.ack(self.queue, [*map(_held, done)], results)
        except RqDlqError as failure:
            self.log(f"cannot ack {many(len(done), 'message')}", failure)
            self.failed = time.monotonic()
            self.failing_since = self.failing_since or self.failed
            if self.may_pass(failure, self.failing_since):
                return done
            self.failing_since = 0.0  # these acks are given up; the next failure is a new one
            return []
        self.failing_since = 0.0
        self._vitals.note_success(self.queue.name, logger)
        if self._tally.add(settlements, "acked")["acked"] < len(done):  # rare
            for delivery, settlement in zip(done, settlements, strict=True):
                if not settlement:
                    report(delivery, settlement, None)
        return []

    def _without_result(self, delivery: Leased[Any], why: InvalidMessage) -> None:
        """Log that a message is acked without a result; repeating its work would not help."""
        logger.error("%s %s is acked without a result: %s", self.queue.name, delivery.id, why)

    def may_pass(self, failure: RqDlqError, since: float) -> bool:
        """Whether to retry: always if there was no answer, for a lease if the call was refused."""
        if isinstance(failure, BrokerRefused) and not isinstance(failure, MissingRights):
            return time.monotonic() - since < self.lease
        return isinstance(failure, BrokerUnavailable)

    @property
    def may_retry(self) -> bool:
        """Whether no ack, release or claim has failed recently."""
        return time.monotonic() - self.failed > RETRY_AFTER

    @property
    def gives_up(self) -> bool:
        """Whether a call failed recently and the worker gives up; it retries once at its end."""
        return self._stop.giving_up.is_set() and not self.may_retry

    def release(self, deliveries: Sequence[D], *, begun: bool) -> Steps[bool]:
        """Release messages whose calls have not begun or were interrupted; False: it failed."""
        if not deliveries:
            return True
        if self.gives_up:
            return False
        try:
            held = [delivery._held for delivery in deliveries]
            settlements = yield from settle.release(self.queue, held, begun=begun)
        except RqDlqError as failure:
            self.log("cannot release", failure)
            self.failed = time.monotonic()
            return False
        self._vitals.note_success(self.queue.name, logger)
        self._tally.add(settlements, "released")
        return True

    def release_unstarted(self) -> Steps[None]:
        """Release all messages whose calls have not begun, or put them back."""
        if not self.unstarted:
            return
        self.releases += 1
        taken = deques.take_all(self.unstarted)
        if (yield from self.release(taken, begun=False)):
            self.permit.end_of(taken)
        else:
            self.put_back(taken)
        self.releases += 1

    def release_cancelled(self, delivery: D) -> Steps[None]:
        """Release a cancelled message if its call has not begun, which lets in the next of its key."""
        self.releases += 1
        if deques.take(self.unstarted, delivery):
            yield from self.release([delivery], begun=False)
            self.permit.end_of([delivery])
        self.releases += 1

    def put_back(self, deliveries: list[D]) -> None:
        """Put back messages taken from `unstarted`; they may have been released."""
        self.doubt = object()
        self.unstarted.extendleft(reversed(deliveries))

    def release_outlived(self, outlived: list[D]) -> Steps[None]:
        """Release messages whose ttl ended before their calls began: the next claim expires them (I7)."""
        if not (yield from self.release(outlived, begun=False)):
            logger.warning(
                "%s: %s stay leased until their leases end",
                self.queue.name,
                many(len(outlived), "expired message"),
            )
        self.permit.end_of(outlived)

    def give_back(self) -> Steps[None]:
        """Release the messages of claims with unknown outcomes: no later claim will resume these claims."""
        if self.gives_up:
            return
        try:
            yield from cut_off.give_back(self.queue)
        except RqDlqError as failure:
            self.log("cannot release the messages of a claim whose reply was lost", failure, WARNING)
            self.failed = time.monotonic()

    def are_over(self, now: float) -> bool:
        """Whether all leases may have ended before this time (monotonic seconds)."""
        return now - self.extended > self.lease

    @property
    def unsure(self) -> bool:
        """Whether `unstarted` may be lost: a release failed, or the leases were not extended."""
        return self.doubt is not self.checked or self.are_over(time.monotonic())

    def extend_all(self, held: Sequence[D]) -> Steps[list[D] | None]:
        """Extend all leases, and drop messages lost before their calls began; as `extend`."""
        began, doubt = time.monotonic(), self.doubt
        lost: list[D] | None = (yield from self.extend(held)) if held else []
        if lost is not None:
            self._drop(lost)
            self.extended, self.checked = began, doubt
        return lost

    def extend(self, deliveries: Sequence[D]) -> Steps[list[D] | None]:
        """Extend the leases of these deliveries; returns the lost ones. None: unknown."""
        try:
            still = yield from settle.extend(self.queue, deliveries, self.queue.lease)
        except RqDlqError as failure:
            self.log("cannot extend the leases", failure, WARNING)
            return None
        self._vitals.note_success(self.queue.name, logger)
        return [delivery for delivery, held in zip(deliveries, still, strict=True) if not held]

    def _drop(self, lost: Iterable[D]) -> None:
        # The calls of the others have begun, or they were released.
        dropped = [delivery for delivery in lost if deques.take(self.unstarted, delivery)]
        if dropped:
            self._tally.add([Settlement(delivery.id, "lost") for delivery in dropped], "lost")
            logger.warning("%s: the lease was lost before %d calls began", self.queue.name, len(dropped))
            self.permit.end_of(dropped)
