"""The worker: handlers, their consumers, heartbeats, signals."""

from __future__ import annotations

import threading
import time
from asyncio import AbstractEventLoop, CancelledError, create_task, get_running_loop, to_thread, wait
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from rq_dlq import asyncio, doctor
from rq_dlq._redis import FAIL_FAST, Retries
from rq_dlq.client.broker import Broker
from rq_dlq.client.tasks import Tasks
from rq_dlq.core.queues.queue import taken_of
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.worker.arguments import check_until, refuse_while_importing, wanted
from rq_dlq.worker.async_consumer import AsyncConsumer
from rq_dlq.worker.blocking import EventLoopWatch
from rq_dlq.worker.cancels import Cancels
from rq_dlq.worker.ending import Awaited, leave, sum_up
from rq_dlq.worker.finished import Finished
from rq_dlq.worker.leases import Leases
from rq_dlq.worker.lifespan import NotEntered, entered, event_loop
from rq_dlq.worker.logs import show_log
from rq_dlq.worker.recycling import Recycling, limits_of
from rq_dlq.worker.reporting import Reporting
from rq_dlq.worker.shared import Shared
from rq_dlq.worker.stopping import TICK, Stop, cutting_short, heeding_signals
from rq_dlq.worker.tally import Tally, logger
from rq_dlq.worker.thread_consumer import ThreadConsumer
from rq_dlq.worker.together import Together
from rq_dlq.worker.upkeep import Upkeep

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.durations import Duration
    from rq_dlq.worker.consumer import Consumer
    from rq_dlq.worker.stopping import Until

GRACE = 4.0  # seconds for a cancelled call to end
LEAVE = 0.5  # seconds for the lifespan and the event loop after that


