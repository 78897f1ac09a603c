"""Relays of an outbox that are killed, and what came of its rows: T46."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Any, NamedTuple

from sqlalchemy import create_engine, func, select

from rq_dlq import Broker
from rq_dlq.outbox import Outbox, Relay, relay
from rq_dlq.outbox.sqlalchemy import METADATA, ROWS
from tests.forked import ForkedProcesses
from tests.outbox.databases import Unlocked, an_hour_passes, taken
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.row import Figures, Run
from tests.servers import Server, forms, postgres
from tests.servers.proxy import Chance, Commands, Fault, Proxy

QUEUES = ("a", "b")
RELAYS = ("relay-0", "relay-1")
WRITERS, TOGETHER = 2, 10  # rows of a transaction
LOST: dict[Fault, float] = {"drop": 0.05, "reset": 0.05}
PATIENCE = 10.0  # seconds without a message, after which no more is awaited
HOUR = 3  # after every so many rounds both relays are dead for an hour


class Span(NamedTuple):
    """When a transaction began at the earliest, and when it was committed at the latest."""

    began: float
    committed: float


class Striking(Chance):
    """Loses exchanges; and when it is armed, the next call that sends is carried out, and never answered."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LOST)
        self.armed = False
        self.struck = threading.Event()

    def __call__(self, commands: Commands) -> Fault | None:
        verbs = [word for command in commands for word in (*command[1:2], command[-1])]  # of either form
        sends = any(word.endswith(b"send") for word in verbs)
        if not (sends and self.armed):
            return super().__call__(commands)
        self.seen["hole"] += 1
        self.struck.set()
        return "hole"


def place(run: Run) -> AbstractContextManager[str]:
    """PostgreSQL; or SQLite where there is none, which has no locks, and one transaction that writes."""
    file = run.directory / "outbox.sqlite3"
    return postgres.running() if postgres.programs() else nullcontext(f"sqlite:///{file}?timeout=60")


def serve(url: str, database: str, locks: bool, form: str) -> None:
    """Run a relay until it is killed, with the verbs in this form."""
    forms.use(form)
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    module: Any = relay
    module.RETRY_AFTER = 0.05  # which is a second otherwise
    kind = Outbox if locks else Unlocked
    while True:
        with suppress(Exception):
            Relay(kind(Broker(url), create_engine(database)), period="10ms").run()


def out_of_order(came: Sequence[int], spans: dict[int, Span]) -> int:
    """How many rows came too late: after one of a transaction that began after their own, or of their own."""
    wrong, newest, last = 0, 0.0, dict[Span, int]()
    for body in came:
        span = spans[body]
        wrong += span.committed < newest or body < last.get(span, body)
        newest = max(newest, span.began)
        last[span] = body
    return wrong


