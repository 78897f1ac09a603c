"""What all consumers do, in threads and in event loops."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _work
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, InvalidInput, MissingRights, RqDlqError
from rq_dlq.values.settlement import FAILED, Settlement
from rq_dlq.worker.claiming import Patience, Permit
from rq_dlq.worker.stopping import Stopped
from rq_dlq.worker.tally import SettingsInForce, logger, report

if TYPE_CHECKING:
    from collections import deque

    from rq_dlq.values.message import Leased
    from rq_dlq.worker.shared import Shared

ACK_WITHIN = _work.ACK_WITHIN
ACK_TOGETHER = 100  # this many finished messages are acked at once
RETRY_AFTER = 1.0  # seconds before a refused call is tried again
STUCK_AFTER = 1.0  # seconds after which messages that a consumer has not started are released

D = TypeVar("D", bound="Leased[Any]")


class Consumer(ABC, Generic[D]):
    """Claims from one queue in a thread, runs the handler, settles, and keeps the leases meanwhile.

    The steps on the queue are here; a subclass decides when to take them. An error of Redis is logged, not
    raised.

    Attributes:
        permit: its access to the permit to run a suspect.
        pause: seconds to wait before the next claim, because the last one was refused.
        concurrency: how many of its calls run at once, at most.
        trouble: why that was refused; empty: it was not, or the next claim goes on.
    """

    concurrency = 1
    trouble = ""

    def __init__(self, queue: Any, shared: Shared) -> None:
        self.queue: _work.Queue[Any] = queue._core
        self.permit = Permit(shared.only)
        self.pause = 0.0
        self._make = queue._delivery
        self._lease: float = self.queue.lease / 1000
        self._stop = shared.stop
        self._until = shared.until
        self._tally = shared.tally
        self._vitals = shared.vitals
        self._tending = shared.tending
        self._settings = SettingsInForce(self.queue)
        self._observers = self.queue.observers
        self._patience = Patience(shared.until)
        self._failing_since = 0.0  # when acks began to fail, monotonic seconds; 0: the last ones did not
        self._failed = -inf  # when an ack or a release last failed
        self._thread = threading.Thread(target=self._main, name=f"rq-dlq {self.queue.name}", daemon=True)

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _main(self) -> None:
        try:
            self._consume()
        except BaseException:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer failed", self.queue.name)
            self._stop.break_off()

    @abstractmethod
    def _consume(self) -> None:
        """Claim and run until the end."""

    @property
    @abstractmethod
    def running(self) -> list[D]:
        """The deliveries whose calls run."""

    # From the worker's thread

    @property
    @abstractmethod
    def holds(self) -> tuple[int, float]:
        """How many messages it holds, and since when the oldest of them, monotonic seconds."""

    @abstractmethod
    def tend(self) -> None:
        """Look after the leases and the calls; the worker does this several times a second."""

    @abstractmethod
    def cut_short(self) -> None:
        """Cut short the calls that run too long, or all after a second signal, without waiting for Redis."""

    def abandon(self) -> None:
        """Release the messages of calls that do not end, just before the process ends."""
        self._tending.run(self.release([delivery for delivery in self.running if not delivery.settled]))

    # Steps

    def claim(self, count: int, *, waits: bool = True) -> _work.Steps[Sequence[D]]:
        """Claim up to `count` messages; how long it waits for the first depends on when the worker ends."""
        found: Sequence[D] = ()
        undecodable: list[tuple[D, Settlement, BaseException]] = []
        self.pause, self.trouble = 0.0, ""
        try:
            found = yield from _work.claim(
                self.queue,
                self._make,
                count=count,
                wait=self._patience.wait if waits else 0,
                permit=self.permit,
                undecodable=lambda delivery, settlement, error: undecodable.append(
                    (delivery, settlement, error)
                ),
                stopped=self._stop.finishing.is_set,
            )
        except RqDlqError as error:
            self.trouble = str(error)
            if not (isinstance(error, BrokerUnavailable) and self._stop.finishing.is_set()):
                logger.error("%s: cannot claim: %s", self.queue.name, error)
                self.pause = 0.0 if self._until == "empty" else RETRY_AFTER
        for failure in undecodable:
            yield from self._note(*failure)
        if waits:
            self._patience.note(found=bool(found))
        return found

    def over(self) -> _work.Steps[bool]:
        """Whether the consumer ends after a claim that found nothing."""
        if self._until != "drained":
            return self._until == "empty"
        try:
            return (yield from _work.is_drained(self.queue))
        except RqDlqError as error:
            logger.error("%s: cannot see whether it is drained: %s", self.queue.name, error)
            return False

    def can_wait(self, delivery: D, error: BaseException | None) -> bool:
        """Whether a call succeeded, and nothing waits for its ack: neither its handler nor other suspects."""
        return error is None and delivery.outcome is None and delivery is not self.permit.suspect

    def settle(self, delivery: D, error: BaseException | None, began: float) -> _work.Steps[bool]:
        """Settle by how a call ended, or count what its handler did; False: try again.

        Args:
            began: when this was first tried, monotonic seconds.
        """
        if delivery.outcome is not None:
            yield from self._note_settled(delivery, error)
            return True
        if error is None:
            return not (yield from self.ack([delivery]))
        try:
            settlement, error = yield from self._settle_failed(delivery, error)
        except RqDlqError as failure:
            logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
            return not self._may_pass(failure, began)
        yield from self._note(delivery, settlement, error)
        return True

    def _note(
        self, delivery: D, settlement: Settlement, error: BaseException | str | None
    ) -> _work.Steps[None]:
        """Count a failure, and log it."""
        self._tally.note(delivery, settlement, error, (yield from self._settings.read()))

    def _note_settled(self, delivery: D, error: BaseException | None) -> _work.Steps[None]:
        """Count, and log, what the handler did with its delivery by itself."""
        settlement, cause = delivery._settled or (Settlement(delivery.id, delivery.outcome or "acked"), None)
        if settlement.outcome in FAILED:
            yield from self._note(delivery, settlement, cause or error)
            return
        self._tally.add([settlement], "acked")
        if isinstance(error, Exception):
            report(delivery, settlement, error)

    def _settle_failed(
        self, delivery: D, error: BaseException
    ) -> _work.Steps[tuple[Settlement, BaseException]]:
        """Settle a call by its error; what became of the message, and the error that it was settled by.

        Only calls that the worker cut short are released: a message whose handler raises SystemExit would
        come back at once, for ever.
        """
        queue = self.queue
        if isinstance(error, Exception | Stopped):
            try:
                (settlement,) = yield from _work.settle_by_error(
                    queue, [delivery._held], error, delivery._values
                )
            except InvalidInput as nonsense:  # as in a Redeliver whose delay was changed to "soon"
                error = nonsense
            else:
                return settlement, error
        (settlement,) = yield from _work.nack(queue, [delivery._held], error, values=delivery._values)
        return settlement, error

    def ack(self, done: list[D]) -> _work.Steps[list[D]]:
        """Ack finished messages; returns those to ack again."""
        if not done:
            return done
        try:
            settlements = yield from _work.ack(self.queue, [delivery._held for delivery in done])
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self.queue.name, len(done), failure)
            self._failed = time.monotonic()
            self._failing_since = self._failing_since or self._failed
            return done if self._may_pass(failure, self._failing_since) else []
        self._failing_since = 0.0
        self._tally.add(settlements, "acked")
        for delivery, settlement in zip(done, settlements, strict=True):
            if settlement.outcome != "acked" and not settlement:  # it costs less to ask in this order
                report(delivery, settlement, None)
        return []

    def _may_pass(self, failure: RqDlqError, since: float) -> bool:
        """Whether to try again: what got no answer always, what is refused for as long as a lease lasts.

        A server that cannot write to its disk refuses everything, until somebody has made room there.
        """
        if isinstance(failure, BrokerRefused) and not isinstance(failure, MissingRights):
            return time.monotonic() - since < self._lease
        return isinstance(failure, BrokerUnavailable)

    @property
    def _may_retry(self) -> bool:
        """Whether no ack or release has failed just now."""
        return time.monotonic() - self._failed > RETRY_AFTER

    def release(self, deliveries: Sequence[D]) -> _work.Steps[bool]:
        """Release messages that were not started, or whose calls were cut short; False: it failed."""
        if not deliveries:
            return True
        try:
            settlements = yield from _work.release(self.queue, [delivery._held for delivery in deliveries])
        except RqDlqError as failure:
            logger.error("%s: cannot release: %s", self.queue.name, failure)
            self._failed = time.monotonic()
            return False
        self._tally.add(settlements, "released")
        return True

    def extend(self, deliveries: Sequence[D]) -> _work.Steps[list[D] | None]:
        """Extend the leases of these deliveries; returns the lost ones. None: unknown."""
        try:
            held = [delivery._held for delivery in deliveries]
            deadline, still = yield from _work.extend(self.queue, held, self.queue.lease)
        except RqDlqError as failure:
            logger.warning("%s: cannot extend the leases: %s", self.queue.name, failure)
            return None
        lost: list[D] = []
        for delivery, held_still in zip(deliveries, still, strict=True):
            if held_still:
                delivery._lease_ends = deadline
                continue
            lost.append(delivery)
            if not delivery.settled and delivery in self.running:
                delivery.lost = True
                logger.warning(
                    "%s %s: the lease was lost while its handler runs", delivery.queue, delivery.id
                )
        return lost

    def drop(self, lost: Iterable[D], unstarted: deque[D]) -> None:
        """Drop deliveries that were lost before their calls began."""
        dropped: list[D] = []
        for delivery in lost:
            with suppress(ValueError):  # its call has begun, or the other thread released it
                unstarted.remove(delivery)
                dropped.append(delivery)
        if dropped:
            self._tally.add([Settlement(delivery.id, "lost") for delivery in dropped], "lost")
            logger.warning("%s: the lease was lost before %d calls began", self.queue.name, len(dropped))


def take(deliveries: deque[D]) -> list[D]:
    """Take all out of a deque that two threads use."""
    taken: list[D] = []
    with suppress(IndexError):
        while True:
            taken.append(deliveries.popleft())
    return taken
