"""The common part of consumers in threads and in event loops."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.values.durations import human
from rq_dlq.values.signature import TASK
from rq_dlq.worker.claimer import Claimer
from rq_dlq.worker.holding import RETRY_AFTER, Holding
from rq_dlq.worker.settling import Settling
from rq_dlq.worker.stopping import DeadlinePassed, HandlerTimeout
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.call import Held
    from rq_dlq.values.leased import Leased
    from rq_dlq.worker.shared import Shared

LATE = 0.2  # seconds after its timeout until a call that has not ended is logged
STUCK_AFTER = 1.0  # seconds after which unstarted messages of a consumer are released

D = TypeVar("D", bound="Leased[Any]")


class Consumer(ABC, Generic[D]):
    """Claims from one queue, runs the handler and settles; the worker's thread starts, tends and joins it.

    Attributes:
        holding: its messages.
        settling: settles their calls.
        claimer: claims them.
        concurrency: the most calls that it runs concurrently.
    """

    concurrency = 1

    def __init__(self, handler: Handler, queue: Any, shared: Shared) -> None:
        self.queue = queue._core
        self.holding = Holding[D](self.queue, shared)
        self.settling = Settling(self.holding, shared.tally, ack_each=handler.ack_each)
        self.claimer = Claimer(self.holding, self.settling, shared, queue._deliveries)
        self._done, self._unstarted = self.holding.done, self.holding.unstarted
        self._handler, self._timeout, self._deadline = handler, handler.timeout, handler.deadline
        self._shared, self._stop = shared, shared.stop
        self._key = self.queue.keys["messages"]
        self._observers = self.queue.client.observers
        self._late = set[D]()  # their calls exceed their limits, and this was logged
        self._asked = 0.0  # when the worker's thread last tried to extend leases, monotonic seconds
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
        if any(self.left.values()) and self.holding.may_retry and not given_up:
            self.settle_left(self._shared.tending)
        return given_up or not any(self.left.values())

    @property
    def left(self) -> dict[str, int]:
        """How many messages it still holds, by the settlement that they need."""
        failed = len(self.settling.failures)
        rest = len(self._unstarted) + len(self._unsettled)
        return {"ack": len(self._done) - failed, "settle": failed, "release": rest}

    @property
    def _unsettled(self) -> list[D]:
        return [delivery for delivery in self.running if not delivery.settled]

    def settle_left(self, connections: Connections) -> bool:
        """Settle its messages after its end, or before the end of the process; False: it failed."""
        holding = self.holding
        holding.failed = -inf
        connections.run(self.settling.settle_done())
        connections.run(holding.release_unstarted())
        connections.run(holding.release(self._unsettled, begun=True))
        connections.run(holding.give_back())
        return holding.failed == -inf

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

    @abstractmethod
    def runs(self, delivery: D) -> bool:
        """Whether the handler of this delivery is running."""

    def called(self, delivery: D) -> str:
        """A call for the log: its function and its message."""
        name = delivery.headers.get(TASK) or self._handler.name
        return f"{name} ({delivery.queue} {delivery.id})"

    def _overruns(self, call: D, began: float, now: float) -> type[HandlerTimeout] | None:
        """The limit that a call has exceeded by now (monotonic seconds); None: it has not."""
        if self._timeout is not None and now - began > self._timeout:
            return HandlerTimeout
        over = self._deadline and call._time_to_live(now) <= 0  # noqa: SLF001 - not public
        return DeadlinePassed if over else None

    def _say_late(self, calls: Iterable[tuple[D, float]]) -> None:
        """Log once each of these calls that keeps running after its limit, since it cannot be interrupted."""
        now = time.monotonic() - LATE
        late = {one for one, began in calls if self.runs(one) and self._overruns(one, began, now)}
        for delivery in late - self._late:
            limit = "its message's time to live"
            if self._timeout is not None:
                limit = f"its timeout of {human(round(1000 * self._timeout))}"
            logger.warning("%s runs longer than %s, and does not end", self.called(delivery), limit)
        self._late = late

    @property
    def busy(self) -> bool:
        """Whether a handler is running."""
        return any(map(self.runs, self.running))

    def note_lost(self, lost: Iterable[D]) -> None:
        """Notify running handlers through `Delivery.lost`, and log it."""
        for delivery in lost:
            if not (delivery.settled or delivery.cancelled) and self.runs(delivery):
                delivery.lost = True
                logger.warning(
                    "%s %s: the lease was lost while its handler was running", delivery.queue, delivery.id
                )

    # From the worker's thread

    @property
    def holds(self) -> tuple[int, float]:
        """The number of held messages, and when the oldest was claimed, monotonic seconds."""
        held = self.held
        return len(held), min((one._lease.read_at for one in held), default=0.0)

    @property
    def held(self) -> list[D]:
        """All deliveries that are not settled; one that moves on meanwhile may be in it twice."""
        return [*self._unstarted.copy(), *self.running, *self._done.copy()]

    def _waits(self, now: float) -> float:
        """For how long the next message has waited for its call, seconds."""
        try:
            return now - self._unstarted[0]._lease.read_at
        except IndexError:
            return 0.0

    def take_due(self) -> list[D]:
        """A delivery of each claim whose lease the worker's thread must extend; then call `note_extended`."""
        now, third = time.monotonic(), self.holding.lease / 3
        if now - self.holding.extended <= third or now - self._asked <= min(RETRY_AFTER, third):
            return []
        kept = {one.token: one for one in self._kept if not (one.settled or one.lost)}
        if kept:
            self._asked = now
        return [*kept.values()]

    @property
    @abstractmethod
    def _kept(self) -> list[D]:
        """The deliveries whose leases the worker's thread keeps; those that run are the last."""

    def note_extended(self, lost: list[D] | None) -> None:
        """Note which of these leases are lost; None: unknown."""
        if lost is not None:
            self.holding.extended = self._asked
            self.note_lost(lost)
        if lost != []:
            self.holding.doubt = object()

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
        for delivery in self.held:
            if delivery._held == held:
                delivery.cancelled = True
                if self.runs(delivery):
                    logger.info("%s: cancelled while it runs", self.called(delivery))
                    self.cut_cancelled(delivery)
                else:
                    self._shared.tending.run(self.holding.release_cancelled(delivery))
                return True
        return False

    def cut_cancelled(self, delivery: D) -> None:
        """End the call of a cancelled message, if possible."""

    def settle_finished(self, connections: Connections) -> None:
        """Settle the finished calls, from any thread; until there is a connection, they count as finished."""
        if self._done:
            connections.ready(self._key)
            connections.run(self.settling.settle_done())
