"""Each row is sent once and in order, wherever a relay is killed, however many there are."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, text, update
from sqlalchemy.orm import Session

from rq_dlq import Broker
from rq_dlq.core.looking.overview import Overview
from rq_dlq.core.processes.processes import outboxes
from rq_dlq.doctor.outboxes import _behind
from rq_dlq.doctor.outboxes import outboxes as doctor_outboxes
from rq_dlq.errors import BrokerUnavailable, ConfigurationError
from rq_dlq.outbox import Outbox
from rq_dlq.outbox.ledger import DatabaseUnavailable, Ledger
from rq_dlq.outbox.noted import CLUSTER, NotedCall, RelayCalls, UnnotedRow
from rq_dlq.outbox.relay import Relay
from rq_dlq.outbox.sqlalchemy import METADATA, RELAYS, ROWS, SQLAlchemyLedger
from rq_dlq.telemetry._queues import MetricsReading, families
from rq_dlq.values.failure import moment
from rq_dlq.values.process import OutboxReport, ProcessReport
from tests.conftest import Clock
from tests.outbox.databases import (
    Database,
    Life,
    MortalOutbox,
    Unlocked,
    an_hour_passes,
    relayed,
    run_mortal,
    taken,
    write,
)
from tests.servers import wait_until
from tests.tables import each_row

EXPECTED = {"a": [0, 1, 3], "b": [2, 4]}


def rows_for(outbox: Outbox, engine: Any, broker: Broker, since: int = 0) -> None:
    """Five rows for two queues, in the order of EXPECTED; the first body is `since`."""
    for body in range(5):
        queue = broker.queue("a" if body in EXPECTED["a"] else "b")
        write(outbox, engine, queue, [since + body], delay=None)


def all_taken(broker: Broker) -> dict[str, list[int]]:
    return {name: taken(broker.queue(name)) for name in EXPECTED}


@pytest.mark.parametrize("lost", [False, True], ids=["before", "after"])
def test_a_relay_killed_at_any_step_sends_each_row_once(
    lost: bool, sync_broker: Broker, sqlite: Database, raw: Any
) -> None:
    """Consumers are done with what came, and an hour passes, before the next relay starts."""
    engine = sqlite.engine()
    outbox = MortalOutbox(sync_broker, engine)
    steps = 0
    while True:
        rows_for(outbox, engine, sync_broker)
        if run_mortal(outbox, Life(steps, lost)):
            break
        first = all_taken(sync_broker)
        an_hour_passes(raw)
        relayed(outbox)
        second = all_taken(sync_broker)
        assert {name: first[name] + second[name] for name in first} == EXPECTED, f"killed at step {steps}"
        assert sqlite.rows() == []
        steps += 1
    assert all_taken(sync_broker) == EXPECTED
    assert steps > 10, "it was killed at each of its steps"


def test_a_relay_that_is_killed_again_and_again_comes_to_an_end(
    sync_broker: Broker, sqlite: Database, raw: Any
) -> None:
    """Each life is one step longer than the last."""
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = MortalOutbox(sync_broker, engine)
    write(outbox, engine, queue, range(600))
    came: list[int] = []
    lives = 0
    while not run_mortal(outbox, Life(lives, lost=True)):
        lives += 1
        came += taken(queue)
        an_hour_passes(raw)
    assert came + taken(queue) == [*range(600)]
    assert lives > 8


def test_a_queue_with_a_limit_gets_its_rows_as_there_is_room(
    sync_broker: Broker, sqlite: Database, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are one call, which would never fit; its relay is killed at any step."""
    monkeypatch.setattr("rq_dlq.outbox.relay.RETRY_AFTER", 0.01)
    engine, queue = sqlite.engine(), sync_broker.queue("a", max_length=5)
    queue.open()
    outbox = MortalOutbox(sync_broker, engine)
    write(outbox, engine, queue, range(23))
    came: list[int] = []
    for life in range(60):
        ended = run_mortal(outbox, Life(3 + life % 8, lost=life % 2 > 0))
        assert queue.stats().ready <= 5
        came += taken(queue)
        an_hour_passes(raw)
        if ended:
            break
    assert came == [*range(23)]
    assert sqlite.rows() == []


