"""One thread that claims, runs a handler, and settles: the heart of a worker."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq.errors import BrokerUnavailable, InvalidInput, RqDlqError
from rq_dlq.handlers import Handler, Pace, Tally, logger, report
from rq_dlq.message import Settlement
from rq_dlq.stopping import HandlerTimeout, Patience, Stop, Stopped

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.delivery import Delivery
    from rq_dlq.message import Leased
    from rq_dlq.queue import Queue
    from rq_dlq.stopping import Until

ACK_WITHIN = 0.005  # seconds that a finished message may wait for others, to be acked with them
ACK_TOGETHER = 100  # finished messages that wait for no more
STUCK_AFTER = 1.0  # seconds after which what a consumer has not started is given back
RETRY_AFTER = 1.0  # seconds until a claim that was refused is tried again


def settle_call(
    queue: _work.Queue[Any], delivery: Leased[Any], error: BaseException | None
) -> _work.Steps[list[Settlement]]:
    """Settle by how a call ended.

    Only what we cut short ourselves is released: a message whose handler raises SystemExit would come back at
    once, for ever. For the same reason, and for those behind it, a dead letter that fails is held until its
    lease is over; it stays one.
    """
    if error is not None and (queue.view or queue.part != "live") and not isinstance(error, Stopped):
        return [Settlement(delivery.id, "kept")]
    if error is None or isinstance(error, Exception | Stopped):
        try:
            return (yield from _work.settle_by_error(queue, [delivery.held], error))
        except InvalidInput as nonsense:  # as in Redeliver(after="soon")
            error = nonsense
    return (yield from _work.nack(queue, [delivery.held], error))


class Consumer:
    """Claims for one handler, runs it call by call, acks in batches.

    `tend` is called by another thread several times a second: it keeps the lease alive, ends calls that run
    too long, and gives back what waits behind one that is stuck.

    Args:
        claiming: connections that wait for Redis until the worker is stopping.
        settling: connections that wait for Redis until the worker gives up.
        tending: connections that do not wait long, since one thread tends all consumers.
    """

    def __init__(
        self,
        handler: Handler,
        claiming: Connections,
        settling: Connections,
        tending: Connections,
        stop: Stop,
        *,
        until: Until,
        tally: Tally,
    ) -> None:
        self._handler = handler
        self._queue: Queue[Any] = handler.queue
        self._work = self._queue.work
        self._claiming = claiming
        self._settling = settling
        self._tending = tending
        self._stop = stop
        self._until = until
        self._tally = tally
        self._patience = Patience(until)
        self._pace = Pace()
        self._lock = threading.Lock()  # guards all below: both threads use them
        self._unstarted: deque[Delivery[Any]] = deque()
        self._running: Delivery[Any] | None = None
        self._done: list[Delivery[Any]] = []
        self._claimed = self._began = self._extended = 0.0  # when
        self._interrupted = False
        self._in_doubt = False  # whether what was not started is still held
        self._thread = threading.Thread(target=self._consume, name=f"rq-dlq {self._queue.name}", daemon=True)

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _consume(self) -> None:
        try:
            while not self._stop.finishing.is_set():
                deliveries = self._claim()
                if deliveries:
                    with self._lock:
                        self._unstarted.extend(deliveries)
                        self._claimed = self._extended = time.monotonic()
                    self._run_all()
                elif self._over():
                    break
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer broke off", self._queue.name)
            self._stop.finishing.set()
            self._next()  # gives back what was not started

    def _claim(self) -> list[Delivery[Any]]:
        steps = _work.claim(
            self._work,
            self._queue.delivery,
            count=self._pace.claim,
            wait=self._patience.wait,
            spoiled=self._tally.note,
        )
        deliveries: list[Delivery[Any]] = []
        try:
            deliveries = self._claiming.run(steps)
        except BrokerUnavailable:  # only once the worker is stopping
            pass
        except RqDlqError as error:
            logger.error("%s: cannot claim: %s", self._queue.name, error)
            self._stop.finishing.wait(0 if self._until == "empty" else RETRY_AFTER)
        self._patience.note(found=bool(deliveries))
        return deliveries

    def _over(self) -> bool:
        """Whether it was the last claim, since it found nothing."""
        if self._until != "drained":
            return self._until == "empty"
        try:
            return self._claiming.run(_work.is_drained(self._work))
        except RqDlqError as error:
            logger.error("%s: cannot see whether it is drained: %s", self._queue.name, error)
            return False

    def _run_all(self) -> None:
        while (delivery := self._next()) is not None:
            error = self._call(delivery)
            self._settle(delivery, error)
            self._pace.note(time.monotonic() - self._began)
        self._flush(self._settling)

    def _next(self) -> Delivery[Any] | None:
        self._drop_lost()
        with self._lock:
            if self._unstarted and not self._stop.finishing.is_set():
                return self._unstarted.popleft()
            unstarted = self._take_unstarted()
        self._release(unstarted, self._settling)
        return None

    def _drop_lost(self) -> None:
        """Where the lease may have run out: run no handler on what is somebody else's by now."""
        with self._lock:
            late = time.monotonic() - self._extended > self._work.lease / 1000
            unstarted = list(self._unstarted) if late or self._in_doubt else []
            self._in_doubt = False
        if not unstarted:
            return
        try:
            steps = _work.extend(self._work, [d.held for d in unstarted], self._work.lease)
            _, still = self._settling.run(steps)
        except RqDlqError as failure:
            logger.warning("%s: cannot see whether the leases still hold: %s", self._queue.name, failure)
            return
        lost = [d for d, held in zip(unstarted, still, strict=True) if not held]
        with self._lock:
            self._extended = time.monotonic()
            self._unstarted = deque(d for d in self._unstarted if d not in lost)
        if lost:
            self._tally.add([Settlement(d.id, "lost") for d in lost], "lost")
            logger.warning("%s: the lease was lost before %d calls began", self._queue.name, len(lost))

    def _call(self, delivery: Delivery[Any]) -> BaseException | None:
        """Run the handler; the error that it ended with.

        An interrupt is raised some instructions after tend() asked for it, so perhaps after the call has
        ended: then it is caught here, and the call counts as it ended. There is one for each call at most,
        none before _begin and none after _end.
        """
        error: BaseException | None = None
        ended = False
        try:
            self._begin(delivery)
            try:
                if self._handler.takes_delivery:
                    self._handler.function(delivery.body, delivery)
                else:
                    self._handler.function(delivery.body)
            except BaseException as raised:  # noqa: BLE001 - whatever it is, the worker lives
                error = raised
            ended = True
            self._end()
        except (HandlerTimeout, Stopped) as late:
            if not ended and error is None:
                error = late
            self._end()
        return error

    def _begin(self, delivery: Delivery[Any]) -> None:
        with self._lock:
            self._running = delivery
            self._began = time.monotonic()

    def _end(self) -> None:
        with self._lock:
            self._running = None
            interrupted, self._interrupted = self._interrupted, False
        if interrupted:
            self._interrupt(None)

    def _interrupt(self, reason: type[BaseException] | None) -> None:
        """Have an error raised in the consumer's thread; None: no more the one that was asked for."""
        ident = ctypes.c_ulong(self._thread.ident or 0)
        error = None if reason is None else ctypes.py_object(reason)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)

    def _settle(self, delivery: Delivery[Any], error: BaseException | None) -> None:
        if delivery.outcome is not None:  # the handler did it
            self._tally.add([Settlement(delivery.id, delivery.outcome)], "acked")
            return
        if error is None:
            with self._lock:
                self._done.append(delivery)
                enough = len(self._done) >= ACK_TOGETHER
            if enough or time.monotonic() - self._began > ACK_WITHIN:
                self._flush(self._settling)
            return
        try:
            (settlement,) = self._settling.run(settle_call(self._work, delivery, error))
        except RqDlqError as failure:
            logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
        else:
            self._tally.note(delivery, settlement, error)

    def _flush(self, connections: Connections) -> None:
        """Ack what is done."""
        with self._lock:
            done, self._done = self._done, []
        if not done:
            return
        try:
            settlements = connections.run(_work.ack(self._work, [d.held for d in done]))
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self._queue.name, len(done), failure)
            if isinstance(failure, BrokerUnavailable):
                with self._lock:
                    self._done = done + self._done  # for the next flush
            return
        self._tally.add(settlements, "acked")
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)

    def _take_unstarted(self) -> list[Delivery[Any]]:
        """What is to be given back; the lock is held."""
        unstarted, self._unstarted = list(self._unstarted), deque()
        return unstarted

    def _release(self, deliveries: list[Delivery[Any]], connections: Connections) -> None:
        if not deliveries:
            return
        try:
            settlements = connections.run(_work.release(self._work, [d.held for d in deliveries]))
        except RqDlqError as failure:
            logger.error("%s: cannot release: %s", self._queue.name, failure)
        else:
            self._tally.add(settlements, "released")

    # From the worker's thread

    def tend(self) -> None:
        """Keep the lease alive, end what runs too long, give back what waits behind it."""
        now = time.monotonic()
        with self._lock:
            seconds = now - self._began if self._running is not None else 0.0
            timeout = self._handler.timeout
            timed_out = timeout is not None and seconds > timeout
            if self._running is not None and not self._interrupted:
                self._end_early(timed_out=timed_out)
            stuck: list[Delivery[Any]] = []
            if timed_out or (self._running is not None and now - self._claimed > STUCK_AFTER):
                stuck = self._take_unstarted()
            kept: list[Delivery[Any]] = []
            if now - self._extended > self._work.lease / 3000:
                kept = self._kept(timed_out=timed_out)
        self._release(stuck, self._tending)
        if seconds > ACK_WITHIN:
            self._flush(self._tending)
        if kept:
            self._extend(kept, now)

    def abandon(self) -> None:
        """Give back the message of a call that does not end, just before the process does."""
        with self._lock:
            running = [self._running] if self._running is not None else []
        self._release([delivery for delivery in running if not delivery.settled], self._tending)

    def _end_early(self, *, timed_out: bool) -> None:
        """Raise an error inside the running call, if it is to end; the lock is held."""
        if self._stop.cancelling.is_set():
            self._interrupted = True
            self._interrupt(Stopped)
        elif timed_out:
            self._interrupted = True
            self._interrupt(HandlerTimeout)

    def _kept(self, *, timed_out: bool) -> list[Delivery[Any]]:
        """What each lease is kept for: one for all that was claimed of one queue. The lock is held."""
        running = [self._running] if self._running is not None and not timed_out else []
        kept: dict[str, Delivery[Any]] = {}
        for delivery in (*running, *self._done, *self._unstarted):
            if not (delivery.settled or delivery.lost):
                kept.setdefault(delivery.token, delivery)
        return list(kept.values())

    def _extend(self, kept: list[Delivery[Any]], now: float) -> None:
        self._extended = now
        try:
            steps = _work.extend(self._work, [delivery.held for delivery in kept], self._work.lease)
            deadline, still = self._tending.run(steps)
        except RqDlqError as failure:
            logger.warning("%s %s: cannot extend the lease: %s", kept[0].queue, kept[0].id, failure)
            return
        with self._lock:
            running = self._running
            self._in_doubt = self._in_doubt or not all(still)
            for delivery, held in zip(kept, still, strict=True):
                if running is None or delivery.token != running.token:
                    continue
                if held:
                    running.lease_ends = deadline
                elif running is delivery and not running.settled:
                    running.lost = True
                    logger.warning(
                        "%s %s: the lease was lost while its handler runs", running.queue, running.id
                    )
