"""The outbox for SQLAlchemy, blocking and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import registry

from rq_dlq.client.base import BrokerBase
from rq_dlq.errors import ConfigurationError, InvalidInput
from rq_dlq.outbox.ledger import AT_ONCE, DatabaseUnavailable, Ledger
from rq_dlq.outbox.noted import RelayCalls, UnnotedRow
from rq_dlq.outbox.row import OutboxSendOptions, row_of
from rq_dlq.values.durations import shown
from rq_dlq.values.names import check_name

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    from rq_dlq.values.sent import Sent

METADATA: Final = MetaData()
ROWS: Final = Table(
    "rq_dlq_outbox",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("outbox", String(200), nullable=False),
    Column("queue", String(200), nullable=False),
    Column("id", String(200), nullable=False),
    Column("payload", LargeBinary(2**32 - 1), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("delay", BigInteger, nullable=False),
    Column("ttl", BigInteger, nullable=False),
    Column("written_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    sqlite_autoincrement=True,
)
RELAYS: Final = Table(
    "rq_dlq_outbox_relays",
    METADATA,
    Column("outbox", String(200), primary_key=True),
    Column("sender", String(64), nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("calls", Text, nullable=False),
)


class _PayloadRow:
    """A row, as a session adds it."""

    def __init__(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


registry(metadata=METADATA).map_imperatively(_PayloadRow, ROWS, eager_defaults=False)


class Outbox:
    """Messages that are written in the transaction of the program, and sent by a relay after its commit.

    So a message is sent if, and only if, the transaction is committed. `rq-dlq outbox MODULE:OUTBOX` is the
    relay.

    Args:
        broker: the broker of the queues, blocking or async.
        engine: for the relay: an engine or an async engine. None: this program only writes.
        name: the relay of this name sends the rows that were written under it. Two outboxes of one database,
            such as those of two services, need two names.

    Attributes:
        metadata: the tables `rq_dlq_outbox` and `rq_dlq_outbox_relays`: for `metadata.create_all(engine)`, or
            for Alembic's `target_metadata`.

    Raises:
        ConfigurationError: `broker` or `engine` is something else.
        InvalidName: the name is not valid.

    Examples:
        >>> from sqlalchemy import create_engine
        >>> from sqlalchemy.orm import Session
        >>> engine = create_engine("sqlite://")
        >>> outbox = Outbox(broker, engine)
        >>> outbox.metadata.create_all(engine)
        >>> with Session(engine) as session, session.begin():
        ...     sent = outbox.send(session, orders, {"total": 9.5}, id="order-42")
        >>> sent, sent.new
        ('order-42', None)
    """

    metadata: MetaData = METADATA

    def __init__(
        self, broker: BrokerBase, engine: Engine | AsyncEngine | None = None, *, name: str = "outbox"
    ) -> None:
        given: object = broker
        if not isinstance(given, BrokerBase):
            raise ConfigurationError(f"{shown(given)} is not a broker: pass Outbox(broker, engine)")
        if engine is not None and not isinstance(engine, Engine | AsyncEngine):
            raise ConfigurationError(f"{shown(engine)} is not an engine of SQLAlchemy")
        check_name(name)
        self.broker = broker
        self.name = name
        self._engine = engine

    def send(
        self,
        session: Session | AsyncSession | Connection,
        queue: Any,
        body: Any,
        **options: Unpack[OutboxSendOptions],
    ) -> Sent:
        """Write a message to the outbox, in the transaction of the session. Without `await` in both colours.

        Whatever `Queue.send` refuses is refused here, and nothing is written.

        Args:
            session: a `Session`, an `AsyncSession` or a `Connection`.
            queue: a queue of the broker; or a task, whose options are those of `task.options(…)`.
            body: the body, of the queue's type; of a task the arguments: a tuple or a mapping.
            options: id, delay, ttl, priority, headers, persistent, key, dependency, result, at and
                expires_at, as in `Queue.send`. Delay and ttl count from the moment at which the relay sends
                the message. One that has expired by then is sent, and expires at once.

        Returns:
            The id that the message will have; its `new` is None. With `result=True` it has `result`, as after
            `Queue.send`.

        Raises:
            InvalidInput: an argument is not valid, or the body cannot be encoded; nothing was written.

        Examples:
            >>> from sqlalchemy import create_engine
            >>> engine = create_engine("sqlite://")
            >>> outbox = Outbox(broker, engine)
            >>> outbox.metadata.create_all(engine)
            >>> with engine.begin() as connection:
            ...     outbox.send(connection, mails, {"to": "anna"}, id="mail-2", delay="10m")
            'mail-2'
        """
        row, sent = row_of(self.broker, queue, body, options)
        values = {**asdict(row), "outbox": self.name, "size": len(row.payload)}
        add: Any = getattr(session, "add", None)
        if isinstance(session, Connection):
            session.execute(insert(ROWS).values(values))
        elif add is not None:
            add(_PayloadRow(values))
        else:
            raise InvalidInput(f"{shown(session)}: pass a Session, an AsyncSession or a Connection")
        return sent

    def with_ledger(self, work: Callable[[Ledger], Any]) -> None:
        """For the relay: connect to the database, and do this."""

        def on(connection: Connection) -> None:
            try:
                work(SQLAlchemyLedger(connection, self.name))
            finally:
                connection.invalidate()  # closes it, and its lock ends with it

        if self._engine is None:
            raise ConfigurationError("the relay needs an engine: Outbox(broker, engine)")
        try:
            if isinstance(self._engine, AsyncEngine):
                asyncio.run(_awaiting(self._engine, on))
            else:
                with self._engine.connect() as connection:
                    on(connection)
        except (DBAPIError, OSError) as error:  # a driver may raise the second
            raise DatabaseUnavailable(str(getattr(error, "orig", error)).strip()) from error


async def _awaiting(engine: AsyncEngine, on: Callable[[Connection], None]) -> None:
    """Run the relay in a loop of its own: nothing else waits for that."""
    try:
        async with engine.connect() as connection:
            await connection.run_sync(on)
    finally:
        await engine.dispose()  # its connections belong to this loop


class SQLAlchemyLedger(Ledger):
    """The tables of an outbox, by one connection."""

    taken = IntegrityError

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._relay = RELAYS.c.outbox == name
        url, postgres = connection.engine.url, connection.dialect.name == "postgresql"

        def ask(sql: str) -> Any:
            return connection.scalar(text(sql))

        address = url.host, url.port, url.database
        super().__init__(name, connection.begin, ask if postgres else None, address)

    def _noted(self) -> tuple[str, int, str] | None:
        found = self._connection.execute(select(RELAYS).where(self._relay)).one_or_none()
        return None if found is None else (found.sender, found.last, found.calls)

    def _insert(self, values: dict[str, Any]) -> None:
        self._connection.execute(insert(RELAYS).values(values))

    def _note(self, seen: RelayCalls, values: dict[str, Any]) -> bool:
        is_seen = self._relay & (RELAYS.c.last == seen.last) & (RELAYS.c.calls == seen.text)
        return self._connection.execute(update(RELAYS).where(is_seen).values(values)).rowcount == 1

    def _waiting(self, held: set[str]) -> list[UnnotedRow]:
        columns = (ROWS.c.number, ROWS.c.queue, ROWS.c.delay, ROWS.c.ttl, ROWS.c.size)
        mine = (ROWS.c.outbox == self._name) & ROWS.c.queue.not_in(held)
        query = select(*columns).where(mine).order_by(ROWS.c.number).limit(AT_ONCE)
        return [UnnotedRow(*row) for row in self._connection.execute(query)]

    def _delete(self, rows: Sequence[int]) -> None:
        self._connection.execute(delete(ROWS).where(ROWS.c.number.in_(rows)))

    def _load(self, rows: Sequence[int]) -> list[tuple[str, bytes]]:
        query = select(ROWS.c.id, ROWS.c.payload).where(ROWS.c.number.in_(rows))
        return [(row.id, row.payload) for row in self._connection.execute(query.order_by(ROWS.c.number))]

    def _counted(self) -> tuple[int, datetime | None, datetime]:
        query = select(func.count(), func.min(ROWS.c.written_at), func.now())
        rows, first, now = self._connection.execute(query.where(ROWS.c.outbox == self._name)).one()
        return rows, first, now
