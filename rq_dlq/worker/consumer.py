"""The common part of consumers in threads and in event loops."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.core.claiming import claim
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.values import deques
from rq_dlq.values.durations import human
from rq_dlq.values.signature import TASK
from rq_dlq.worker.claiming import Patience
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.settling import Settling
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.call import Held
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Settlement
    from rq_dlq.worker.shared import Shared

LATE = 0.2  # seconds after its timeout until a call that has not ended is logged
STUCK_AFTER = 1.0  # seconds after which unstarted messages of a consumer are released

D = TypeVar("D", bound="Leased[Any]")


class Consumer(Settling[D]):
    """Claims from one queue in a thread, runs the handler, settles, and extends the leases.

    The steps on the queue are here; a subclass decides when to run them. Redis errors are logged, not raised.

    Attributes:
        pause: seconds to wait before the next claim, because the last one was refused.
        concurrency: the most calls that it runs concurrently.
        trouble: why the last claim was refused; empty: it was not refused.
    """

    concurrency = 1
    trouble = ""

    def __init__(self, handler: Handler, queue: Any, shared: Shared) -> None:
        super().__init__(queue._core, shared, ack_each=handler.ack_each)
        self._handler, self._timeout, self._deadline = handler, handler.timeout, handler.deadline
        self.pause = 0.0
        self._make = queue._deliveries
        self._key = self.queue.keys["messages"]
        self._until, self._together = shared.until, shared.together
        self._together.join(self)
        self._tending = shared.tending
        self._observers = self.queue.client.observers
        self._patience = Patience(shared.until)
        self._releases = 0  # begins and ends of `release_unstarted`: odd while it runs
        self._seen = 0  # this number before the last claim
        self._waited = 0  # how long the last claim waited at most, milliseconds
        self._thread = threading.Thread(target=self._main, name=f"rq-dlq {self.queue.name}", daemon=True)

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; then settle the messages that it had taken, or leave them."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        given_up = self._stop.giving_up.is_set()
        if any(self.left.values()) and self._may_retry and not given_up:
            self.settle_left(self._tending)
        return given_up or not any(self.left.values())

    @property
    def left(self) -> dict[str, int]:
        """How many messages it still holds, by the settlement that they need."""
        failed = len(self._failures)
        rest = len(self._unstarted) + len(self._unsettled)
        return {"ack": len(self._done) - failed, "settle": failed, "release": rest}

    @property
    def _unsettled(self) -> list[D]:
        return [delivery for delivery in self.running if not delivery.settled]

    def settle_left(self, connections: Connections) -> bool:
        """Settle its messages after its end, or before the end of the process; False: it failed."""
        self._failed = -inf
        connections.run(self.settle_done())
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

    def called(self, delivery: D) -> str:
        """A call for the log: its function and its message."""
        name = delivery.headers.get(TASK) or self._handler.name
        return f"{name} ({delivery.queue} {delivery.id})"

    def say_late(self, delivery: D) -> None:
        """Log that a call keeps running after its limit, since it cannot be interrupted."""
        limit = "its message's time to live"
        if self._timeout is not None:
            limit = f"its timeout of {human(round(1000 * self._timeout))}"
        logger.warning("%s runs longer than %s, and does not end", self.called(delivery), limit)

    @property
    def busy(self) -> bool:
        """Whether a handler is running."""
        return any(map(self.runs, self.running))

    @abstractmethod
    def put_back(self, deliveries: list[D]) -> None:
        """Put back messages taken from `_unstarted`; they may have been released."""

    # From the worker's thread

    @property
    @abstractmethod
    def holds(self) -> tuple[int, float]:
        """The number of held messages, and when the oldest was claimed, monotonic seconds."""

    @abstractmethod
    def take_due(self) -> list[D]:
        """The deliveries whose leases the worker's thread must extend now; then call `note_extended`."""

    @abstractmethod
    def note_extended(self, lost: list[D] | None) -> None:
        """Note which of these leases are lost; None: unknown."""

    @abstractmethod
    def tend(self) -> None:
        """Check the leases and the calls; the worker calls this several times a second."""

    @abstractmethod
    def cut_short(self) -> None:
        """Interrupt the calls over their limit, or all after a second signal, without waiting for Redis."""

    def cancel(self, held: Held) -> bool:
        """Notify the call of a cancelled message; False: this consumer does not hold it.

        A call that has not begun will not begin: its message was removed.
        """
        for delivery in [*self.running, *self._done.copy(), *self._unstarted.copy()]:
            if delivery._held == held:
                delivery.cancelled = True
                if self.runs(delivery):
                    logger.info("%s: cancelled while it runs", self.called(delivery))
                    self.cut_cancelled(delivery)
                else:
                    self._release_cancelled(delivery)
                return True
        return False

    def cut_cancelled(self, delivery: D) -> None:
        """End the call of a cancelled message, if possible."""

    def _release_cancelled(self, delivery: D) -> None:
        """Release a cancelled message whose call has not begun, which lets in the next of its key."""
        self._releases += 1
        if deques.take(self._unstarted, delivery):
            self._tending.run(self.release([delivery], begun=False))
            self.permit.end_of([delivery])
        self._releases += 1

    def settle_finished(self, connections: Connections) -> None:
        """Settle the finished calls, from any thread; until there is a connection, they count as finished."""
        if self._done:
            connections.ready(self._key)
            connections.run(self.settle_done())

    def release_unstarted(self, connections: Connections) -> None:
        """Release messages whose calls have not begun, from any thread."""
        if not self._unstarted:
            return
        self._releases += 1
        taken = deques.take_all(self._unstarted)
        if connections.run(self.release(taken, begun=False)):
            self.permit.end_of(taken)
        else:
            self.put_back(taken)
        self._releases += 1

    # Steps

    def claim(self, count: int, *, waits: bool = True) -> Steps[Sequence[D]]:
        """Claim up to `count` messages; the wait for the first one depends on `until`."""
        found: Sequence[D] = ()
        undecodable: list[tuple[D, Settlement, BaseException]] = []
        self.pause, self.trouble, self._seen = 0.0, "", self._releases
        self._waited = self._patience.wait if waits else 0
        try:
            found = yield from claim.claim(
                self.queue,
                self._make,
                count=count,
                wait=self._waited,
                permit=self.permit,
                undecodable=lambda delivery, settlement, error: undecodable.append(
                    (delivery, settlement, error)
                ),
                stopped=self._stop.finishing.is_set,
            )
        except RqDlqError as error:
            self.trouble = str(error)
            if waits:  # otherwise acks need not wait for the next try
                self._failed = time.monotonic()
            if not (isinstance(error, BrokerUnavailable) and self._stop.finishing.is_set()):
                self._log("cannot claim", error)
                ends = self._until == "empty" and not self._together.works
                self.pause = 0.0 if ends else RETRY_AFTER
        else:
            self._vitals.note_success(self.queue.name, logger)
        for failure in undecodable:
            yield from self._note(*failure)
        if waits:
            self._patience.note(found=bool(found))
        if found:
            self._together.begin(self)
        return found

    def over(self) -> Steps[bool]:
        """Whether the consumer ends after a claim that found no messages, with all others (`Together`).

        The worker's thread may have released some after that claim: then it claims again.
        """
        released = self._seen != self._releases or self._releases % 2 == 1
        if self._until == "stopped" or self.holds[0] or self._underway or released:
            return False
        self._together.rest(self)
        if self._together.works:
            return False
        if self._waited:
            self._patience.hurry()
            return False
        try:
            return (yield from self._together.over(self))
        except RqDlqError as error:
            self._log("cannot see whether anything is left", error)
            if self._until == "empty":
                self._together.leave(self)
            return self._until == "empty"
