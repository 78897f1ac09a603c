"""A message is written in the caller's transaction, or refused there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import InvalidInput, Observer, PerKey, ResultUnavailable, Sending
from rq_dlq.errors import ConfigurationError, InvalidMessage, MessageTooLarge
from rq_dlq.outbox import Outbox
from rq_dlq.values.failure import moment
from tests.conftest import Clock
from tests.outbox.databases import Database, relayed, taken, write
from tests.tables import each_row


def test_a_message_follows_its_transaction(sync_broker: rq_dlq.Broker, database: Database) -> None:
    engine, queue = database.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    with Session(engine) as session:
        sent = outbox.send(session, queue, 1, id="one")
        assert (sent, sent.new, sent.birth) == ("one", None, None)
        session.commit()
        outbox.send(session, queue, 2)
        session.rollback()
        outbox.send(session, queue, 3)
        inner = session.begin_nested()
        outbox.send(session, queue, 4)
        inner.rollback()
        session.commit()
    with engine.begin() as connection:
        outbox.send(connection, queue, 5)
    assert queue.stats().totals == {}, "nothing is sent before the relay"
    assert relayed(outbox).sent == 3
    assert (taken(queue), database.rows()) == ([1, 3, 5], [])


def test_a_queue_that_keeps_results_keeps_those_of_its_first_messages(
    sync_broker: rq_dlq.Broker, sqlite: Database
) -> None:
    """Only the program that writes has declared it; its relay has not, and may come before any worker."""
    engine, queue = sqlite.engine(), sync_broker.queue("a", results="1h")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, [1])
    relayed(outbox)
    queue.claim()[0].ack(result="done")
    assert queue.result("1") == "done"


def test_what_asks_for_its_result_gets_it(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    kept = sync_broker.queue("kept", results="1h")
    outbox = Outbox(sync_broker, engine)

    @sync_broker.task(queue=kept)
    def add(a: int, b: int) -> int:
        return a + b

    with engine.begin() as connection:
        asks = outbox.send(connection, queue, 1, result=True)
        calls = outbox.send(connection, add, (1, 2))
        plain = outbox.send(connection, queue, 2)
    assert (asks.new, calls.new) == (None, None)
    with pytest.raises(ResultUnavailable):
        asks.result()
    relayed(outbox)
    for delivery in queue.claim(2):
        delivery.ack(result="done" if delivery.id == asks else None)
    kept.claim()[0].ack(result=3)
    assert (asks.result(), calls.result()) == ("done", 3)
    with pytest.raises(InvalidInput, match="was sent without result=True"):
        plain.result()


async def test_an_awaiting_broker_awaits_the_result(
    async_broker: rq_dlq.asyncio.Broker, sqlite: Database
) -> None:
    engine, queue = sqlite.engine(), async_broker.queue("a")
    outbox = Outbox(async_broker, engine)
    with engine.begin() as connection:
        sent = outbox.send(connection, queue, 1, result=True)
    with pytest.raises(ResultUnavailable):
        await sent.result()


async def test_an_async_session_writes_without_await(sync_broker: rq_dlq.Broker, database: Database) -> None:
    engine, queue = database.async_engine(), sync_broker.queue("a")
    async with AsyncSession(engine) as session, session.begin():
        for number in range(300):
            Outbox(sync_broker).send(session, queue, number)
    await engine.dispose()
    relayed(Outbox(sync_broker, database.engine()))
    assert taken(queue) == [*range(300)]


def test_a_relay_runs_on_an_async_engine(sync_broker: rq_dlq.Broker, database: Database) -> None:
    queue = sync_broker.queue("a")
    outbox = Outbox(sync_broker, database.async_engine())
    write(outbox, database.engine(), queue, range(3))
    assert relayed(outbox).sent == 3
    assert taken(queue) == [0, 1, 2]


@pytest.mark.parametrize("backend", ["real"])
async def test_an_async_broker_has_an_outbox(
    async_broker: rq_dlq.asyncio.Broker, sync_broker: rq_dlq.Broker, sqlite: Database
) -> None:
    outbox = Outbox(async_broker, sqlite.engine())
    write(outbox, sqlite.engine(), async_broker.queue("a"), range(3))
    assert relayed(outbox).sent == 3
    assert taken(sync_broker.queue("a")) == [0, 1, 2]


def test_options_arrive(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    engine, queue = sqlite.engine(), sync_broker.queue("a", per_key=PerKey(order=True))
    outbox = Outbox(sync_broker, engine)
    how: Any = {"headers": {"tenant": "a"}, "priority": 7, "key": "k", "dependency": "d", "result": True}
    write(outbox, engine, queue, [1], **how)
    write(outbox, engine, queue, [2], delay="1h")
    write(outbox, engine, queue, [3], ttl="1h")
    relayed(outbox)
    (first, last) = queue.claim(3)
    assert (first.headers, first.priority, first.key, first.dependency) == ({"tenant": "a"}, 7, "k", "d")
    assert (first.expires_at, last.body, last.expires_at is None) == (None, 3, False)
    assert queue.stats().scheduled == 1
    first.ack(result="done")
    assert queue.result("1") == "done"


def test_times_arrive_and_what_has_expired_by_then_expires_at_once(
    sync_broker: rq_dlq.Broker, sqlite: Database, clock: Clock
) -> None:
    """It was accepted, so it holds up nothing behind it."""
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox, now = Outbox(sync_broker, engine), moment(clock.now)
    write(outbox, engine, queue, [1], at=now + timedelta(hours=2), expires_at=now + timedelta(hours=3))
    write(outbox, engine, queue, [2], expires_at=now + timedelta(minutes=1))
    write(outbox, engine, queue, [3])
    clock.advance("1h")
    assert relayed(outbox).sent == 3
    assert taken(queue) == [3]
    clock.advance("1m")
    assert queue.claim() == []
    assert (queue.stats().scheduled, queue.stats().expired) == (1, 1)
    clock.advance("59m")
    (late,) = queue.claim()
    assert (late.body, late.expires_at) == (1, now + timedelta(hours=3))


def test_a_task_is_sent_with_its_arguments(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    engine = sqlite.engine()
    outbox = Outbox(sync_broker, engine)

    @sync_broker.task
    def welcome(user: int, lang: str = "en") -> None:
        raise NotImplementedError

    with Session(engine) as session, session.begin():
        outbox.send(session, welcome, (7,))
        outbox.send(session, welcome.options(id="w"), {"user": 8, "lang": "de"})
        with pytest.raises(InvalidMessage, match="do not fit welcome"):
            outbox.send(session, welcome, ("seven",))
        with pytest.raises(InvalidInput, match="a task has its own options"):
            outbox.send(session, welcome, (7,), delay="1h")
        with pytest.raises(InvalidInput, match="leave out on_duplicate"):
            outbox.send(session, welcome.options(on_duplicate="raise"), (7,))
    assert relayed(outbox).sent == 2
    assert taken(sync_broker.queue("welcome")) == [{"user": 7}, {"user": 8, "lang": "de"}]


@each_row(
    "body, options, refused",
    [
        (object(), {}, (InvalidMessage, "cannot be encoded")),
        ("x" * 2_000_000, {}, (MessageTooLarge, "over the limit")),
        (1, {"priority": 10}, (InvalidMessage, "priority 10")),
        (1, {"delay": "soon"}, (InvalidInput, "soon")),
        (1, {"ttl": 0}, (InvalidInput, "ttl")),
        (1, {"id": ""}, (InvalidMessage, "id")),
        (1, {"headers": {1: 2}}, (InvalidMessage, "header")),
        (1, {"key": "k" * 201}, (InvalidMessage, "key")),
        (1, {"persistent": "no"}, (InvalidInput, "persistent")),
        (1, {"new": True}, (InvalidInput, "no option new")),
        (1, {"prioritty": 1}, (InvalidInput, "no option prioritty")),
    ],
)
def test_what_a_send_refuses_is_refused_in_the_transaction(
    body: Any,
    options: Any,
    refused: tuple[type[Exception], str],
    sync_broker: rq_dlq.Broker,
    sqlite: Database,
) -> None:
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    error, words = refused
    with Session(engine) as session, session.begin(), pytest.raises(error, match=words):
        Outbox(sync_broker).send(session, queue, body, **options)
    assert sqlite.rows() == []


def test_the_type_of_the_queue_counts(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    with Session(sqlite.engine()) as session, pytest.raises(InvalidMessage, match="int"):
        Outbox(sync_broker).send(session, sync_broker.queue("a", type=int), "one")


def test_wrong_arguments_are_named(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    outbox, queue = Outbox(sync_broker), sync_broker.queue("a")
    other = rq_dlq.Broker("redis://elsewhere")
    with Session(sqlite.engine()) as session:
        for target in "a", other.queue("a"):
            with pytest.raises(InvalidInput, match="is not a queue of"):
                outbox.send(session, target, 1)
        with pytest.raises(InvalidInput, match="it has only messages that failed"):
            outbox.send(session, sync_broker.queue("DLQ.a"), 1)
    with pytest.raises(InvalidInput, match="pass a Session"):
        outbox.send(object(), queue, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not a broker"):
        Outbox("redis://")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not an engine"):
        Outbox(sync_broker, "sqlite://")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the relay needs an engine"):
        relayed(outbox)


def test_observers_see_the_send_and_add_their_headers(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    seen: list[Any] = []

    class Trace(Observer):
        @contextmanager
        def sending(self, sending: Sending) -> Generator[None]:
            sending.carried["trace"] = "7f"
            yield
            seen.append((sending.queue, sending.id, sending.staged, sending.count))

    sync_broker.observe(Trace())
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, [1])
    relayed(outbox)
    (delivery,) = queue.claim()
    assert (delivery.headers, seen) == ({"trace": "7f"}, [("a", "1", True, 1)])


def test_two_outboxes_of_a_database_are_apart(sync_broker: rq_dlq.Broker, sqlite: Database) -> None:
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    shop, mail = (Outbox(sync_broker, engine, name=name) for name in ("shop", "mail"))
    write(shop, engine, queue, [1])
    write(mail, engine, queue, [2])
    assert relayed(mail).sent == 1
    assert (taken(queue), sqlite.rows()) == ([2], ["1"])
    assert relayed(shop).sent == 1
