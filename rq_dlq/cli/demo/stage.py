"""The parts of the demo: the queue, the workers, the payment service, and the stopwatches."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rq_dlq import Broker
from rq_dlq.cli import _scratch
from rq_dlq.cli.demo.crew import Crew
from rq_dlq.cli.demo.payments import Payments
from rq_dlq.core.batches import batches
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.step import Batch
from rq_dlq.values.failure import moment
from rq_dlq.values.message import Received

if TYPE_CHECKING:
    from rq_dlq.cli.demo.app import App
    from rq_dlq.client.queue import Queue
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.message import Row

WORKERS = 4
PAGE = 250  # messages read at once


class Stage:
    """The parts, and what the stopwatches show.

    Attributes:
        waits: seconds from when a message was due (sent, or to be redelivered) until it was paid, except for
            redriven messages, which come back all at once.
        rescued: seconds from the kill to the redelivery, by id of the killed worker's messages; None: the
            message still waits.
    """

    def __init__(self, app: App, url: str, namespace: str, rows: int | None) -> None:
        self.flights = app.flights(rows)
        self.lease = timedelta(milliseconds=app.module.flights._core.lease).total_seconds()
        self.broker = Broker(url, namespace=namespace)
        self.queue: Queue[Any] = self.broker.queue(app.module.flights.name, type=app.module.Flight)
        self.payments = Payments(self._on_paid)
        env = {
            "RQ_DLQ_URL": url,
            "RQ_DLQ_NAMESPACE": namespace,
            "FLIGHTS_PAYMENTS": self.payments.address,
            "PYTHONUNBUFFERED": "1",
        }
        self.crew = Crew(app, WORKERS, env)
        self.sent: list[str] = []
        self.waits: list[float] = []
        self.rescued: dict[str, float | None] = {}
        self._held: dict[str, int] = {}  # ids of these, and how often each had been delivered by then
        self._killing = threading.Lock()
        self._doomed = False  # whoever pays next
        self._killed_at = 0.0

    @contextmanager
    def up(self) -> Generator[None]:
        """Set everything up, and remove it on leaving."""
        with self.broker:
            try:
                with self.payments.open(), self.crew.at_work():
                    yield
            finally:
                _scratch.remove(self.broker)

    # Called by the play

    def send_until(self, number: int) -> None:
        """Send flights until `number` are sent."""
        self.sent += self.queue.send_many(self.flights[len(self.sent) : number])

    def kill_next_payer(self) -> None:
        """Kill the worker that pays next, when the payment is made and not yet answered."""
        self._doomed = True

    def watch_rescue(self) -> None:
        """Note which of the killed worker's messages were redelivered since."""
        open_ids = [message_id for message_id, seconds in self.rescued.items() if seconds is None]
        if open_ids:
            messages = self.queue._run(self._look(open_ids))
            since = time.monotonic() - self._killed_at
            waiting = {m.id for m in messages if m.delivery_count == self._held[m.id]}
            self.rescued |= dict.fromkeys(set(open_ids) - waiting, since)

    def _look(self, ids: list[str]) -> Steps[list[Received[Any]]]:
        page: Page = yield page_calls.browse(self.queue._core.keys, ids=ids)
        return self._messages(page.rows())

    def _held_with(self, message_id: str) -> Steps[list[Received[Any]]]:
        """The messages that were claimed together with this one, and are still leased."""
        keys = self.queue._core.keys
        page: Page = yield page_calls.browse(keys, ids=[message_id])
        marks = [row.state.split()[1] for row in page.rows()]
        if not marks or not marks[0].startswith(b"+"):
            return []  # the worker was so slow that its lease is over
        held = yield from batches.read_claim(keys, marks[0][1:].decode(), 0, PAGE)
        return self._messages(held.rows())

    def _messages(self, rows: Iterable[Row]) -> list[Received[Any]]:
        return [Received(row, self.queue._core.codec, self.queue.name) for row in rows]

    # Called by the payment service, in its threads

    def _on_paid(self, payment: str, payer: int) -> None:
        self.waits.extend(self.queue._run(self._wait_of(payment)))
        with self._killing:
            if self._doomed and (held := self.queue._run(self._held_with(payment))):
                self._doomed = False
                self._held = {message.id: message.delivery_count for message in held}
                self._killed_at = time.monotonic()
                self.crew.kill(payer)
                self.rescued = dict.fromkeys(self._held)

    def _wait_of(self, message_id: str) -> Steps[list[float]]:
        """Seconds since the message was due, by the server's clock. The message is still leased."""
        work = self.queue._core
        page, (now, _) = yield Batch(
            [page_calls.browse(work.keys, ids=[message_id]), queue_calls.stats(work.keys, work.name)]
        )
        return [
            (moment(now) - due_at(message)).total_seconds()
            for message in self._messages(page.rows())
            if not message.redriven
        ]


def due_at(message: Received[Any]) -> datetime:
    """When the message was sent, or was to be redelivered."""
    if not message.history:
        return message.enqueued_at
    last = message.history[-1]
    return last.at + timedelta(seconds=last.delay)
