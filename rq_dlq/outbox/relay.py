"""The relay: sends what is in an outbox, each row once."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from rq_dlq._redis import FAIL_FAST
from rq_dlq.client.broker import Broker
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sending.noted import send_noted
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.errors import BrokerUnavailable, ConfigurationError, RqDlqError
from rq_dlq.outbox.ledger import DatabaseUnavailable
from rq_dlq.outbox.reporting import OutboxReporting
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.readable import many
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.logs import show_log
from rq_dlq.worker.stopping import TICK, Stop, heeding_signals

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.outbox.ledger import Ledger, Relayed
    from rq_dlq.outbox.noted import NotedCall, RelayCalls

logger = logging.getLogger("rq_dlq.outbox")


class Relay:
    """Sends the rows of an outbox until it is stopped.

    Any number may run for one outbox. On PostgreSQL one of them works while the others stand by. On other
    databases they all work, and some calls are made twice; Redis carries out each once.

    Args:
        outbox: an outbox with a database.
        burst: end when the outbox is empty.
        period: the time between two looks at an empty outbox.

    Attributes:
        sent: how many rows it has sent.
        vitals: whether it is alive and ready, for probes in other threads.

    Raises:
        InvalidDuration: `period` is not valid.
    """

    def __init__(self, outbox: Relayed, *, burst: bool = False, period: Duration = "200ms") -> None:
        self._outbox = outbox
        self._burst = burst
        self._period = milliseconds(period, name="period", minimum=10) / 1000
        given: Any = outbox.broker
        self._broker: Broker = given if isinstance(given, Broker) else given._twin(Broker, FAIL_FAST)
        self._twinned = self._broker is not given
        self._reporting = OutboxReporting(outbox.name, self._broker.settings)
        self._waits_for: dict[str, str] = {}  # the reason, by the name of the database or a queue
        self._began = False
        self._stop = Stop()
        self.sent = 0
        self.vitals = Vitals(self._stop.finishing.is_set)

    def stop(self) -> None:
        """Make `run` return after its current call; from any thread."""
        self._stop.finishing.set()

    def run(self) -> None:
        """Send until `stop`, SIGTERM or SIGINT. It waits while Redis or the database cannot be reached.

        Raises:
            ConfigurationError: the database cannot be used from the beginning.
            BrokerUnavailable, BrokerRefused: Redis cannot be used from the beginning.
        """
        show_log()
        with heeding_signals(self._stop, logger):
            connections = self._broker._connect(FAIL_FAST)
            try:
                while not self._stopped():
                    self._use_database(connections)
                self._reporting.leave(connections)
            finally:
                connections.close()
                if self._twinned:
                    self._broker.close()
        self.vitals.end()
        logger.info("stopped: sent %s", many(self.sent, "message"))

    def _use_database(self, connections: Connections) -> None:
        """Work with one connection to the database, until the end of either."""
        try:
            self._outbox.with_ledger(lambda ledger: self._serve(ledger, connections))
        except DatabaseUnavailable as error:
            if not self._began:
                raise ConfigurationError(
                    f"the outbox cannot be read: {error}. If its tables are missing, "
                    "`Outbox.metadata.create_all(engine)` makes them, or `migrate` of Django"
                ) from error
            self._note_wait("the database", str(error))
            self._sleep(RETRY_AFTER)

    def _serve(self, ledger: Ledger, connections: Connections) -> None:
        ledger.read()
        self._note_wait("the database", "")
        if not self._began:
            self._began = True
            self.vitals.begin()
            logger.info("relay of the outbox %s to %s", self._outbox.name, self._broker.url)
        self._stand_by(ledger)
        floor: int | None = None
        noted = ledger.read()
        done: list[NotedCall] = []
        while not self._stopped():
            try:
                floor = connections.run(_clock()) if floor is None else floor
                noted = ledger.advance(noted, done, floor)
                done.clear()
                self._reporting.report(ledger, connections, self.sent)
                self._send(ledger, connections, noted, done)
            except BrokerUnavailable as error:
                self.vitals.note_redis(str(error), logger)
                self._sleep(RETRY_AFTER)
                continue
            self.vitals.note_redis("", logger)
            if not done:
                self._end_burst(ledger)
                self._sleep(RETRY_AFTER if noted.calls else self._period)
        if floor is not None:
            ledger.advance(noted, done, floor)

    def _stand_by(self, ledger: Ledger) -> None:
        """Wait until no other relay of this outbox is at work."""
        told = False
        while not self._stopped() and not ledger.lock():
            if not told:
                logger.info("another relay of the outbox %s is at work: standing by", self._outbox.name)
                told = True
            self._end_burst(ledger)
            self._sleep(self._period)

    def _end_burst(self, ledger: Ledger) -> None:
        """Stop a burst if the outbox is empty."""
        if self._burst and not ledger.behind().rows:
            self.stop()

    def _send(
        self, ledger: Ledger, connections: Connections, noted: RelayCalls, done: list[NotedCall]
    ) -> None:
        """Make the noted calls, in order, and add those that are done to `done`.

        A queue that refuses a call gets no later one before it; the other queues go on.

        Raises:
            BrokerUnavailable: Redis does not answer, so the outcome of a call is unknown. It is made again.
        """
        held: set[str] = set()
        for call in noted.calls:
            if self._stopped():
                return
            if call.queue in held:
                continue
            rows = ledger.load(call)
            try:
                if rows:  # else another relay has sent them
                    connections.run(self._call(noted.sender_of(call), call, rows))
            except BrokerUnavailable:
                raise
            except RqDlqError as error:
                held.add(call.queue)
                self._note_wait(f"the queue {call.queue}", str(error))
            else:
                self._note_wait(f"the queue {call.queue}", "")
                done.append(call)
                self.sent += len(rows)

    def _call(self, sender: str, call: NotedCall, rows: list[tuple[str, bytes]]) -> Steps[None]:
        queue = self._broker.queue(call.queue)._core
        items = [cell for row in rows for cell in row]
        return send_noted(queue, sender, call.number, delay=call.delay, ttl=call.ttl, items=items)

    def _note_wait(self, what: str, why: str) -> None:
        """Log once when a wait begins, and once when it ends; `why` is empty then."""
        before = self._waits_for.pop(what, "")
        if why:
            self._waits_for[what] = why
        if why and why != before:
            logger.warning("waiting for %s: %s", what, why)
        elif before and not why:
            logger.info("%s is back", what)

    def _stopped(self) -> bool:
        """Whether to stop. It is called between any two steps, so it also notes that the process is alive."""
        self.vitals.turn("relay")
        return self._stop.finishing.is_set()

    def _sleep(self, seconds: float) -> None:
        """Sleep, at most until the stop, and keep noting that the process is alive."""
        end = time.monotonic() + seconds
        while not self._stopped() and (left := end - time.monotonic()) > 0:
            self._stop.finishing.wait(min(left, TICK))


def _clock() -> Steps[int]:
    now: int = yield queue_calls.clock()
    return now
