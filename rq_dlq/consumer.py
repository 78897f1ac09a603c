"""One thread that claims, runs a handler, and settles: the heart of a worker."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq.attribution import Attribution
from rq_dlq.errors import BrokerUnavailable, InvalidInput, RqDlqError
from rq_dlq.handlers import Handler, Pace, Tally, logger, report
from rq_dlq.holding import Holding
from rq_dlq.message import Settlement
from rq_dlq.running import Running
from rq_dlq.stopping import HandlerTimeout, Patience, Stop, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
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
        self._attribution = Attribution(self._work, tending)
        self._holding = Holding()
        self._running = Running(handler)
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
                    self._holding.add(deliveries)
                    self._run_all()
                elif self._over():
                    break
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer broke off", self._queue.name)
            self._stop.break_off()
            self._next()  # gives back what was not started
        finally:
            self._attribution.close()

    def _claim(self) -> Sequence[Leased[Any]]:
        count = self._pace.claim
        attributed = self._attribution.ready(count)
        steps = _work.claim(
            self._work,
            self._queue.delivery,
            count=count,
            wait=self._patience.wait,
            attributed=attributed,
            spoiled=self._tally.note,
            stopped=self._stop.finishing.is_set,
        )
        deliveries: Sequence[Leased[Any]] = ()
        try:
            deliveries = self._claiming.run(steps)
        except BrokerUnavailable:  # only once the worker is stopping
            pass
        except RqDlqError as error:
            logger.error("%s: cannot claim: %s", self._queue.name, error)
            self._stop.finishing.wait(0 if self._until == "empty" else RETRY_AFTER)
        self._patience.note(found=bool(deliveries))
        if attributed:
            self._attribution.take(deliveries)
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
            self._attribution.begin(delivery)
            error = self._running.run(delivery)
            self._settle(delivery, error)
            self._attribution.end(delivery)
            self._pace.note(time.monotonic() - self._running.began)
        self._flush(self._settling)

    def _next(self) -> Leased[Any] | None:
        self._drop_lost()
        if not self._stop.finishing.is_set():
            return self._holding.next()
        self._release(self._holding.take_unstarted(), self._settling)
        return None

    def _drop_lost(self) -> None:
        """Where the lease may have run out: run no handler on what is somebody else's by now."""
        unstarted = self._holding.doubtful(self._work.lease / 1000)
        if not unstarted:
            return
        try:
            steps = _work.extend(self._work, [d.held for d in unstarted], self._work.lease)
            _, still = self._settling.run(steps)
        except RqDlqError as failure:
            logger.warning("%s: cannot see whether the leases still hold: %s", self._queue.name, failure)
            return
        lost = [d for d, held in zip(unstarted, still, strict=True) if not held]
        self._holding.drop(lost)
        if lost:
            self._tally.add([Settlement(d.id, "lost") for d in lost], "lost")
            logger.warning("%s: the lease was lost before %d calls began", self._queue.name, len(lost))

    def _settle(self, delivery: Leased[Any], error: BaseException | None) -> None:
        if delivery.outcome is not None:  # the handler did it
            self._tally.add([Settlement(delivery.id, delivery.outcome)], "acked")
        elif error is None:
            done = self._holding.finish(delivery)
            if done >= ACK_TOGETHER or time.monotonic() - self._running.began > ACK_WITHIN:
                self._flush(self._settling)
        else:
            try:
                (settlement,) = self._settling.run(settle_call(self._work, delivery, error))
            except RqDlqError as failure:
                logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
            else:
                self._tally.note(delivery, settlement, error)
        self._holding.let_go()

    def _flush(self, connections: Connections) -> None:
        """Ack what is done."""
        done = self._holding.take_done()
        if not done:
            return
        try:
            settlements = connections.run(_work.ack(self._work, [d.held for d in done]))
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self._queue.name, len(done), failure)
            if isinstance(failure, BrokerUnavailable):
                self._holding.put_back(done)  # for the next flush
            return
        self._tally.add(settlements, "acked")
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)

    def _release(self, deliveries: list[Leased[Any]], connections: Connections) -> None:
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
        running, timeout, now = self._running.delivery, self._handler.timeout, time.monotonic()
        seconds = now - self._running.began if running is not None else 0.0
        timed_out = timeout is not None and seconds > timeout
        if self._stop.cancelling.is_set():
            self._running.cut_short(running, Stopped)
        elif timed_out:
            self._running.cut_short(running, HandlerTimeout)
        if timed_out or (running is not None and now - self._holding.claimed > STUCK_AFTER):
            self._release(self._holding.take_unstarted(), self._tending)
        if seconds > ACK_WITHIN:
            self._flush(self._tending)
        if now - self._holding.extended > self._work.lease / 3000:
            self._extend(self._holding.kept(current=not timed_out), now)

    def abandon(self) -> None:
        """Give back the message of a call that does not end, just before the process does."""
        running = self._running.delivery
        self._release([running] if running is not None and not running.settled else [], self._tending)

    def _extend(self, kept: list[Leased[Any]], now: float) -> None:
        if not kept:
            return
        self._holding.extended = now
        try:
            steps = _work.extend(self._work, [delivery.held for delivery in kept], self._work.lease)
            deadline, still = self._tending.run(steps)
        except RqDlqError as failure:
            logger.warning("%s %s: cannot extend the lease: %s", kept[0].queue, kept[0].id, failure)
            return
        if not all(still):
            self._holding.doubt()
        running = self._running.delivery
        for delivery, held in zip(kept, still, strict=True):
            if running is None or delivery.token != running.token:
                continue
            if held:
                running.lease_ends = deadline
            elif running is delivery and not running.settled:
                running.lost = True
                logger.warning("%s %s: the lease was lost while its handler runs", running.queue, running.id)
