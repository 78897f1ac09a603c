"""Databases for the outbox: SQLite's file, and Debian's PostgreSQL, each with blocking and async engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session

from rq_dlq import QueueFull
from rq_dlq.outbox import Outbox
from rq_dlq.outbox.relay import Relay
from rq_dlq.outbox.sqlalchemy import METADATA, ROWS, SQLAlchemyLedger

ASYNC = {"sqlite": "sqlite+aiosqlite", "postgresql+psycopg": "postgresql+psycopg"}


@dataclass
class Database:
    """A database with the tables of the outbox, empty."""

    url: str
    engines: list[Engine] = field(default_factory=list[Engine])

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    def engine(self) -> Engine:
        engine = create_engine(self.url)
        if not self.is_postgres:
            event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA synchronous=OFF"))
        self.engines.append(engine)
        return engine

    def async_engine(self) -> AsyncEngine:
        kind, _, rest = self.url.partition("://")
        return create_async_engine(f"{ASYNC[kind]}://{rest}")

    def empty(self) -> None:
        engine = self.engine()
        METADATA.drop_all(engine)
        METADATA.create_all(engine)

    def drop(self) -> None:
        """Without the tables, and without what Django has noted of its own."""
        with self.engine().begin() as connection:
            METADATA.drop_all(connection)
            connection.execute(text("DROP TABLE IF EXISTS django_migrations"))

    def rows(self) -> list[str]:
        """The ids in the outbox, in order."""
        with self.engine().begin() as connection:
            return [*connection.scalars(select(ROWS.c.id).order_by(ROWS.c.number))]

    def close(self) -> None:
        for engine in self.engines:
            engine.dispose()


def write(outbox: Outbox, engine: Engine, queue: Any, bodies: Iterable[Any], **options: Any) -> None:
    """Rows of one transaction; the id of each is its body."""
    with Session(engine) as session, session.begin():
        for body in bodies:
            outbox.send(session, queue, body, id=str(body), **options)


def relayed(outbox: Outbox, **options: Any) -> Relay:
    """A relay that has emptied the outbox."""
    relay = Relay(outbox, burst=True, period="10ms", **options)
    relay.run()
    return relay


def taken(queue: Any) -> list[Any]:
    """The bodies of all ready messages, in order; they are done then, and the queue knows none any more."""
    bodies: list[Any] = []
    while deliveries := queue.claim(1_000):
        bodies += [delivery.body for delivery in deliveries]
        queue.ack(deliveries)
    return bodies


def an_hour_passes(raw: Any) -> None:
    """Whatever expires within that time is gone."""
    for key in raw.keys("*"):
        if 0 < raw.pttl(key) <= 3_600_000:
            raw.delete(key)


class Unlocked(Outbox):
    """Its relay takes no lock, as if the database had none."""

    def with_ledger(self, work: Any) -> None:
        def unlocked(ledger: Any) -> None:
            ledger.lock = lambda: True
            work(ledger)

        super().with_ledger(unlocked)


class Killed(BaseException):
    """The process ends here, and nothing that it would do later happens."""


@dataclass
class Life:
    """Counts the steps of a relay, and kills it at one of them.

    Attributes:
        kill_at: the step, 0 is the first; None: none.
        lost: whether a killed call has reached its server, whose reply the relay never read.
    """

    kill_at: int | None = None
    lost: bool = False
    step: int = 0

    def do(self, act: Callable[[], Any]) -> Any:
        mine, self.step = self.step, self.step + 1
        if mine != self.kill_at:
            return act()
        if self.lost:
            with suppress(QueueFull):  # its reply is lost as well
                act()
        raise Killed


class MortalLedger(SQLAlchemyLedger):
    """Each of its transactions is a step."""

    def __init__(self, connection: Connection, name: str, life: Life) -> None:
        super().__init__(connection, name)
        self._life = life

    def read(self) -> Any:
        return self._life.do(super().read)

    def advance(self, *args: Any) -> Any:
        return self._life.do(lambda: super(MortalLedger, self).advance(*args))

    def load(self, call: Any) -> Any:
        return self._life.do(lambda: super(MortalLedger, self).load(call))


class MortalOutbox(Outbox):
    """An outbox whose relay dies at a step: at one of the database, or of Redis."""

    life: Life

    def with_ledger(self, work: Any) -> None:
        assert isinstance(self._engine, Engine)
        with self._engine.connect() as connection:
            try:
                work(MortalLedger(connection, self.name, self.life))
            finally:
                connection.invalidate()


class MortalConnections:
    """Each call of Redis is a step."""

    def __init__(self, real: Any, life: Life) -> None:
        self._real, self._life = real, life

    def run(self, steps: Any) -> Any:
        return self._life.do(lambda: self._real.run(steps))


def run_mortal(outbox: MortalOutbox, life: Life) -> bool:
    """Run a relay with this life; whether it came to its end."""
    outbox.life = life
    relay: Any = Relay(outbox, burst=True, period="10ms")
    serve = relay._serve
    relay._serve = lambda ledger, connections: serve(ledger, MortalConnections(connections, life))
    try:
        relay.run()
    except Killed:
        return False
    return True
