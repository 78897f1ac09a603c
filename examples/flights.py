"""Pays the passengers of delayed flights. `rq-dlq demo` runs it while everything goes wrong that can."""

# By hand:
#   rq-dlq send flights examples/flights.csv --csv
#   rq-dlq worker examples.flights:broker

import os
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection

import msgspec

from rq_dlq import Broker, Delivery, Poison, RedeliveryPolicy

LATE = 15  # minutes
LEASE = 3.0  # seconds after which a dead worker is noticed


class Flight(msgspec.Struct, frozen=True):
    month: int
    day: int
    carrier: str
    flight: int
    origin: str
    dest: str
    dep_time: int | None  # None: it was cancelled
    dep_delay: int | None  # minutes

    @property
    def owed(self) -> int:
        """A dollar per minute, if it was late."""
        return self.dep_delay if self.dep_delay and self.dep_delay >= LATE else 0


class PaymentError(Exception):
    """The payment service did not pay."""


broker = Broker()
flights = broker.queue(
    "flights",
    type=Flight,
    lease=LEASE,
    # Impatient, for a demo: the default waits from a second to ten minutes, twelve times.
    redelivery=RedeliveryPolicy(initial_delay="300ms", max_delay="1s", max_redeliveries=3),
)


@flights.handler(concurrency=4, timeout="10s")
def compensate(flight: Flight, delivery: Delivery[Flight]) -> None:
    if flight.dep_time is None:
        raise Poison("cancelled: a flight that never left has no delay to pay for")
    if flight.owed:
        pay(delivery.id, flight.owed)


def pay(message_id: str, dollars: int) -> None:
    """Pay once per message id, even if it is requested twice."""
    address = os.environ.get("FLIGHTS_PAYMENTS")
    if not address:
        print(f"paid ${dollars} for {message_id}", flush=True)
        return
    with closing(HTTPConnection(address, timeout=5)) as service:
        payer = {"User-Agent": f"flights/{os.getpid()}"}
        service.request("PUT", f"/payments/{message_id}", body=str(dollars), headers=payer)
        answer = service.getresponse()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise PaymentError(f"{answer.status} {answer.reason}")
