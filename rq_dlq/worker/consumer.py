"""A thread that claims, runs a handler, and settles."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.duties import ACK_TOGETHER, ACK_WITHIN, RETRY_AFTER, Duties
from rq_dlq.worker.holding import Holding
from rq_dlq.worker.pace import Pace
from rq_dlq.worker.running import Running
from rq_dlq.worker.stopping import HandlerTimeout, Stop, Stopped
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.values.message import Leased

STUCK_AFTER = 1.0  # seconds after which messages that a consumer has not started are released


class Consumer:
    """Claims for one handler, runs it call by call, and acks in batches.

    Another thread calls `tend` several times a second.

    Args:
        duties: its steps on the queue.
        claiming: connections that wait for Redis until the worker is stopping.
        settling: connections that wait for Redis until the worker gives up.
        tending: connections that do not wait long, since one thread tends all consumers.
    """

    def __init__(
        self,
        handler: Handler,
        duties: Duties[Any],
        claiming: Connections,
        settling: Connections,
        tending: Connections,
        *,
        stop: Stop,
    ) -> None:
        self._timeout = handler.timeout
        self._name = duties.queue.name
        self._lease = duties.queue.lease / 1000
        self._duties = duties
        self._claiming = claiming
        self._settling = settling
        self._tending = tending
        self._stop = stop
        self._pace = Pace()
        self._holding = Holding()
        self._running = Running(handler)
        self._thread = threading.Thread(target=self._consume, name=f"rq-dlq {self._name}", daemon=True)

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _consume(self) -> None:
        try:
            while not self._stop.finishing.is_set():
                deliveries = self._claim()
                if deliveries:
                    self._holding.add(deliveries)
                    self._run_all()
                elif self._duties.permit.passed:
                    self._duties.permit.wait()
                elif self._claiming.run(self._duties.over()):
                    break
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the consumer failed", self._name)
            self._stop.break_off()
            self._next()  # releases what was not started

    def _claim(self) -> Sequence[Leased[Any]]:
        deliveries = self._claiming.run(self._duties.claim(self._pace.claim))
        if self._duties.pause:
            self._stop.finishing.wait(self._duties.pause)
        return deliveries

    def _run_all(self) -> None:
        """Run the handler on all claimed messages, and settle them."""
        running, holding = self._running, self._holding
        while (delivery := self._next()) is not None:
            error = running.run(delivery)
            took = time.monotonic() - running.began
            self._pace.note(took)
            suspect = self._duties.permit.is_for(delivery)
            if error is None and delivery.outcome is None and not suspect:
                if holding.finish(delivery) >= ACK_TOGETHER or took > ACK_WITHIN:
                    self._flush(self._settling)
            else:
                self._settle(delivery, error)
        self._flush(self._settling)
        self._duties.permit.end()

    def _next(self) -> Leased[Any] | None:
        if self._stop.finishing.is_set():
            self._release(self._holding.take_unstarted(), self._settling)
            return None
        if self._holding.is_doubtful(time.monotonic(), self._lease):
            self._drop_lost()
        return self._holding.next()

    def _drop_lost(self) -> None:
        """Drop deliveries that were lost before their handlers started."""
        if unstarted := self._holding.doubtful():
            lost = self._settling.run(self._duties.lost_of(unstarted))
            if lost is not None:
                self._holding.drop(lost)

    def _settle(self, delivery: Leased[Any], error: BaseException | None) -> None:
        """Settle a call that failed, or one of a suspect, unless its handler settled the delivery."""
        if not self._duties.settled_itself(delivery):
            while not self._settling.run(self._duties.settle(delivery, error)):
                if self._stop.giving_up.wait(RETRY_AFTER):
                    break
        self._holding.let_go()

    def _flush(self, connections: Connections) -> None:
        """Ack the finished messages."""
        if done := self._holding.take_done():
            self._holding.put_back(connections.run(self._duties.ack(done)))

    def _release(self, deliveries: list[Leased[Any]], connections: Connections) -> None:
        if deliveries:
            connections.run(self._duties.release(deliveries))

    # From the worker's thread

    def tend(self) -> None:
        """Extend leases, end a call that runs too long, release messages that wait behind a stuck call."""
        running, now = self._running.delivery, time.monotonic()
        seconds = now - self._running.began if running is not None else 0.0
        timed_out = self._timeout is not None and seconds > self._timeout
        if self._stop.cancelling.is_set():
            self._running.cut_short(running, Stopped)
        elif timed_out:
            self._running.cut_short(running, HandlerTimeout)
        if timed_out or (running is not None and now - self._holding.claimed > STUCK_AFTER):
            self._release(self._holding.take_unstarted(), self._tending)
        if seconds > ACK_WITHIN:
            self._flush(self._tending)
        if now - self._holding.extended > self._lease / 3:
            self._extend(self._holding.kept(current=not timed_out), now)

    def abandon(self) -> None:
        """Release the message of a call that does not end, just before the process ends."""
        running = self._running.delivery
        self._release([running] if running is not None and not running.settled else [], self._tending)

    def _extend(self, kept: list[Leased[Any]], now: float) -> None:
        if kept:
            self._holding.extended = now
            runs = self._running.delivery
            if not self._tending.run(self._duties.extend(kept, lambda delivery: delivery is runs)):
                self._holding.doubt()
