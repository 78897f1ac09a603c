"""The parts: the flights, the queue, the workers, the payment service, and the stopwatches."""

import csv
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rq_dlq import Breaker, Message

from .. import flights as app
from .payments import Payments
from .workers import Workers

WORKERS = 4
DEPENDENCY = "payments"
FILE = Path(app.__file__).with_name("flights.csv")


def read_flights(rows: int | None) -> list[app.Flight]:
    """The flights of the file, or a number of them, evenly spread."""
    with FILE.open(newline="") as file:
        found = [{key: cell or None for key, cell in row.items()} for row in csv.DictReader(file)]
    rows = min(rows or len(found), len(found))
    chosen = [found[i * len(found) // rows] for i in range(rows)]
    return msgspec.convert(chosen, list[app.Flight], strict=False)


class Stage:
    """The parts, and the times of the stopwatches.

    Attributes:
        sent: the number of flights that were sent.
        waits: seconds from when a message was due (sent, or to be redelivered) until it was paid, except for
            redriven messages and those that waited for the service, which come back all at once.
        held: ids of the messages that the killed worker holds, and how often each had been delivered by then.
        rescued: seconds from the kill to the redelivery, of each message that it held.
    """

    def __init__(self, rows: int | None) -> None:
        self.flights = read_flights(rows)
        self.queue = app.flights
        self.payments = Payments(self._on_paid)
        self.workers = Workers(WORKERS, self.payments.address)
        self.sent = 0
        self._needs: str | None = None  # the dependency of flights that are paid for
        self.waits: list[float] = []
        self.held: dict[str, int] = {}
        self.rescued: list[float] = []
        # The server's clock, by ours.
        self._ahead = app.broker.overview().at.timestamp() - time.monotonic()
        self._killing = threading.Lock()
        self._doomed = False  # the worker that pays next is killed
        self._killed_at = 0.0
        self._lapsed = 0  # leases that ended before the kill, as on a very busy machine

    @contextmanager
    def up(self) -> Generator[None]:
        """Set everything up, and end it on leaving."""
        with self.payments.open(), self.workers.at_work():
            yield

    # Called by the play

    def send_until(self, number: int) -> None:
        """Send flights until this many are sent."""
        flights = self.flights[self.sent : number]
        messages = [Message(one, dependency=self._needs if one.owed else None) for one in flights]
        self.sent += len(self.queue.send_many(messages))

    def guard(self, distinct: int) -> None:
        """Give the queue a breaker; from now on flights name the service that paying for them needs.

        Args:
            distinct: flights that fail until it opens.
        """
        breaker = Breaker(distinct=distinct, probe="300ms", longest_probe="1s")
        app.broker.policies.set(self.queue.name, breaker=breaker)
        self._needs = DEPENDENCY

    def kill_next_payer(self) -> None:
        """Kill the worker that pays next, when the payment is made and not yet answered."""
        self._doomed = True

    def watch_rescue(self) -> None:
        """Note which of the killed worker's messages were redelivered since.

        Other workers held some at that time. They have settled theirs before a lease can end.
        """
        if held := self.held:
            live = self.queue.select(ids=[*held], places=["ready", "scheduled", "leased"]).browse()
            counts = {message.id: message.delivery_count for message in live}
            since = time.monotonic() - self._killed_at
            self.held = {one: count for one, count in held.items() if counts.get(one) == count}
            if self.queue.stats().totals.get("lapsed", 0) > self._lapsed:
                self.rescued += [since] * (len(held) - len(self.held))

    # Called by the payment service, in its threads

    def _on_paid(self, payment: str, payer: int) -> None:
        leased = self.queue.select(ids=[payment], places=["leased"]).browse()
        now = time.monotonic() + self._ahead
        alone = (one for one in leased if not (one.redriven or one.dependency))
        self.waits += [now - message.due / 1000 for message in alone]
        with self._killing:
            if self._doomed and leased:  # otherwise the worker was so slow that its lease has ended
                self._doomed = False
                self._lapsed = self.queue.stats().totals.get("lapsed", 0)
                self._killed_at = time.monotonic()
                self.workers.kill(payer)
                held = self.queue.select(places=["leased"]).browse()
                self.held = {message.id: message.delivery_count for message in held}