def test_a_row_that_is_committed_late_is_sent(sync_broker: Broker, postgres: Database) -> None:
    """A lower number than rows that are gone: a relay that looked above the last one would never see it."""
    engine, queue = postgres.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    with Session(engine) as slow:
        outbox.send(slow, queue, "slow", id="slow")
        slow.flush()
        for turn in range(3):
            write(outbox, engine, queue, [turn])
            relayed(outbox)
        assert taken(queue) == [0, 1, 2]
        slow.commit()
    write(outbox, engine, queue, [3])
    assert relayed(outbox).sent == 2
    assert taken(queue) == ["slow", 3]
    assert postgres.rows() == []


class UnlockedMortal(Unlocked, MortalOutbox):
    """Both."""


def ledgers(database: Database, count: int) -> list[SQLAlchemyLedger]:
    return [SQLAlchemyLedger(database.engine().connect(), "outbox") for _ in range(count)]


def test_one_relay_is_at_work_the_other_stands_by(sync_broker: Broker, postgres: Database) -> None:
    first, second, mail = *ledgers(postgres, 2), SQLAlchemyLedger(postgres.engine().connect(), "mail")
    assert (first.lock(), second.lock(), mail.lock()) == (True, False, True)
    first._connection.invalidate()
    wait_until(second.lock)  # PostgreSQL notices the end of a connection by itself
    mail._connection.invalidate()

    engine, queue = postgres.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, [1])
    told: list[str] = []
    relay: Any = Relay(outbox, period="10ms")
    relay._sleep = lambda _: told.append("waits") if len(told) < 3 else relay.stop()
    relay.run()
    assert (told, relay.sent) == (["waits"] * 3, 0)
    second._connection.invalidate()
    assert relayed(outbox).sent == 1
    assert taken(queue) == [1]


@pytest.mark.parametrize("dies_at", [3, 5, 7, 8, None], ids=["noted", "one", "two", "deleted", "never"])
def test_two_relays_at_work_send_each_row_once(
    dies_at: int | None, sync_broker: Broker, database: Database
) -> None:
    """As on a database without locks: the second one acts between any two steps of the first, and may die.

    What it sent is done, but maybe not noted as sent, and more rows wait when the first goes on.
    """
    engine = database.engine()
    first, second = (UnlockedMortal(sync_broker, engine) for _ in range(2))
    came: dict[str, list[int]] = {}

    def take() -> None:
        for name, bodies in all_taken(sync_broker).items():
            came[name] = [*came.get(name, []), *bodies]

    class Joined(Life):
        def do(self, act: Callable[[], Any]) -> Any:
            if self.step == joins_at:
                self.step += 1
                run_mortal(second, Life(dies_at, lost=True))
                take()
                rows_for(first, engine, sync_broker, since=5)
            return super().do(act)

    for joins_at in range(9):
        came.clear()
        rows_for(first, engine, sync_broker)
        assert run_mortal(first, Joined())
        take()
        expected = {name: [*bodies, *(body + 5 for body in bodies)] for name, bodies in EXPECTED.items()}
        assert came == expected, f"the second one came at step {joins_at}"


def test_a_database_that_was_restored_loses_no_row(sync_broker: Broker, sqlite: Database) -> None:
    """It knows an earlier last call than Redis does, and what is new must not count as done."""
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, [1])
    relayed(outbox)
    with engine.begin() as connection:
        backup = connection.execute(select(RELAYS.c.last)).scalar_one()
    for number in 2, 3:
        write(outbox, engine, queue, [number])
        relayed(outbox)
    with engine.begin() as connection:
        connection.execute(update(RELAYS).values(last=backup))
    write(outbox, engine, queue, [4])
    relayed(outbox)
    assert taken(queue) == [1, 2, 3, 4]


