"""All that is at work in the demo: the queue, the crew, the payment service, and the stopwatches."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rq_dlq import Broker, _calls
from rq_dlq._work import Batch
from rq_dlq.cli._server import remove
from rq_dlq.cli.demo.crew import Crew, Member
from rq_dlq.cli.demo.payments import Payments
from rq_dlq.failure import moment
from rq_dlq.message import Received

if TYPE_CHECKING:
    from typing import Self

    from rq_dlq._work import Steps
    from rq_dlq.cli.demo.app import App
    from rq_dlq.message import QueueStats

WORKERS = 4
PAGE = 250  # messages that are looked at at once


class Stage:
    """Set up on entering, gone without a trace on leaving.

    Attributes:
        waits: seconds from when a message was due (sent, or to be redelivered) until it was paid; not of
            those that a redrive brought back all at once.
        rescued: ids of the killed worker's messages, with the seconds from its death to their redelivery;
            None: they wait for it.
    """

    def __init__(self, app: App, url: str, namespace: str, rows: int | None) -> None:
        self.flights = app.flights(rows)
        self.lease = timedelta(milliseconds=app.module.flights.work.lease).total_seconds()
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
        remove(self.broker.connections, self.broker.settings.namespace, self.queue.name)

    # What the play asks for

    def send_until(self, number: int) -> None:
        """Send flights until there are so many."""
        self.sent += self.queue.send_many(self.flights[len(self.sent) : number])

    def stats(self) -> QueueStats:
        """The counts of the queue."""
        return self.queue.stats()

    def kill_on_payment(self, number: int) -> None:
        """Kill this worker with its next payment, when the money has moved and it does not know it yet."""
        self.victim = self.crew.members[number - 1]
        self._doomed.set()

    @property
    def since_kill(self) -> float:
        """Seconds since the worker was killed."""
        return time.monotonic() - self._killed_at

    def watch_rescue(self) -> None:
        """See which of the killed worker's messages lapsed, and which of these were redelivered since."""
        open_ids = [message_id for message_id, seconds in self.rescued.items() if seconds is None]
        messages = self.queue.run(self._look(open_ids))
        since = self.since_kill
        waiting = {message.id for message in messages if self._awaits_rescue(message)}
        self.rescued |= dict.fromkeys(waiting)
        self.rescued |= dict.fromkeys(set(open_ids) - waiting, since)

    def _awaits_rescue(self, message: Received[Any]) -> bool:
        if not message.history or self.victim is None:
            return False
        last = message.history[-1]
        lapsed = last.event == "lapsed" and last.consumer.endswith(f":{self.victim.pid}")
        return lapsed and last.delivery == message.delivery_count

    def _look(self, ids: list[str]) -> Steps[list[Received[Any]]]:
        """What is scheduled, and these."""
        work = self.queue.work
        calls = [_calls.browse(work.keys, place="scheduled", limit=PAGE)]
        if ids:
            calls.append(_calls.browse(work.keys, ids=ids))
        pages = yield Batch(calls)
        return [Received(row, work.codec, work.name) for page in pages for row in page]

    # What the payment service calls, in its threads

    def _on_paid(self, payment: str, payer: int) -> None:
        self.waits.extend(self.queue.run(self._wait_of(payment)))
        if self._doomed.is_set() and self.victim is not None and payer == self.victim.pid:
            self._doomed.clear()
            self._killed_at = time.monotonic()
            self.crew.kill(self.victim)

    def _wait_of(self, message_id: str) -> Steps[list[float]]:
        """Seconds since the message was due, by the server's clock; it is leased still."""
        work = self.queue.work
        rows, (now, _) = yield Batch(
            [_calls.browse(work.keys, ids=[message_id]), _calls.stats(work.keys, work.name)]
        )
        messages = [Received(row, work.codec, work.name) for row in rows]
        return [
            (moment(now) - due_at(message)).total_seconds() for message in messages if not message.redriven
        ]


def due_at(message: Received[Any]) -> datetime:
    """When it was sent, or was to be redelivered."""
    if not message.history:
        return message.enqueued_at
    last = message.history[-1]
    return last.at + timedelta(seconds=last.delay)
