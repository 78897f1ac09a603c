"""The parts of the demo: the queue, the workers, the payment service, and the stopwatches."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rq_dlq import Broker
from rq_dlq._calls import claims, scans, upkeep
from rq_dlq._work import Batch
from rq_dlq.cli._server import remove
from rq_dlq.cli.demo.crew import Crew, Member
from rq_dlq.cli.demo.payments import Payments
from rq_dlq.values.failure import moment
from rq_dlq.values.message import Received

if TYPE_CHECKING:
    from typing import Self

    from rq_dlq._calls.scans import Page
    from rq_dlq._work import Steps
    from rq_dlq.cli.demo.app import App
    from rq_dlq.values.counts import QueueStats

WORKERS = 4
PAGE = 250  # messages read at once


class Stage:
    """Sets everything up on entering, and removes it on leaving.

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
        self.queue = app.queue(self.broker)
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
        self.victim: Member | None = None
        self._doomed = threading.Event()
        self._killed_at = 0.0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self._stack.close)
            self._stack.callback(self.broker.close)
            self._stack.callback(self._clean)
            self._stack.enter_context(self.payments)
            self._stack.enter_context(self.crew)
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _clean(self) -> None:
        remove(self.broker, self.queue.name)

    # Called by the play

    def send_until(self, number: int) -> None:
        """Send flights until `number` are sent."""
        self.sent += self.queue.send_many(self.flights[len(self.sent) : number])

    def stats(self) -> QueueStats:
        """The counts of the queue."""
        return self.queue.stats()

    def kill_on_payment(self, number: int) -> None:
        """Kill this worker at its next payment, when the payment is made and not yet answered."""
        self.victim = self.crew.members[number - 1]
        self._doomed.set()

    @property
    def since_kill(self) -> float:
        """Seconds since the worker was killed."""
        return time.monotonic() - self._killed_at

    def watch_rescue(self) -> None:
        """Note which of the killed worker's messages were redelivered since."""
        open_ids = [message_id for message_id, seconds in self.rescued.items() if seconds is None]
        if open_ids:
            messages = self.queue._run(self._look(open_ids))
            since = self.since_kill
            waiting = {m.id for m in messages if m.delivery_count == self._held[m.id]}
            self.rescued |= dict.fromkeys(set(open_ids) - waiting, since)

    def _look(self, ids: list[str]) -> Steps[list[Received[Any]]]:
        work = self.queue._core
        page: Page = yield scans.browse(work.keys, ids=ids)
        return [Received(row, work.codec, work.name) for row in page.rows()]

    def _held_with(self, message_id: str) -> Steps[list[Received[Any]]]:
        """The messages that were claimed together with this one, and are still leased."""
        work = self.queue._core
        page: Page = yield scans.browse(work.keys, ids=[message_id])
        (row,) = page.rows()
        token = row.state.split()[1][1:].decode()
        rows = yield claims.read_claim(work.keys, token, first=0, limit=PAGE)
        return [Received(row, work.codec, work.name) for row in rows]

    # Called by the payment service, in its threads

    def _on_paid(self, payment: str, payer: int) -> None:
        self.waits.extend(self.queue._run(self._wait_of(payment)))
        if self._doomed.is_set() and self.victim is not None and payer == self.victim.pid:
            self._doomed.clear()
            self._held = {m.id: m.delivery_count for m in self.queue._run(self._held_with(payment))}
            self._killed_at = time.monotonic()
            self.crew.kill(self.victim)
            self.rescued = dict.fromkeys(self._held)

    def _wait_of(self, message_id: str) -> Steps[list[float]]:
        """Seconds since the message was due, by the server's clock. The message is still leased."""
        work = self.queue._core
        page, (now, _) = yield Batch(
            [scans.browse(work.keys, ids=[message_id]), upkeep.stats(work.keys, work.name)]
        )
        messages = [Received(row, work.codec, work.name) for row in page.rows()]
        return [
            (moment(now) - due_at(message)).total_seconds() for message in messages if not message.redriven
        ]


def due_at(message: Received[Any]) -> datetime:
    """When the message was sent, or was to be redelivered."""
    if not message.history:
        return message.enqueued_at
    last = message.history[-1]
    return last.at + timedelta(seconds=last.delay)
