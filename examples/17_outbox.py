"""An order and its message are committed together; a bill is booked once, although its worker is killed."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from rq_dlq import Broker, Delivery
from rq_dlq.outbox import Outbox, Relay
from rq_dlq.worker import Worker

KILLED = "killed"  # a file: the worker was killed once
PLACE = Path(os.environ.setdefault("EXAMPLE_PLACE", tempfile.mkdtemp()))

broker = Broker()
bills = broker.queue("example-bills", lease="1s")
engine = create_engine(f"sqlite:///{PLACE}/shop.db")
outbox = Outbox(broker, engine)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[float]


class Booking(Base):
    __tablename__ = "bookings"
    message: Mapped[str] = mapped_column(primary_key=True)  # its id: a second booking of it is refused
    order: Mapped[int] = mapped_column(ForeignKey(Order.id))


def place(number: int, total: float) -> None:
    """The order and its message, or neither."""
    with Session(engine) as session, session.begin():
        session.add(Order(id=number, total=total))
        outbox.send(session, bills, {"order": number})
        if total < 0:
            raise ValueError(f"order {number} costs less than nothing")


@bills.handler
def book(bill: dict[str, int], delivery: Delivery[dict[str, int]]) -> None:
    with Session(engine) as session, session.begin():  # a session of this call, closed at its end
        if session.get(Booking, delivery.id):
            print(f"order {bill['order']} is booked already", flush=True)
            return
        session.add(Booking(message=delivery.id, order=bill["order"]))
    if bill["order"] == 2 and not (PLACE / KILLED).exists():
        (PLACE / KILLED).touch()
        os.kill(os.getpid(), signal.SIGKILL)  # it is booked, and not yet acked


def main() -> None:
    Base.metadata.create_all(engine)
    outbox.metadata.create_all(engine)
    bills.purge(all=True)
    for number, total in (1, 9.5), (2, 20.0), (3, -1.0):
        try:
            place(number, total)
        except ValueError as error:
            print(f"rolled back: {error}")
    relay = Relay(outbox, burst=True)  # in production: rq-dlq outbox shop:outbox
    relay.run()
    print(f"{relay.sent} messages sent")

    while bills.stats().ready or bills.stats().leased or bills.stats().scheduled:
        ended = subprocess.run([sys.executable, __file__, "worker"], check=False)  # noqa: S603 - itself
        if ended.returncode == -signal.SIGKILL:
            print("the worker was killed between commit and ack")
    with Session(engine) as session:
        print(f"booked: {sorted(session.scalars(select(Booking.order)))}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    if sys.argv[1:] == ["worker"]:
        Worker(broker, until="drained").run()
    else:
        main()
