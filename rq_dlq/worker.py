"""The worker: handlers, their consumers, heartbeats, signals."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from rq_dlq._redis import FAIL_FAST, Retries
from rq_dlq.asyncio.consumer import AsyncConsumers
from rq_dlq.consumer import Consumer, Stop
from rq_dlq.errors import BrokerUnavailable, ConfigurationError
from rq_dlq.handlers import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from rq_dlq._redis import Connections
    from rq_dlq.broker import Broker
    from rq_dlq.handlers import Handler

TICK = 0.05  # seconds between two looks at the consumers
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE = 5.0  # seconds that a cancelled call has to end


class Worker:
    """Runs a broker's handlers in this process until it is told to stop.

    Args:
        burst: stop when nothing is ready.
        queues: only these, each with its concurrency (None: the handler's own).

    Raises:
        ConfigurationError: there is no handler to run.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        burst: bool = False,
        queues: Mapping[str, int | None] | None = None,
    ) -> None:
        self.stop = Stop()
        self._broker = broker
        self._burst = burst
        self._handlers = list(_wanted(broker.handlers, queues))

    def run(self) -> None:
        """Consume until the end; the first SIGTERM or SIGINT finishes what has begun, a second cancels it."""
        claiming = self._connect()
        settling = claiming.with_retries(Retries(attempts=None, seconds=None, until=self.stop.giving_up))
        tending = claiming.with_retries(FAIL_FAST)
        consumers: list[Consumer | AsyncConsumers] = []
        for handler, concurrency in self._handlers:
            logger.info("%s: %d at once", handler.queue.name, concurrency)
            if handler.is_async:
                twin = self._broker.twin(Retries(attempts=None, seconds=GRACE))
                consumers.append(
                    AsyncConsumers(handler, concurrency, twin, tending, self.stop, burst=self._burst)
                )
            else:
                consumers += (
                    Consumer(handler, claiming, settling, tending, self.stop, burst=self._burst)
                    for _ in range(concurrency)
                )
        restore = self._listen()
        try:
            for consumer in consumers:
                consumer.start()
            self._tend(consumers)
        finally:
            for number, previous in restore.items():
                signal.signal(number, previous)
            claiming.close()
        logger.info("stopped")

    def _connect(self) -> Connections:
        """Connections that wait for Redis until the worker is stopping."""
        patient = Retries(attempts=None, seconds=None, until=self.stop.finishing)
        try:
            return self._broker.connect(FAIL_FAST).with_retries(patient)
        except BrokerUnavailable as error:
            if self._burst:
                raise
            logger.warning("waiting for Redis: %s", error)
            return self._broker.connect(patient)

    def _tend(self, consumers: Sequence[Consumer | AsyncConsumers]) -> None:
        """Look at the consumers until all have ended, or a cancelled call does not."""
        alive = list(consumers)
        stopping: float | None = None  # since when
        cut_off: float | None = None
        while alive and (cut_off is None or time.monotonic() < cut_off):
            alive = [consumer for consumer in alive if not consumer.join(TICK / len(alive))]
            for consumer in alive:
                consumer.tend()
            now = time.monotonic()
            if stopping is None and self.stop.finishing.is_set():
                stopping = now
            if stopping is not None and now - stopping > GRACE:
                self.stop.giving_up.set()
            if cut_off is None and self.stop.cancelling.is_set():
                cut_off = now + GRACE
        if alive:
            logger.warning("%d consumers did not end: what they hold is given back", len(alive))
        for consumer in alive:
            consumer.abandon()

    def _listen(self) -> dict[int, Any]:
        """Take the signals, where this is the main thread; what handled them before."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, self._on_signal) for number in SIGNALS}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.stop.signal()
        doing = "cancelling what runs" if self.stop.cancelling.is_set() else "finishing what has begun"
        logger.info("%s: %s", signal.Signals(number).name, doing)


def _wanted(
    handlers: Sequence[Handler], queues: Mapping[str, int | None] | None
) -> Iterator[tuple[Handler, int]]:
    by_name = {handler.queue.name: handler for handler in handlers}
    if not by_name:
        message = "there is no handler to run: decorate a function with @queue.handler()"
        raise ConfigurationError(message)
    for name, concurrency in (queues or dict.fromkeys(by_name)).items():
        if name not in by_name:
            known = ", ".join(by_name)
            message = f"no handler takes the messages of {name!r}; there are handlers for {known}"
            raise ConfigurationError(message)
        yield by_name[name], concurrency or by_name[name].concurrency