class Trial:
    """Rows are written, relays killed, and what comes is taken and done with."""

    def __init__(
        self, run: Run, server: Server, proxy: Proxy, forked: ForkedProcesses, database: str
    ) -> None:
        self._random, self._forked, self._net = run.random, forked, proxy.rule
        self._raw, self._urls = server.client(), (f"unix://{proxy.socket}", database)
        self.engine = create_engine(database)
        METADATA.create_all(self.engine)
        self.broker = Broker(server.url)
        self.outbox = Outbox(self.broker, self.engine)
        self._forms = (os.environ.get(forms.VARIABLE) or ",".join(forms.NAMES)).split(",")
        self.spans: dict[int, Span] = {}
        self.came: dict[str, list[int]] = {name: [] for name in QUEUES}
        self.kills = 0

    def start(self, names: Sequence[str] = RELAYS) -> None:
        """Start relays; one in four heeds the lock of the database, and each draws a form of the verbs."""
        for name in names:
            locks, form = self._random.random() < 0.25, self._random.choice(self._forms)
            self._forked.start(name, serve, *self._urls, locks, form)

    def kill(self, names: Sequence[str]) -> None:
        """Kill relays."""
        for name in names:
            self._forked.kill(name)
            self.kills += 1

    def write(self, connection: Any, bodies: Sequence[int]) -> None:
        """Rows for both queues, in a transaction of somebody else."""
        for body in bodies:
            self.outbox.send(connection, self.broker.queue(QUEUES[body // 3 % 2]), body)

    def write_all(self, bodies: Sequence[int]) -> None:
        """Rows in transactions, one after the other."""
        for first in range(0, len(bodies), TOGETHER):
            some, began = bodies[first : first + TOGETHER], time.monotonic()
            with self.engine.begin() as connection:
                self.write(connection, some)
            span = Span(began, time.monotonic())
            self.spans.update(dict.fromkeys(some, span))

    @property
    def arrived(self) -> int:
        """How many messages came."""
        return sum(map(len, self.came.values()))

    @property
    def left(self) -> int:
        """How many rows are in the outbox."""
        with self.engine.begin() as connection:
            return connection.scalar(select(func.count()).select_from(ROWS)) or 0

    def drain(self, until: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Be done with what comes, until this is so; or nothing has come for so many seconds."""
        given_up = time.monotonic() + patience
        while not until() and time.monotonic() < given_up:
            before = self.arrived
            for name, came in self.came.items():
                came.extend(taken(self.broker.queue(name)))
            if self.arrived > before:
                given_up = time.monotonic() + patience
            else:
                time.sleep(0.001)

    def round(self, bodies: Sequence[int], pool: ThreadPoolExecutor, *, hour: bool) -> None:
        """Write while a relay is killed, anywhere or between a call and its note; or both, for an hour."""
        share = len(bodies) // WRITERS
        writing = [pool.submit(self.write_all, bodies[n * share :][:share]) for n in range(WRITERS)]
        enough = self.arrived + self._random.randrange(len(bodies))
        self.drain(lambda: self.arrived >= enough)
        net: Any = self._net
        net.armed = hour or self._random.random() < 0.5
        if net.armed:
            self.drain(net.struck.is_set)
        names = RELAYS if hour else [self._random.choice(RELAYS)]
        self.kill(names)
        net.armed = False
        net.struck.clear()
        if hour:
            self.drain(lambda: all(written.done() for written in writing))
            self.drain(lambda: not any(self.broker.queue(name).stats().ready for name in QUEUES))
            an_hour_passes(self._raw)
        self.start(names)
        for written in writing:
            written.result()
        self.drain(lambda: self.arrived >= len(self.spans))

    def judge(self, waited: int) -> list[str]:
        """What is wrong with what came; so many rows came only after the transaction."""
        came = [body for bodies in self.came.values() for body in bodies]
        firsts = [
            [body for body in dict.fromkeys(bodies) if body in self.spans] for bodies in self.came.values()
        ]
        return wrong(
            {
                "rows never came": len(self.spans.keys() - came),
                "rows came twice": len(came) - len({*came}),
                "rows came that nobody had committed": len({*came} - self.spans.keys()),
                "rows came out of order": sum(out_of_order(bodies, self.spans) for bodies in firsts),
                "rows are left in the outbox": self.left,
                "rows waited for a transaction of others": waited,
            }
        ) + [line for name in QUEUES for line in audited(self._raw, name)]


def run(run: Run) -> Figures:
    """Round after round, most of them beside a transaction that is open."""
    rounds, rows, span = run.pick(short=(6, 1_200, 0.0), whole=(15, 10_000, 60.0))
    with ExitStack() as stack:
        database = stack.enter_context(place(run))
        server = stack.enter_context(Server(run.directory / "redis"))
        net = Striking(run.random.getrandbits(32))
        proxy = stack.enter_context(Proxy(server.socket, run.directory, net))
        forked = stack.enter_context(ForkedProcesses())
        pool = stack.enter_context(ThreadPoolExecutor(WRITERS))
        trial = Trial(run, server, proxy, forked, database)
        late, share = range(rows, rows + TOGETHER), rows // rounds // WRITERS * WRITERS
        holds = trial.engine.dialect.name == "postgresql"
        began = time.monotonic()
        with trial.engine.begin() if holds else nullcontext() as slow:
            if slow is not None:
                trial.write(slow, late)
            trial.start()
            for number in range(rounds - 1):
                bodies = range(number * share, (number + 1) * share)
                trial.round(bodies, pool, hour=number % HOUR == HOUR - 1)
                run.done(number + 1, rounds, f"{trial.kills} kills")
            if holds:
                trial.drain(lambda: time.monotonic() > began + span, patience=span)
            beside, written, held = trial.arrived, len(trial.spans), time.monotonic() - began
        if holds:
            trial.spans.update(dict.fromkeys(late, Span(began, time.monotonic())))
        trial.round(range((rounds - 1) * share, rows), pool, hour=True)
        trial.drain(lambda: not trial.left)
        found = trial.judge(written - beside)
    transaction = f"{beside:,} rows came beside a transaction that was open for {held:.0f} s"
    return figures(trial, net, found, transaction if holds else "on SQLite, without such a transaction")


def figures(trial: Trial, net: Striking, found: list[str], beside: str) -> Figures:
    """For the table."""
    came = [body for bodies in trial.came.values() for body in bodies]
    lost = net.seen.total() - net.seen["passed"]
    return Figures(
        trials=trial.kills,
        acknowledged=len(trial.spans),
        lost=len(trial.spans.keys() - came),
        duplicated=len(came) - len({*came}),
        met=not found,
        note="; ".join([*found, f"{lost:,} of {net.seen.total():,} exchanges lost", beside]),
    )
