"""T45: messages are cancelled before and during their calls; all are killed, and replies get lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import Broker, BrokerRefused, BrokerUnavailable, PerKey, Queue
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.rows.worker_calls import Notes, noted
from tests.servers import Server, wait_until
from tests.servers.proxy import Chance, Commands, Fault, Proxy

WORKERS, CANCELLERS = ("def", "async def", "async def"), 4
ROUND = ("worker", "worker", "canceller", "server")
"""What is killed, in turn."""
KEYS, IN_FLIGHT, AT_ONCE = 12, 3, 4
PAUSE, IN_CALL = 0.03, 0.2  # seconds after a send, and until a long call is cancelled
LEASE = 6.0  # seconds
LONG, EVERY = 3.0, 6  # seconds of every so many calls, unless they are told
TOLD, SOON = 1.5, 2.0  # seconds until a call is told, and until no call begins any more
DRAINED = 150.0  # seconds that it may take to drain the queue
LOST: dict[Fault, float] = {"drop": 0.004, "reset": 0.03}
OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")


def queue_of(url: str) -> Queue[Any]:
    """As each process uses it."""
    return Broker(url).queue("work", lease=LEASE, per_key=PerKey(order=True), max_in_flight=IN_FLIGHT)


def work(url: str, notes: Path, colour: str) -> None:
    """Run a worker until it is killed; note when its calls begin and end, and whether they were told."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, ran = queue_of(url), Notes(notes)

    def span_of(body: int) -> float:
        return LONG if body % EVERY == 0 else 0.02

    def plain(body: int, delivery: Any) -> None:
        ran.add("began", delivery.id, body % KEYS, time.monotonic())
        end = time.monotonic() + span_of(body)
        while time.monotonic() < end and not (delivery.cancelled or delivery.lost):
            time.sleep(0.005)
        ran.add("told" if delivery.cancelled else "ended", delivery.id, body % KEYS, time.monotonic())

    async def awaiting(body: int, delivery: Any) -> None:
        ran.add("began", delivery.id, body % KEYS, time.monotonic())
        how = "told"
        try:
            await asyncio.sleep(span_of(body))
            how = "ended"
        finally:
            ran.add(how, delivery.id, body % KEYS, time.monotonic())

    queue.handler(concurrency=AT_ONCE)(plain if colour == "def" else awaiting)
    while True:
        with suppress(Exception):
            queue._broker.run()


def cancel(url: str, notes: Path, name: str) -> None:
    """Send, and cancel a part of it at any time; note the answers."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, said = queue_of(url), Notes(notes)
    for body in count():
        message = f"{name}-{body}"
        with suppress(BrokerUnavailable, BrokerRefused):
            said.add("sending", message)
            queue.send(body, id=message, key=str(body % KEYS))
            said.add("sent", message)
        time.sleep(PAUSE)
        is_long = body % EVERY == 0
        if is_long:
            _await_call(queue, message)
        if is_long or body % 5 == 0:  # during its call, unless it waits for others; or before it
            chosen = message
            said.add("asked", chosen, time.monotonic())
            try:
                said.add("answer", chosen, queue.cancel(chosen), time.monotonic())
            except (BrokerUnavailable, BrokerRefused):
                said.add("unknown", chosen)


def _await_call(queue: Queue[Any], message: str) -> None:
    """Wait until its call has begun, but not for ever."""
    for _ in range(40):
        with suppress(BrokerUnavailable, BrokerRefused):
            if queue.explain(message).place == "leased":
                time.sleep(IN_CALL)
                return
        time.sleep(0.05)


class Lossy:
    """A rule of the network: it loses replies, but no notice to a worker, so each can be counted on."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed, LOST)

    def __call__(self, commands: Commands) -> Fault | None:
        return None if commands[0][0] == b"RPUSH" else self.chance(commands)


@dataclass
class Call:
    """A call of a message: when it began and ended, seconds; killed: when its worker was."""

    id: str
    key: str
    began: float
    ended: float
    told: bool = False


