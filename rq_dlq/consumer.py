"""One thread that claims, runs a handler, and settles: the heart of a worker."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq.errors import BrokerUnavailable, LeaseLost, RqDlqError
from rq_dlq.handlers import Handler, Pace, logger, report

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.message import Row
    from rq_dlq.queue import Delivery, Queue

ACK_WITHIN = 0.005  # seconds that a finished message may wait for others, to be acked with them
STUCK_AFTER = 1.0  # seconds after which what waits behind a running call is given back
IDLE_WAIT = 1_000  # milliseconds of one waiting claim


class HandlerTimeout(TimeoutError):  # noqa: N818 - the word for it
    """A call ran longer than its handler's timeout."""


class Stopped(BaseException):
    """Raised inside a call that a second signal cuts short; its message is released."""


class Stop:
    """How far a worker's end has come.

    Attributes:
        finishing: nothing new begins.
        cancelling: what runs is cut short.
    """

    def __init__(self) -> None:
        self.finishing = threading.Event()
        self.cancelling = threading.Event()

    def signal(self) -> None:
        """The first time finish, the second time cancel."""
        if self.finishing.is_set():
            self.cancelling.set()
        self.finishing.set()


class Consumer:
    """Claims for one handler, runs it call by call, acks in batches.

    `tend` is called by another thread several times a second: it keeps the lease alive, ends calls that run too
    long, and gives back what waits behind one that is stuck.
    """

    def __init__(
        self,
        handler: Handler,
        claiming: Connections,
        settling: Connections,
        stop: Stop,
        *,
        burst: bool,
    ) -> None:
        self.handler = handler
        self._queue: Queue[Any] = handler.queue
        self._work = self._queue.work
        self._claiming = claiming
        self._settling = settling
        self._stop = stop
        self._burst = burst
        self._pace = Pace()
        self._lock = threading.Lock()  # guards what tend() looks at
        self._unstarted: deque[Delivery[Any]] = deque()
        self._running: Delivery[Any] | None = None
        self._began = 0.0
        self._done: list[Delivery[Any]] = []
        self._interrupted = False
        self._extended = 0.0
        self._thread = threading.Thread(
            target=self._consume, name=f"rq-dlq {self._queue.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _consume(self) -> None:
        while not self._stop.finishing.is_set():
            try:
                deliveries = self._claim()
            except BrokerUnavailable:
                break  # only once the worker is stopping: until then a claim is repeated for ever
            except RqDlqError as error:
                logger.error("%s: cannot claim: %s", self._queue.name, error)
                self._stop.finishing.set()
                break
            if deliveries:
                self._extended = time.monotonic()
                self._unstarted.extend(deliveries)
                self._run_all()
            elif self._burst:
                break

    def _claim(self) -> list[Delivery[Any]]:
        wait = 0 if self._burst else IDLE_WAIT
        steps = _work.claim(self._work, self._delivery, count=self._pace.claim, wait=wait)
        return self._claiming.run(steps)

    def _delivery(self, row: Row, token: str, lease_until: int) -> Delivery[Any]:
        return self._queue.delivery(row, token, lease_until)

    def _run_all(self) -> None:
        while (delivery := self._next()) is not None:
            began = self._began
            error = self._call(delivery)
            self._settle(delivery, error)
            now = time.monotonic()
            self._pace.note(now - began)
        self._flush()

    def _next(self) -> Delivery[Any] | None:
        with self._lock:
            if self._stop.finishing.is_set() or not self._unstarted:
                unstarted, self._unstarted = list(self._unstarted), deque()
                self._running = None
            else:
                self._running = self._unstarted.popleft()
                self._began = time.monotonic()
                return self._running
        self._release(unstarted)
        return None

    def _call(self, delivery: Delivery[Any]) -> BaseException | None:
        handler = self.handler
        error: BaseException | None = None
        try:
            if handler.takes_delivery:
                handler.function(delivery.body, delivery)
            else:
                handler.function(delivery.body)
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises, the worker lives
            error = raised
        with self._lock:
            self._running = None
        if self._interrupted:
            error = self._swallow_interrupt() or error
        return error

    def _swallow_interrupt(self) -> BaseException | None:
        """An interrupt is raised some instructions after it was asked for: let it come now."""
        try:
            for _ in range(10_000):
                pass
        except (HandlerTimeout, Stopped) as late:
            return late
        finally:
            self._interrupted = False
        return None

    def _settle(self, delivery: Delivery[Any], error: BaseException | None) -> None:
        if delivery.settled:  # the handler did it
            return
        if error is None:
            with self._lock:
                self._done.append(delivery)
                overdue = time.monotonic() - self._began > ACK_WITHIN or len(self._done) >= 100
            if overdue:
                self._flush()
            return
        try:
            steps = _work.settle_by_error(self._work, [delivery.held], error)
            (settlement,) = self._settling.run(steps)
        except RqDlqError as failure:
            logger.error("%s %s: cannot settle: %s", delivery.queue, delivery.id, failure)
        else:
            report(delivery, settlement, error)

    def _flush(self) -> None:
        """Ack what is done."""
        with self._lock:
            done, self._done = self._done, []
        if not done:
            return
        try:
            settlements = self._settling.run(_work.ack(self._work, [d.held for d in done]))
        except RqDlqError as failure:
            logger.error("%s: cannot ack %d messages: %s", self._queue.name, len(done), failure)
            return
        for delivery, settlement in zip(done, settlements, strict=True):
            if not settlement:
                report(delivery, settlement, None)

    def _release(self, deliveries: list[Delivery[Any]]) -> None:
        if deliveries:
            try:
                self._settling.run(_work.release(self._work, [d.held for d in deliveries]))
            except RqDlqError as failure:
                logger.error("%s: cannot release: %s", self._queue.name, failure)

    # From the worker's other thread

    def tend(self) -> None:
        """Keep the lease alive, end what runs too long, give back what waits behind it."""
        now = time.monotonic()
        with self._lock:
            running, began = self._running, self._began
            oldest = now - began if running is not None else 0.0
            stuck: list[Delivery[Any]] = []
            if oldest > STUCK_AFTER:
                stuck, self._unstarted = list(self._unstarted), deque()
            self._interrupt_if(running, oldest)
            alive = self.handler.timeout is None or oldest <= self.handler.timeout
        self._release(stuck)
        if oldest > ACK_WITHIN:
            self._flush()
        if running is not None and alive and now - self._extended > self._work.lease / 3000:
            self._extend(running, now)

    def _interrupt_if(self, running: Delivery[Any] | None, seconds: float) -> None:
        """Raise an error inside the running call, if it is to end; the lock is held."""
        if running is None or self._interrupted or self._thread.ident is None:
            return
        timeout = self.handler.timeout
        reason: type[BaseException] | None = None
        if self._stop.cancelling.is_set():
            reason = Stopped
        elif timeout is not None and seconds > timeout:
            reason = HandlerTimeout
        if reason is not None:
            self._interrupted = True
            ident = ctypes.c_ulong(self._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(reason))

    def _extend(self, running: Delivery[Any], now: float) -> None:
        self._extended = now
        try:
            steps = _work.extend_one(self._work, running.held, self._work.lease)
            running.lease_ends = self._settling.run(steps)
        except LeaseLost:
            running.lost = True
            logger.warning(
                "%s %s: the lease was lost while its handler runs", running.queue, running.id
            )
        except RqDlqError as failure:
            logger.warning("%s %s: cannot extend the lease: %s", running.queue, running.id, failure)
