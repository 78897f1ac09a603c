"""The worker: handlers, their consumers, heartbeats, signals."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from rq_dlq import _work, doctor
from rq_dlq._redis import FAIL_FAST, Retries
from rq_dlq.asyncio.consumer import AsyncConsumers
from rq_dlq.consumer import Consumer
from rq_dlq.errors import BrokerUnavailable, ConfigurationError, RqDlqError
from rq_dlq.handlers import Tally, logger
from rq_dlq.stopping import TICK, Stop, heeding_signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.broker import Broker
    from rq_dlq.durations import Duration
    from rq_dlq.handlers import Handler
    from rq_dlq.stopping import Until

GRACE = 5.0  # seconds that a cancelled call has to end
UPKEEP = 10.0  # seconds between two rounds of maintenance of a worker's own queues
A_FEW = 20  # round trips of one, since leases are not extended meanwhile


class Worker:
    """Runs a broker's handlers in this process until it is told to stop.

    Args:
        until: when a queue's consumers end, beside by a signal or `stop`. stopped: never. empty: nothing is
            ready. drained: nothing is ready, scheduled or leased, by anybody, so that redeliveries are waited
            for (and a paused queue until it is resumed).
        queues: only these, each with its concurrency (None: the handler's own).
        checkup: between two looks at the server, the first before the first claim: what fails there is logged
            as an error, what is to be minded as a warning, each once.

    Attributes:
        tally: how deliveries ended so far.

    Raises:
        ConfigurationError: there is no handler to run.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        until: Until = "stopped",
        queues: Mapping[str, int | None] | None = None,
        checkup: Duration = "30s",
    ) -> None:
        self.stop = Stop()
        self.tally = Tally()
        self._broker = broker
        self._until: Until = until
        self._handlers = list(_wanted(broker.handlers, queues))
        works = {handler.queue.work.keys: handler.queue.work for handler, _ in self._handlers}
        self._doctor = doctor.Watch(broker.settings, checkup)
        self._watched = [_work.Watched(keys, policy=work.policy) for keys, work in works.items()]

    def run(self) -> None:
        """Consume until the end; the first SIGTERM or SIGINT finishes what has begun, a second cancels it.

        Raises:
            RqDlqError: a consumer broke off; the log has its error.
        """
        claiming = self._connect()
        settling = claiming.with_retries(Retries(attempts=None, seconds=None, until=self.stop.giving_up))
        tending = claiming.with_retries(FAIL_FAST)
        consumers: list[Consumer | AsyncConsumers] = []
        until, tally, stop = self._until, self.tally, self.stop
        for handler, concurrency in self._handlers:
            logger.info("%s: %d at once", handler.queue.name, concurrency)
            if handler.is_async:
                twin = self._broker.twin(Retries(attempts=None, seconds=GRACE))
                consumers.append(
                    AsyncConsumers(handler, concurrency, twin, tending, stop, until=until, tally=tally)
                )
            else:
                consumers += (
                    Consumer(handler, claiming, settling, tending, stop, until=until, tally=tally)
                    for _ in range(concurrency)
                )
        try:
            with heeding_signals(self.stop, logger):
                self._doctor.look(tending)
                for consumer in consumers:
                    consumer.start()
                self._tend(consumers, tending)
        finally:
            claiming.close()
        if self.stop.broken:
            message = "the worker ended, since a consumer broke off: see the log, and start it again"
            raise RqDlqError(message)
        logger.info("stopped")

    def _connect(self) -> Connections:
        """Connections that wait for Redis until the worker is stopping."""
        patient = Retries(attempts=None, seconds=None, until=self.stop.finishing)
        try:
            return self._broker.connect(FAIL_FAST).with_retries(patient)
        except BrokerUnavailable as error:
            if self._until != "stopped":
                raise
            logger.warning("waiting for Redis: %s", error)
            return self._broker.connect(patient)

    def _tend(self, consumers: Sequence[Consumer | AsyncConsumers], tending: Connections) -> None:
        """Look at the consumers until all have ended, or a cancelled call does not."""
        alive = list(consumers)
        kept_up = time.monotonic()
        stopping: float | None = None  # since when
        cut_off: float | None = None
        while alive and (cut_off is None or time.monotonic() < cut_off):
            alive = [consumer for consumer in alive if not consumer.join(TICK / len(alive))]
            for consumer in alive:
                consumer.tend()
            self._doctor.look(tending)
            now = time.monotonic()
            if now - kept_up > UPKEEP and not self.stop.finishing.is_set():
                kept_up = now
                self._keep_up(tending)
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

    def _keep_up(self, tending: Connections) -> None:
        """Maintain the queues a little: a busy consumer claims nothing, and none looks at retention."""
        try:
            tending.run(self._upkeep())
        except RqDlqError as error:
            logger.warning("cannot maintain the queues: %s", error)

    def _upkeep(self) -> _work.Steps[None]:
        due = yield from _work.look(self._watched)
        yield from _work.work_off(due.work, Counter(), enough=A_FEW)


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
