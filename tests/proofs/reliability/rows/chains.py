"""T44: acks that send; workers and the server are killed, replies are lost, and what died is redriven."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import (
    Broker,
    BrokerRefused,
    BrokerUnavailable,
    Delivery,
    KnownId,
    Message,
    Queue,
    RedeliveryPolicy,
    ResultError,
    ResultUnavailable,
)
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import Journal
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server
from tests.servers.proxy import Chance, Fault, Proxy

SENDERS, WORKERS = 2, 3
LEASE, FROZEN = "1s", 1.3  # a frozen worker comes back when others have its messages
BAD = 7  # every so many bodies die at first
CLAIMED = 5  # every so many bodies lead to a message whose id another body may have taken
AHEAD = 20  # messages that are ready before senders wait
OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")
LOST: dict[Fault, float] = {"drop": 0.03, "reset": 0.01}
FIRST, SECOND, TAKEN, REFUSED = QUEUES = ("first", "second", "taken", "refused")


def queue_of(url: str) -> Queue[Any]:
    """As each process uses it."""
    policy = RedeliveryPolicy(delays=["10ms"], max_redeliveries=3, collision_avoidance=0)
    return Broker(url).queue(FIRST, lease=LEASE, redelivery=policy, results="1h")


def work(url: str) -> None:
    """Run a worker until it is killed."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue = queue_of(url)
    second, taken, refused = (queue._broker.queue(name) for name in QUEUES[1:])

    @queue.handler(concurrency=4)
    def handle(body: str, delivery: Delivery[str]) -> None:
        number = int(body.partition("-")[2])
        if number % BAD == 0 and not delivery.redriven:
            raise ValueError("not mended")
        links = [(second, body)]
        if number % CLAIMED:
            delivery.ack(send=links, result=body)
            return
        try:
            delivery.ack(send=[*links, (taken, Message(body, id=f"{number // (2 * CLAIMED)}"))], result=body)
        except KnownId:
            delivery.ack(send=[*links, (refused, body)], result=body)

    while True:
        with suppress(Exception):
            queue._broker.run()


def send(url: str, directory: Path, name: str) -> None:
    """Send messages, each once and no faster than they are done, and note those that are in the queue."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, journal = queue_of(url), Journal(directory, name)
    for number in count():
        with suppress(BrokerUnavailable, BrokerRefused):
            journal.note("sent", [queue.send(f"{name}-{number}", id=f"{name}-{number}")])
            while queue.stats().ready > AHEAD:
                time.sleep(0.05)


def run(run: Run) -> Figures:
    """Kill, freeze and redrive; then drain, and count what each message has led to."""
    kills = run.pick(short=9, whole=90)
    journals = run.directory / "journals"
    with (
        Server(run.directory / "redis", *OPTIONS) as server,
        Proxy(str(run.directory / "redis" / "redis.sock"), run.directory, Chance(run.seed, LOST)) as network,
        ForkedProcesses() as forked,
    ):
        for number in range(WORKERS):
            forked.start(f"worker-{number}", work, network.url)
        for number in range(SENDERS):
            forked.start(f"s{number}", send, server.url, journals, f"s{number}")
        queue = queue_of(server.url)
        for kill in range(kills):
            run.done(kill, kills + 1, f"kills: {kill}")
            time.sleep(run.random.uniform(0.3, 1.2))
            _strike(run, server, network, forked, kill)
            with suppress(BrokerUnavailable, BrokerRefused):
                queue.dlq.redrive(all=True)
        for number in range(SENDERS):
            forked.kill(f"s{number}")
        return _count(server, queue, journals, kills)


def _strike(run: Run, server: Server, network: Proxy, forked: ForkedProcesses, kill: int) -> None:
    """Kill a worker or the server, or freeze a worker for longer than its lease."""
    what, name = ("worker", "frozen", "server")[kill % 3], f"worker-{run.random.randrange(WORKERS)}"
    if what == "worker":
        forked.kill(name)
        forked.start(name, work, network.url)
    elif what == "frozen":
        forked.signal(name, signal.SIGSTOP)
        time.sleep(FROZEN)
        forked.signal(name, signal.SIGCONT)
    else:
        server.kill()
        server.start()


def _left(queue: Queue[Any]) -> int:
    """How many messages are there still when workers have had a minute for the rest."""
    end = time.monotonic() + 60
    while True:
        queue.maintain()
        queue.dlq.redrive(all=True)
        stats = queue.stats()
        left = stats.ready + stats.scheduled + stats.leased + stats.dead
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def _has_result(queue: Queue[Any], message: str) -> bool:
    with suppress(ResultError, ResultUnavailable):
        return bool(queue.result(message) == message)
    return False


def _count(server: Server, queue: Queue[Any], journals: Path, kills: int) -> Figures:
    left = _left(queue)
    sent = [line.split()[1] for file in journals.glob("*.journal") for line in file.read_text().splitlines()]
    second, taken, refused = (
        Counter(one.body for one in queue._broker.queue(name).select(all=True).browse())
        for name in QUEUES[1:]
    )
    either = taken + refused
    chosen = [one for one in second if int(one.partition("-")[2]) % CLAIMED == 0]
    with server.client() as raw:
        found = [fault for name in QUEUES for fault in audited(raw, name)]
    lost, redriven = [one for one in sent if not second[one]], queue.stats().totals.get("redriven", 0)
    doubled = sum(times - 1 for led in (second, either) for times in led.values())
    found += wrong(
        {
            "left in the queue": left,
            "acked, and what they lead to was not sent": max(0, len(lost) - left),
            "led to a message twice": doubled,
            "passed over, since the id was known": sum(not either[one] for one in chosen),
            "acked without their result": sum(not _has_result(queue, one) for one in second),
        }
    )
    return Figures(
        trials=kills,
        acknowledged=len(sent),
        lost=max(0, len(lost) - left),
        duplicated=doubled,
        met=not found and len(second) > kills and len(refused) > 0 and redriven > 0,
        note="; ".join(found)
        or f"{len(second):,} led to one each, {len(refused):,} had an id refused, {redriven:,} redriven",
    )


ROWS = [
    Row(
        "T44",
        "3 workers ack and send in one, over a network that loses 4 % of what is said; they and the server "
        "are killed, workers frozen beyond their leases; what died is redriven",
        "90 kills: 0 lost, 0 duplicated: each message leads to exactly one",
        run,
    )
]
