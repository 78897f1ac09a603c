"""What all consumers do, in threads and in event loops."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.core.claiming import claim, consume, passing_on
from rq_dlq.core.queues import counts
from rq_dlq.core.settling import settle
from rq_dlq.errors import BrokerUnavailable, InvalidInput, RqDlqError, UnfitMessage
from rq_dlq.values import deques
from rq_dlq.values.settlement import FAILED, Settlement
from rq_dlq.worker.claiming import Patience
from rq_dlq.worker.holding import RETRY_AFTER, Holding
from rq_dlq.worker.stopping import Stopped
from rq_dlq.worker.tally import SettingsInForce, logger, report

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.shared import Shared

ACK_WITHIN = consume.ACK_WITHIN
STUCK_AFTER = 1.0  # seconds after which messages that a consumer has not started are released

D = TypeVar("D", bound="Leased[Any]")


class Consumer(Holding[D]):
    """Claims from one queue in a thread, runs the handler, settles, and keeps the leases meanwhile.

    The steps on the queue are here; a subclass decides when to take them. An error of Redis is logged, not
    raised.

    Attributes:
        pause: seconds to wait before the next claim, because the last one was refused.
        concurrency: how many of its calls run at once, at most.
        trouble: why that was refused; empty: it was not, or the next claim goes on.
    """

    concurrency = 1
    trouble = ""

    def __init__(self, queue: Any, shared: Shared) -> None:
        super().__init__(queue._core, shared)
        self.pause = 0.0
        self._make = queue._deliveries
        self._until = shared.until
        self._tending = shared.tending
        self._settings = SettingsInForce(self.queue)
        self._observers = self.queue.observers
        self._patience = Patience(shared.until)
        self._thread = threading.Thread(target=self._main, name=f"rq-dlq {self.queue.name}", daemon=True)

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; then settle what this one had in hand meanwhile, or leave it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        given_up = self._stop.giving_up.is_set()
        if any(self.left) and self._may_retry and not given_up:
            self.settle_left(self._tending)
        return given_up or not any(self.left)

    @property
    def left(self) -> tuple[int, int]:
        """How many messages it still holds: those to be acked, and others."""
        return len(self._done), len(self._unstarted) + len(self._unsettled)

    @property
    def _unsettled(self) -> list[D]:
        return [delivery for delivery in self.running if not delivery.settled]

    def settle_left(self, connections: Connections) -> bool:
        """Settle what it holds after its end, or before that of the process; False: it failed."""
        self._failed = -inf
        connections.run(self.ack_done())
        self.release_unstarted(connections)
        connections.run(self.release(self._unsettled, begun=True))
        connections.run(self.give_back())
        return self._failed == -inf

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
        """The deliveries whose calls have not ended."""

    @property
    def busy(self) -> bool:
        """Whether a handler runs."""
        return any(map(self.runs, self.running))

    @abstractmethod
    def put_back(self, deliveries: list[D]) -> None:
        """Put back what was taken out of `_unstarted`; it may have been released all the same."""

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

    def release_unstarted(self, connections: Connections) -> None:
        """Release what has not begun, from any thread."""
        taken = deques.take_all(self._unstarted)
        if connections.run(self.release(taken, begun=False)):
            self.permit.end_of(taken)
        else:
            self.put_back(taken)

    # Steps

    def claim(self, count: int, *, waits: bool = True) -> Steps[Sequence[D]]:
        """Claim up to `count` messages; how long it waits for the first depends on when the worker ends."""
        found: Sequence[D] = ()
        undecodable: list[tuple[D, Settlement, BaseException]] = []
        self.pause, self.trouble = 0.0, ""
        try:
            found = yield from claim.claim(
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
            self._failed = time.monotonic()
            if not (isinstance(error, BrokerUnavailable) and self._stop.finishing.is_set()):
                self._log("cannot claim", error)
                self.pause = 0.0 if self._until == "empty" else RETRY_AFTER
        else:
            self._vitals.note_success(self.queue.name, logger)
        for failure in undecodable:
            yield from self._note(*failure)
        if waits:
            self._patience.note(found=bool(found))
        return found

    def over(self) -> Steps[bool]:
        """Whether the consumer ends after a claim that found nothing."""
        if self._until != "drained":
            return self._until == "empty"
        try:
            return (yield from counts.is_drained(self.queue))
        except RqDlqError as error:
            self._log("cannot see whether it is drained", error)
            return False

    def can_wait(self, delivery: D, error: BaseException | None) -> bool:
        """Whether a call succeeded, and nothing waits for its ack: neither its handler nor other suspects."""
        return error is None and delivery.outcome is None and delivery is not self.permit.suspect

    def settle(self, delivery: D, error: BaseException | None, began: float) -> Steps[bool]:
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
            self._log(f"cannot settle {delivery.id}", failure)
            return not self._may_pass(failure, began)
        yield from self._note(delivery, settlement, error)
        return True

    def leave(self, delivery: D, error: BaseException | None) -> None:
        """Give up a settlement that Redis has not answered; an ack is tried once more at the very end."""
        if error is None:
            self._done.append(delivery)
        else:
            logger.error("%s: cannot settle %s: redelivered after the lease", self.queue.name, delivery.id)

    def _note(self, delivery: D, settlement: Settlement, error: BaseException | str | None) -> Steps[None]:
        """Count a failure, and log it."""
        self._tally.note(delivery, settlement, error, (yield from self._settings.read()))

    def _note_settled(self, delivery: D, error: BaseException | None) -> Steps[None]:
        """Count, and log, what the handler did with its delivery by itself."""
        settlement, cause = delivery._settled or (Settlement(delivery.id, delivery.outcome or "acked"), None)
        if settlement.outcome in FAILED:
            yield from self._note(delivery, settlement, cause or error)
            return
        self._tally.add([settlement], "acked")
        if isinstance(error, Exception):
            report(delivery, settlement, error)

    def _settle_failed(self, delivery: D, error: BaseException) -> Steps[tuple[Settlement, BaseException]]:
        """Settle a call by its error; what became of the message, and the error that it was settled by.

        Only calls that the worker cut short are released: a message whose handler raises SystemExit would
        come back at once, for ever.
        """
        queue = self.queue
        if delivery._unfit and isinstance(error, UnfitMessage):
            return (yield from passing_on.pass_on(queue, delivery, error)), error
        if isinstance(error, Exception | Stopped):
            try:
                (settlement,) = yield from settle.settle_by_error(
                    queue, [delivery._held], error, delivery._values
                )
            except Exception as nonsense:  # as for a Redeliver whose delay was changed to "soon"
                if isinstance(nonsense, RqDlqError) and not isinstance(nonsense, InvalidInput):
                    raise  # that is not the fault of the handler's error
                error = nonsense
            else:
                return settlement, error
        (settlement,) = yield from settle.nack(queue, [delivery._held], error, values=delivery._values)
        return settlement, error
