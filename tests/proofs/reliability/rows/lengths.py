"""T48: a queue with a limit for its length; senders, workers and the server are killed, replies are lost."""

from __future__ import annotations

import logging
import random
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from rq_dlq import Broker, BrokerRefused, BrokerUnavailable, LeaseLost, Message, Queue, QueueFull
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import Journal
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server
from tests.servers.proxy import Chance, Fault, Proxy

SENDERS, WORKERS, MOST = 3, 2, 40
BATCHES = (1, 7, 30)  # messages that are sent together
LEASE = "1s"
OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")
LOST: dict[Fault, float] = {"drop": 0.03, "reset": 0.01}
NAME = "limited"


def queue_of(url: str) -> Queue[str]:
    """As each process uses it."""
    return Broker(url).queue(NAME, lease=LEASE, max_length=MOST)


def send(url: str, directory: Path, name: str) -> None:
    """Send as fast as the queue allows; note what was sent, and what was refused when it was first sent."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, journal, draw = queue_of(url), Journal(directory, name), random.Random(name)
    for number in count():
        ids = [f"{name}-{number}-{n}" for n in range(draw.choice(BATCHES))]
        first = True
        while True:
            try:
                queue.send_many([Message(one, id=one) for one in ids])
                journal.note("sent", ids)
                break
            except QueueFull:
                journal.note("refused", ids if first else ())
                time.sleep(0.01)
                break
            except (BrokerUnavailable, BrokerRefused):
                first = False


def work(url: str, directory: Path, name: str) -> None:
    """Note what was delivered, then ack it."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, journal = queue_of(url), Journal(directory, name)
    while True:
        with suppress(BrokerUnavailable, BrokerRefused, LeaseLost):
            deliveries = queue.claim(10, wait="1s")
            journal.note("got", [delivery.id for delivery in deliveries])
            queue.ack(deliveries)


def noted(journals: Path, event: str) -> list[str]:
    """The ids of all processes with this event."""
    lines = [line.split() for file in journals.glob("*.journal") for line in file.read_text().splitlines()]
    return [message_id for what, *ids in lines if what == event for message_id in ids]


def longest(queue: Queue[str], until: float) -> int:
    """The most messages that the queue has until then."""
    most = 0
    while time.monotonic() < until:
        with suppress(BrokerUnavailable, BrokerRefused):
            stats = queue.stats()
            most = max(most, stats.ready + stats.scheduled + stats.leased)
    return most


def run(run: Run) -> Figures:
    """Kill, and look how long the queue is; then drain it."""
    kills, most = run.pick(short=6, whole=60), 0
    journals = run.directory / "journals"
    with (
        Server(run.directory / "redis", *OPTIONS) as server,
        Proxy(str(run.directory / "redis" / "redis.sock"), run.directory, Chance(run.seed, LOST)) as network,
        ForkedProcesses() as forked,
    ):
        acts = {f"s{n}": send for n in range(SENDERS)} | {f"w{n}": work for n in range(WORKERS)}
        for name, act in acts.items():
            forked.start(name, act, network.url, journals, name)
        queue = queue_of(server.url)
        for kill in range(kills):
            run.done(kill, kills + 1, f"kills: {kill}")
            most = max(most, longest(queue, time.monotonic() + run.random.uniform(0.3, 1.2)))
            if kill % 3 == 2:
                server.kill()
                server.start()
            else:
                name = run.random.choice([*acts])
                forked.kill(name)
                forked.start(name, acts[name], network.url, journals, f"{name}-{kill}")
        for name in [*acts]:
            if name.startswith("s"):
                forked.kill(name)
        return _count(server, queue, journals, kills, most)


def _count(server: Server, queue: Queue[str], journals: Path, kills: int, most: int) -> Figures:
    end = time.monotonic() + 60
    while queue.stats().ready + queue.stats().scheduled + queue.stats().leased and time.monotonic() < end:
        queue.maintain()
        time.sleep(0.1)
    sent, refused, got = (noted(journals, event) for event in ("sent", "refused", "got"))
    with server.client() as raw:
        found = audited(raw, NAME)
    lost = {*sent} - {*got}
    found += wrong(
        {
            "messages more than its limit": max(0, most - MOST),
            "sent, and not delivered": len(lost),
            "refused, and delivered": len({*refused} & {*got}),
        }
    )
    return Figures(
        trials=kills,
        acknowledged=len(sent),
        lost=len(lost),
        duplicated=0,
        met=not found and len(refused) > kills and most > MOST // 2,
        note="; ".join(found) or f"{len(refused):,} refused; {most} messages at most",
    )


ROWS = [
    Row(
        "T48",
        f"a queue of at most {MOST} messages; 3 senders of batches of up to 30, 2 consumers and the server "
        "are killed, 4 % of what is said is lost",
        "60 kills: never longer; 0 lost; what was refused never comes",
        run,
    )
]