@pytest.fixture
def copy(database: Database, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """Makes a copy of the outbox, in another database of the same server or directory."""
    other = Database(f"sqlite:///{tmp_path}/copy")
    if database.is_postgres:
        with database.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("DROP DATABASE IF EXISTS copy"))
            connection.execute(text("CREATE DATABASE copy"))
        other = Database(database.url.replace("@/postgres", "@/copy"))

    def copied() -> Engine:
        engine = other.engine()
        METADATA.create_all(engine)
        with database.engine().begin() as here, engine.begin() as there:
            for table in ROWS, RELAYS:
                for row in here.execute(select(table)).mappings():
                    there.execute(insert(table).values(dict(row)))
        return engine

    yield copied
    other.close()


def test_a_copy_with_a_relay_of_its_own_takes_no_row_away(
    sync_broker: Broker, database: Database, copy: Callable[[], Engine], clock: Clock
) -> None:
    """Its relay begins above the clock, so its numbers are above those of the one that has run for long."""
    engine, queue = database.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    relay: Any = Relay(outbox, period="10ms")
    turns: list[int] = []

    def sleep(_: float) -> None:
        turns.append(relay.sent)
        if len(turns) == 1:
            clock.advance(60_000)
            there = copy()
            other = Outbox(sync_broker, there)
            write(other, there, queue, ["of the copy"])
            assert relayed(other).sent == 1
            write(outbox, engine, queue, [2])
        if len(turns) == 3:
            relay.stop()

    relay._sleep = sleep
    write(outbox, engine, queue, [1])
    relay.run()
    assert taken(queue) == [1, "of the copy", 2]


def test_a_call_that_a_copy_has_noted_too_is_made_once(
    sync_broker: Broker, database: Database, copy: Callable[[], Engine], raw: Any
) -> None:
    engine = database.engine()
    outbox = UnlockedMortal(sync_broker, engine)
    rows_for(outbox, engine, sync_broker)
    assert not run_mortal(outbox, Life(4))
    there = copy()
    with there.begin() as connection:
        assert connection.scalar(select(RELAYS.c.calls)) != "[]"
    assert relayed(outbox).sent == 5
    assert all_taken(sync_broker) == EXPECTED
    an_hour_passes(raw)
    relayed(Outbox(sync_broker, there))
    assert all_taken(sync_broker) == {"a": [], "b": []}


def test_a_database_is_known_from_its_copy(database: Database, copy: Callable[[], Engine]) -> None:
    """By its URL, and PostgreSQL by itself, also to users who are not its administrators."""
    engines = [database.engine(), database.engine(), copy()]
    places = []
    for engine in engines:
        with engine.connect() as connection:
            places.append(SQLAlchemyLedger(connection, "outbox")._place)
    assert places[0] == places[1] != places[2]
    if database.is_postgres:
        clusters: list[str] = []
        for engine in engines:
            with engine.begin() as connection:
                connection.execute(text("SET LOCAL ROLE pg_read_all_data"))
                clusters.append(str(connection.scalar(text(CLUSTER))))
        assert clusters[0] == clusters[1] != clusters[2]
        assert re.fullmatch(r"\d+/\d+", clusters[0])