def run(run: Run) -> Figures:
    """Strike at one after the other, drain the queue, and compare what was answered with what was done."""
    kills, killed, notes = run.pick(short=12, whole=80), dict[str, float](), run.directory / "notes"
    notes.mkdir()
    lossy = Lossy(run.random.getrandbits(32))
    with (
        Server(run.directory / "redis", *OPTIONS) as server,
        Proxy(server.socket, run.directory, lossy) as proxy,
        ForkedProcesses() as forked,
    ):
        url, number = f"unix://{proxy.socket}", count()

        def start(of: str) -> None:
            kind, _, at = of.partition(" ")
            name = f"{kind}{next(number)} {at}"
            act, how = (work, WORKERS[int(at)]) if kind == "worker" else (cancel, name.replace(" ", "x"))
            forked.start(name, act, url, notes / f"{name}.notes", how)

        for at in range(len(WORKERS)):
            start(f"worker {at}")
        for at in range(CANCELLERS):
            start(f"canceller {at}")
        for kill in range(kills):
            run.done(kill, kills + 1, f"kills: {kill}")
            time.sleep(run.random.uniform(0.5, 1.5))
            what = ROUND[kill % len(ROUND)]
            if what == "server":
                server.kill()
                server.start()
            else:
                name = run.random.choice([one for one in forked.processes if one.startswith(what)])
                forked.kill(name)
                killed[name] = time.monotonic()
                start(f"{what} {name.partition(' ')[2]}")
        for name in [one for one in forked.processes if one.startswith("canceller")]:
            forked.kill(name)
        queue = queue_of(server.url)
        with suppress(BaseException):  # pytest's: what is left is counted
            wait_until(lambda: _is_empty(queue), DRAINED)
        with server.client() as raw:
            lost = lossy.chance.seen.total() - lossy.chance.seen["passed"]
            return _count(queue, raw, notes, killed, kills=kills, lost=lost)


def _is_empty(queue: Queue[Any]) -> bool:
    stats = queue.stats()
    return not (stats.ready or stats.scheduled or stats.leased)


def _calls(notes: Path, killed: dict[str, float]) -> list[Call]:
    """All calls; one without an end ended when its worker was killed."""
    calls: list[Call] = []
    for path in notes.glob("worker*.notes"):
        open_ones: dict[str, Call] = {}
        for what, message, key, at in map(str.split, path.read_text().splitlines()):
            if what == "began":
                open_ones[message] = Call(message, key, float(at), killed.get(path.stem, float("inf")))
                calls.append(open_ones[message])
            else:
                call = open_ones.pop(message)
                call.ended, call.told = float(at), what == "told"
    return calls


def _count(
    queue: Queue[Any], raw: Any, notes: Path, killed: dict[str, float], *, kills: int, lost: int
) -> Figures:
    calls, lines = _calls(notes, killed), [line for line in noted(notes) if line[0] not in {"began", "ended"}]
    sent = {message for what, message, *_ in lines if what == "sent"}
    gone = {line[1]: float(line[3]) for line in lines if line[0] == "answer" and line[2] == "cancelled"}
    asked = {line[1] for line in lines if line[0] == "asked"} - {x[1] for x in lines if x[0] == "answer"}
    totals = queue.stats().totals
    cancelled, acked = totals.get("cancelled", 0), totals.get("acked", 0)
    late = [one for one in calls if one.id in gone and one.began > gone[one.id] + SOON]
    went_on = [one for one in calls if one.began < gone.get(one.id, 0) < one.ended - TOLD - 0.5]
    told = sum(one.told for one in calls)
    found = wrong(
        {
            "pairs of calls of a key at once": _overlaps(calls),
            f"times more than {IN_FLIGHT} calls at once": _too_many(calls),
            "calls that began after their messages were cancelled": len(late),
            "calls of cancelled messages that were not told": len(went_on),
            "cancelled, and not said so": max(0, cancelled - len(gone) - len(asked)),
            "said to be cancelled, and not": max(0, len(gone) - cancelled),
            "sent, and neither done nor cancelled": max(0, len(sent) - acked - cancelled),
            "of a queue that was not drained": int(not _is_empty(queue)),
        }
    ) + audited(raw, "work")
    return Figures(
        trials=kills,
        acknowledged=len(sent),
        lost=max(0, len(sent) - acked - cancelled),
        duplicated=len(calls) - len({one.id for one in calls}),
        met=not found and told > 0,
        note="; ".join(found)
        or f"{cancelled:,} cancelled, {told:,} of them told during their calls; {acked:,} done; "
        f"{lost:,} replies lost",
    )


def _overlaps(calls: list[Call]) -> int:
    """How many calls began while another one of their key ran."""
    until: dict[str, float] = defaultdict(float)
    count = 0
    for call in sorted(calls, key=lambda call: call.began):
        count += call.began < until[call.key]
        until[call.key] = max(until[call.key], call.ended)
    return count


def _too_many(calls: list[Call]) -> int:
    """How many calls began while as many as may run were running."""
    moments = sorted([(call.began, 1) for call in calls] + [(call.ended, -1) for call in calls])
    running = count = 0
    for _, change in moments:
        running += change
        count += change > 0 and running > IN_FLIGHT
    return count


ROWS = (
    Row(
        "T45",
        "messages of ordered keys, at most 3 in flight, are cancelled before and during their calls; 3 "
        "workers, 4 who cancel and the server are killed, 3 % of the replies get lost",
        "what is answered is what happened, no call begins 2 s after; calls are told within 2 s; "
        "never two of a key, nor more than 3, at once; 0 lost",
        run,
    ),
)