class Worker:
    """Runs a broker's handlers in this process until it is stopped.

    Args:
        broker: a blocking or an async broker.
        until: when the consumers end, together, without a signal or `stop`. "stopped": never. "empty": no
            message is ready that they may take, and no call is running, which could send one; the log has the
            counts and the messages left. It waits for a `rate` and for `max_in_flight`, and leaves the
            messages of a paused queue. "drained": no message is ready, scheduled or leased (by any consumer),
            so it waits for redeliveries, and for a paused queue to be resumed.
        queues: only these queues, each with its concurrency (None: the handler's own); None: all with a
            handler.
        checkup: the time between two checks of the server, the first before the first claim; failures are
            logged as errors and warnings as warnings, each once.
        max_messages: after about how many done and failed messages it ends as after a first signal, so that
            a supervisor starts a new process; None: no limit. Each worker draws a limit of its own, up to a
            tenth lower or higher.
        max_memory: the same, for the memory of the process that is in RAM (RSS): "500MB", or a number of
            bytes. It is looked at about once a second.

    Attributes:
        stop: the stages of its shutdown.
        recycling: the limits of its process.
        tally: the outcomes of deliveries so far.
        vitals: whether it is alive and ready, for probes in other threads.

    Raises:
        ConfigurationError: there is no handler to run, or an argument is not valid.
    """

    def __init__(
        self,
        broker: Broker | asyncio.Broker,
        *,
        until: Until = "stopped",
        queues: Mapping[str, int | None] | None = None,
        checkup: Duration = "30s",
        max_messages: int | None = None,
        max_memory: int | str | None = None,
    ) -> None:
        check_until(until)
        self.stop = Stop()
        self.tally = Tally()
        limits = limits_of(max_messages, max_memory)
        self.recycling = Recycling(limits, self.tally.counts, self.stop.finishing.set)
        self.tally.then = self.recycling.note if limits.messages else None
        self.vitals = Vitals(self.stop.finishing.is_set)
        self._handlers = list(wanted(broker._handlers, queues))
        for handler, _ in self._handlers:
            if isinstance(handler.function, Tasks):
                handler.function.check()
            handler.body_type()  # raises if the annotation is not valid
        self._lifespan = broker._lifespan
        self._broker = broker if isinstance(broker, Broker) else broker._twin(Broker, FAIL_FAST)
        self._twinned = self._broker is not broker
        self._until: Until = until
        self._given_up = inf  # when to give up on cancelled calls
        self._giving_up = inf  # when to give up on Redis
        self._watch: EventLoopWatch | None = None
        self._doctor = doctor.Watch(broker.settings, checkup, private=broker._known_url is None)
        self._leases = Leases(self.vitals)
        self._upkeep = Upkeep([handler for handler, _ in self._handlers], self.vitals)

    def run(self) -> None:
        """Consume until the end. A SIGTERM or SIGINT lets running calls finish; a second one cancels them.

        If logging is not configured, the log goes to stderr.

        Raises:
            ConfigurationError: `rq-dlq worker` is importing the program, and runs the handlers itself.
            RqDlqError: a consumer failed, with its error in the log; or a burst ended because claims were
                refused.
        """
        refuse_while_importing()
        show_log()
        with (
            heeding_signals(self.stop, logger),  # before it connects, which may take long
            event_loop(self._patience, self.stop.break_off) as loop,
        ):
            self._run(loop)

    async def run_in_loop(self) -> None:
        """Like `run`, with the async handlers in this event loop; a cancellation counts as a signal."""
        refuse_while_importing()
        show_log()
        cancelled = False
        with heeding_signals(self.stop, logger):
            working = create_task(to_thread(self._run, get_running_loop()))
            while not working.done():
                try:
                    await wait([working])
                except CancelledError:
                    cancelled = True
                    self.stop.signal()
        working.result()
        if cancelled:
            raise CancelledError

    def _run(self, loop: AbstractEventLoop) -> None:
        try:
            self._serve(loop)
        except BrokerUnavailable:
            if self.stop.broken or not self.stop.finishing.is_set():
                raise  # otherwise it was stopped while it waited for Redis
        if self.stop.broken:
            raise RqDlqError("the worker ended because a consumer failed: see the log, and start it again")
        logger.info("stopped")

    def _serve(self, loop: AbstractEventLoop) -> None:
        claiming = self._connect()
        settling = claiming.with_retries(Retries(attempts=None, seconds=None, until=self.stop.giving_up))
        tending = claiming.with_retries(replace(FAIL_FAST, until=self.stop.finishing))
        self._watch = EventLoopWatch(loop)
        together = Together(self._until, self.stop.finishing.is_set)
        shared = Shared(
            self.stop, self._until, together, self.tally, self.vitals, threading.Lock(), Finished(),
            self._watch, claiming, settling, tending, loop,
        )  # fmt: skip
        consumers: list[Consumer[Any]] = []
        try:
            with entered(self._lifespan, loop, self._patience, self.stop) as state:
                consumers += self._consumers(shared, state)
                self._doctor.look(tending)
                self._upkeep.declare(claiming)
                self._upkeep.look(tending)
                reporting = Reporting(self._broker.settings, consumers, self.tally, self.vitals)
                self.recycling.begin()
                with cutting_short([self._give_up, *(consumer.cut_short for consumer in consumers)]):
                    self._consume(consumers, tending, reporting)
                self.vitals.end()
                if self._until == "empty" and not self.stop.giving_up.is_set():
                    stopped = self.stop.finishing.is_set()
                    sum_up(self._handlers, self.tally, together.left, tending, stopped=stopped)
        except NotEntered:
            return
        finally:
            claiming.close()
            if self._twinned:
                self._broker.close()
        refused = _refused(consumers)
        if refused and not self.stop.finishing.is_set():  # otherwise it did not end by `until`
            why = "; ".join(f"{name}: {trouble}" for name, trouble in refused.items())
            raise RqDlqError(f"claims were refused, so ready messages were not processed: {why}")

    def _consumers(self, shared: Shared, state: Any) -> Iterator[Consumer[Any]]:
        """The consumers of all handlers; each has its own queue object, with the state."""
        for handler, concurrency in self._handlers:
            logger.info("%s: up to %d concurrent calls", handler.queue.name, concurrency)
            if handler.is_async:
                patience = Retries(attempts=None, seconds=GRACE, until=self.stop.giving_up)
                twin = self._broker._twin(asyncio.Broker, patience)
                yield AsyncConsumer(handler, _again(handler, twin, state), concurrency, twin, shared)
            else:
                own = replace(handler, queue=_again(handler, self._broker, state))
                yield from [ThreadConsumer(own, shared) for _ in range(concurrency)]

    def _time_left(self) -> float:
        """The remaining time of cancelled calls, seconds; infinite before a second signal."""
        now = time.monotonic()
        if self.stop.cancelling.is_set():
            self._given_up = min(self._given_up, now + GRACE)
        return self._given_up - now

    def _give_up(self) -> None:
        """Give up on Redis some time after the stop; called from a thread that does not wait for Redis."""
        now = time.monotonic()
        if self.stop.finishing.is_set():
            self._giving_up = min(self._giving_up, now + GRACE)
        if now > self._giving_up:
            self.stop.giving_up.set()

    def _patience(self) -> float:
        """The remaining time for the lifespan and the event loop; a call may block both."""
        return self._time_left() + LEAVE

    def _connect(self) -> Connections:
        """Connections that wait for Redis until the worker is stopping."""
        patient = Retries(attempts=None, seconds=None, until=self.stop.finishing)
        try:
            return self._broker._connect(FAIL_FAST).with_retries(patient)
        except BrokerUnavailable as error:
            if self._until != "stopped":
                raise
            self.vitals.note_redis(str(error), logger)
            return self._broker._connect(patient)

    def _consume(
        self, consumers: Sequence[Consumer[Any]], tending: Connections, reporting: Reporting
    ) -> None:
        """Run the consumers. An error here also ends them: their leases would no longer be extended."""
        alive: list[Consumer[Any]] = []
        try:
            for consumer in consumers:
                consumer.start()
                alive.append(consumer)
            self.vitals.begin(lambda: _refused(consumers))
            alive = self._tend(alive, tending, reporting)
        except BaseException:
            self.stop.break_off()
            self.stop.cancelling.set()
            self.stop.giving_up.set()
            while (alive := _alive(alive)) and self._time_left() > 0:
                for consumer in alive:
                    with suppress(Exception):  # perhaps the same error again
                        self._leases.extend([consumer], tending)
                        consumer.tend()
            raise
        finally:
            leave(consumers, alive, tending, reporting, given_up=self.stop.giving_up.is_set())

    def _tend(
        self, alive: list[Consumer[Any]], tending: Connections, reporting: Reporting
    ) -> list[Consumer[Any]]:
        """Tend the consumers until all have ended or the time of cancelled calls is up; returns those left.

        During a stop it waits for Redis only while that is useful: after it gave up, only for running calls.
        """
        awaited, watch = Awaited(self.stop), self._watch
        cancels = Cancels(self._broker.settings.namespace)
        while alive and self._time_left() > 0:
            alive = _alive(alive)
            for consumer in alive:
                if self._is_of_use(consumer):
                    self._leases.keep(filter(self._is_of_use, alive), tending)
                    consumer.tend()
                self.vitals.turn("worker")
            if watch is not None:
                watch.look([one.name_of for one in alive if isinstance(one, AsyncConsumer)])
            awaited.look(alive)
            stopping = self.stop.finishing.is_set()
            if any(map(self._is_of_use, alive)):
                reporting.report(tending, stopping=stopping)
                cancels.look(alive, tending)
            if not stopping:
                self.recycling.look()
                self._doctor.look(tending)
                self._upkeep.look(tending)
        return alive

    def _is_of_use(self, consumer: Consumer[Any]) -> bool:
        """Whether tending this consumer is still useful."""
        return consumer.busy or not self.stop.giving_up.is_set()


def _refused(consumers: Sequence[Consumer[Any]]) -> dict[str, str]:
    """Why the last claims of queues were refused, by queue."""
    return {one.queue.name: one.claimer.trouble for one in consumers if one.claimer.trouble}


def _alive(consumers: Sequence[Consumer[Any]]) -> list[Consumer[Any]]:
    """The consumers that have not ended, after a short wait."""
    return [consumer for consumer in consumers if not consumer.join(TICK / len(consumers))]


def _again(handler: Handler, broker: Broker | asyncio.Broker, state: Any) -> Any:
    """A handler's queue, from this broker, for a worker with this state."""
    work: QueueState[Any] = handler.queue._core
    again = broker.queue(work.name, type=handler.body_type(), lease=work.lease / 1000, **work.given)
    again._state, again._core.tended = state, True
    again._core.takes = taken_of(again._core)
    if isinstance(handler.function, Tasks):
        again._core.takes = handler.function.taken()
    return again