def test_a_queue_that_refuses_holds_up_no_other(
    sync_broker: Broker, sqlite: Database, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq.outbox")
    engine = sqlite.engine()
    outbox = Outbox(sync_broker, engine)
    rows_for(outbox, engine, sync_broker)
    raw.set("rq:{a}:messages", "of another program")
    relay: Any = Relay(outbox, period="10ms")
    turns: list[int] = []

    def sleep(_: float) -> None:
        turns.append(relay.sent)
        if len(turns) == 2:
            write(outbox, engine, sync_broker.queue("b"), [5])
            write(outbox, engine, sync_broker.queue("a"), [6])
        if len(turns) == 5:
            raw.delete("rq:{a}:messages")
        if len(turns) == 8:
            relay.stop()

    relay._sleep = sleep
    relay.run()
    assert taken(sync_broker.queue("b")) == [2, 4, 5]
    assert taken(sync_broker.queue("a")) == [0, 1, 3, 6]
    said = [record.message for record in caplog.records]
    assert sum("waiting for the queue a" in line for line in said) == 1
    assert sum("the queue a is back" in line for line in said) == 1


def test_a_refused_call_is_not_overtaken(sync_broker: Broker, sqlite: Database, raw: Any) -> None:
    """Its number is lower than that of the next call of its queue: Redis would take it for done."""
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    for body, ttl in enumerate([None, "1h", None]):
        write(outbox, engine, queue, [body], ttl=ttl)
    raw.set("rq:{a}:messages", "of another program")
    relay: Any = Relay(outbox, burst=True, period="10ms")
    call = relay._call

    def refused_once(*args: Any) -> Any:
        try:
            yield from call(*args)
        finally:
            if raw.type("rq:{a}:messages") == b"string":
                raw.delete("rq:{a}:messages")

    relay._call, relay._sleep = refused_once, lambda _: None
    relay.run()
    assert taken(queue) == [0, 1, 2]


def test_it_waits_while_redis_is_away(
    sync_broker: Broker, sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq.outbox")
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, range(3))
    relay: Any = Relay(outbox, burst=True, period="10ms")
    call, tries = relay._call, list[int]()

    def lossy(*args: Any) -> Any:
        result = yield from call(*args)
        tries.append(1)
        if len(tries) < 4:
            raise BrokerUnavailable("the reply was lost")
        return result

    relay._call, relay._sleep = lossy, lambda _: None
    relay.run()
    assert (len(tries), relay.sent, taken(queue)) == (4, 3, [0, 1, 2])
    said = [record.message for record in caplog.records if "Redis" in record.message]
    assert said == ["waiting for Redis: the reply was lost", "Redis is back"]


def test_it_waits_while_the_database_is_away(
    sync_broker: Broker, sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rq_dlq.outbox")
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox: Any = Outbox(sync_broker, engine)
    write(outbox, engine, queue, range(3))
    relay: Any = Relay(outbox, burst=True, period="10ms")
    with_ledger, tries, sleeps = outbox.with_ledger, list[int](), list[float]()

    def failing(work: Callable[[Ledger], Any]) -> None:
        tries.append(1)
        if len(tries) == 2:
            raise DatabaseUnavailable("it restarts")
        with_ledger(work)

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 1:
            raise DatabaseUnavailable("the connection was closed")
        if len(sleeps) == 3:
            relay._burst = True

    outbox.with_ledger, relay._sleep, relay._burst = failing, sleep, False
    relay.run()
    assert (relay.sent, taken(queue)) == (3, [0, 1, 2])
    said = [record.message for record in caplog.records if "database" in record.message]
    assert said == [
        "waiting for the database: the connection was closed",
        "waiting for the database: it restarts",
        "the database is back",
    ]


def test_missing_tables_are_told_at_once(sync_broker: Broker, database: Database) -> None:
    engine = database.engine()
    Outbox.metadata.drop_all(engine)
    with pytest.raises(ConfigurationError, match=r"(?s)rq_dlq_outbox_relays.*create_all.* makes them"):
        relayed(Outbox(sync_broker, engine))


def test_how_far_it_is_behind_is_reported(sync_broker: Broker, database: Database, raw: Any) -> None:
    engine, queue = database.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    write(outbox, engine, queue, range(3))
    with engine.begin() as connection:
        old = (
            "datetime('now', '-90 seconds')" if not database.is_postgres else "now() - interval '90 seconds'"
        )
        connection.execute(update(ROWS).where(ROWS.c.id == "1").values(written_at=text(old)))
    raw.set("rq:{a}:messages", "of another program")
    relay: Any = Relay(outbox, period="10ms")
    relay._sleep = lambda _: relay.stop()
    relay.run()
    (report,) = sync_broker._run(outboxes("rq"))
    assert report.outbox is not None
    assert (report.outbox.name, report.outbox.rows, report.stopping) == ("outbox", 3, True)
    assert 89 < report.outbox.oldest < 600
    assert sync_broker.workers() == []
    check = sync_broker._run(doctor_outboxes(sync_broker.settings))
    assert (check.state, "outbox: 3 rows wait, the oldest for" in check.found) == ("warn", True), check
    raw.delete("rq:{a}:messages")
    with engine.begin() as connection:
        connection.execute(delete(ROWS))


def test_calls_are_bounded_and_keep_the_order_of_each_queue() -> None:
    rows = [UnnotedRow(n, "ab"[n % 2], 0, 0 if n < 400 else 1, 100_000 if n > 600 else 1) for n in range(620)]
    noted = RelayCalls("s", 7).adding(rows, floor=100)
    assert [call.number for call in noted.calls] == [*range(101, 101 + len(noted.calls))]
    assert noted.last == noted.calls[-1].number
    for name, first in ("a", 0), ("b", 1):
        own = [call for call in noted.calls if call.queue == name]
        assert [row for call in own for row in call.rows] == [*range(first, 620, 2)]
        assert all(len(call.rows) <= 250 and len({row >= 400 for row in call.rows}) == 1 for call in own)
        assert all(sum(row > 600 for row in call.rows) <= 5 for call in own)
    assert RelayCalls.read("s", noted.last, noted.text) == noted
    assert noted.without(noted.calls[:1]).calls == noted.calls[1:]
    assert RelayCalls("s", 700).adding(rows[:1], floor=100).calls == (NotedCall(701, "a", 0, 0, (0,)),)
    assert RelayCalls("s", 7).adding([], floor=100) == RelayCalls("s", 7)


def test_a_row_committed_first_is_sent_first(sync_broker: Broker, sqlite: Database) -> None:
    """Rows of one session have the order of their sends."""
    engine, queue = sqlite.engine(), sync_broker.queue("a")
    outbox = Outbox(sync_broker, engine)
    for number in range(0, 2_000, 100):
        write(outbox, engine, queue, range(number, number + 100))
    relayed(outbox)
    assert taken(queue) == [*range(2_000)]


@each_row(
    "ago, outbox, stopping, said",
    [
        (5, OutboxReport("shop"), False, ""),
        (5, OutboxReport("shop", 3, 50.0), False, ""),
        (5, OutboxReport("shop", 3, 59.0), False, "3 rows wait, the oldest for 59s"),
        (70, OutboxReport("shop", 3, 1.0), False, "its relay last reported 1m10s ago, when 3 rows waited"),
        (70, OutboxReport("shop"), True, "its relay ended 1m10s ago, when no row waited"),
    ],
)
def test_the_doctor_warns_of_what_waits(ago: int, outbox: OutboxReport, stopping: bool, said: str) -> None:
    assert (_behind(ProcessReport(ago=ago, outbox=outbox, stopping=stopping))).endswith(said)
    assert bool(said) == bool(_behind(ProcessReport(ago=ago, outbox=outbox, stopping=stopping)))


def test_metrics_have_each_outbox() -> None:
    report = ProcessReport(ago=5.0, outbox=OutboxReport("shop", 3, 50.0))
    reading = MetricsReading(Overview(moment(0), []), [report], 0.0)
    found = {one.name: one.samples for family in families(reading) for one in [family]}
    values = {name: samples[0].value for name, samples in found.items() if "outbox" in name}
    assert values == {
        "rq_dlq_outbox_rows": 3.0,
        "rq_dlq_outbox_oldest_age_seconds": 55.0,
        "rq_dlq_outbox_report_age_seconds": 5.0,
    }
