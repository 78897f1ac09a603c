"""T17: the server's memory is full, while some send and others drain it."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import Broker, BrokerRefused, Message, Queue, RedeliveryPolicy
from rq_dlq.client.settings import version_of
from tests.audit import audit
from tests.proofs.reliability.actors import note_acked
from tests.proofs.reliability.findings import wrong
from tests.proofs.reliability.journal import Journal, sums
from tests.proofs.reliability.program import server_version
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until

SENDERS, DRAINERS = 3, 3
CHUNK = 50  # messages in one script
BODY = "x" * 1_000
MEGABYTE = 1 << 20
POLICY = RedeliveryPolicy(initial_delay="50ms", multiplier=1, max_redeliveries=1)
VERBS = ("acked", "nacked", "released", "poison", "lapsed")  # as the totals of a queue call them
TURNS = ("acked", "nacked", "acked", "released", "acked", "poison", "acked", "lapsed")


@dataclass
class Load:
    """Threads that send and drain.

    Attributes:
        refused: messages whose sending was refused.
        full: it was refused once.
        enough: nobody is to send any more.
    """

    directory: Path
    server: Server
    raw: Any
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    full: threading.Event = field(default_factory=threading.Event)
    enough: threading.Event = field(default_factory=threading.Event)

    def queue(self) -> Queue[Any]:
        """As each thread uses it."""
        return Broker(self.server.url).queue("q", redelivery=POLICY)

    def journal(self, name: str) -> Journal:
        """Of one thread."""
        return Journal(self.directory / "journals", name)

    def used(self) -> int:
        """The server's memory, bytes."""
        return int(self.raw.info("memory")["used_memory"])

    def send(self, name: str) -> None:
        """Send, also where it is refused, until it is enough."""
        queue, journal = self.queue(), self.journal(name)
        for chunk in count():
            if self.enough.is_set():
                return
            ids = [f"{name}-{chunk}-{n}" for n in range(CHUNK)]
            journal.note("send", ids)
            try:
                queue.send_many([Message(body=BODY, id=one) for one in ids])
            except BrokerRefused as error:
                if "out of memory" not in str(error):
                    raise
                journal.note("refused", ids)
                self.full.set()
                with self.lock:
                    self.refused += CHUNK
            else:
                journal.note("sent", ids)

    def drain(self, name: str) -> None:
        """Do one thing after the other to what there is, until nothing is left and nobody sends."""
        queue, journal = self.queue(), self.journal(name)
        for turn in count():
            if not deal(queue, journal, TURNS[turn % len(TURNS)]) and self.enough.is_set():
                queue.maintain()
                stats = queue.stats()
                if not (stats.ready or stats.scheduled or stats.leased):
                    return


def deal(queue: Queue[Any], journal: Journal, verb: str) -> int:
    """Claim, and do one thing to it; how many messages were claimed."""
    held = queue.claim(CHUNK, lease="100ms" if verb == "lapsed" else None)
    ids = [delivery.id for delivery in held]
    if held:
        journal.note("got", ids)
    if verb == "acked" and held:
        journal.note("ack", ids)
        note_acked(journal, queue.ack(held))
    elif verb == "nacked":
        queue.nack(held, ValueError("no"))
    elif verb == "released":
        queue.release(held)
    elif verb == "poison":
        queue.poison(held[:5], "bad")
        queue.release(held[5:])
    return len(ids)


def run(run: Run) -> Figures:
    """Fill the server, and drain it: at first nobody sends meanwhile, then others go on."""
    room, seconds = run.pick(short=(3, 1.0), whole=(15, 4.0), soak=(200, 60.0))
    with Server(run.directory / "server") as server, server.client() as raw:
        load = Load(run.directory, server, raw)
        raw.config_set("maxmemory", load.used() + room * MEGABYTE)
        with ThreadPoolExecutor(SENDERS + DRAINERS) as pool:
            try:
                return trial(load, pool, seconds)
            finally:
                load.enough.set()


def trial(load: Load, pool: ThreadPoolExecutor, seconds: float) -> Figures:
    """All of it."""
    queue = load.queue()
    threads = [pool.submit(load.send, f"sender{n}") for n in range(SENDERS)]
    wait_until(lambda: load.full.is_set() or any(thread.done() for thread in threads))
    while_over_full = drained_over_the_limit(load, queue)
    before = load.refused
    threads += [pool.submit(load.drain, f"drainer{n}") for n in range(DRAINERS)]
    wait(threads, timeout=seconds, return_when=FIRST_EXCEPTION)
    refused = load.refused - before
    load.enough.set()
    for thread in threads:
        thread.result()
    totals, dead = queue.stats().totals, audit(load.raw, "q")
    remaining = [key.decode() for key in load.raw.hkeys(queue._core.keys["messages"])]
    came_of = sums(load.directory / "journals", remaining)
    load.raw.config_set("maxmemory", 0)  # the dead letters alone may fill it, and a redrive takes some more
    redriven = queue.dlq.redrive(all=True).counts.moved
    while held := queue.claim(1_000):
        queue.ack(held)
    left = audit(load.raw, "q")
    found = wrong(
        {
            **came_of.faults,
            "verbs that did not go on": [*while_over_full.values()].count(0),
            "sends refused too few, while it was drained": max(0, CHUNK - refused) // CHUNK,
            "dead letters that were not redriven": abs(sum(dead.values()) - redriven),
            "not dead, and left": sum(dead.values()) - dead.get("dead", 0),
            "left in the end": sum(left.values()),
        }
    )
    did = ", ".join(f"{totals[verb]:,} {verb}" for verb in VERBS)
    counted = [
        f"while it was drained {refused // CHUNK:,} sends of {CHUNK} were refused",
        did,
        f"{redriven:,} redriven",
    ]
    return Figures(
        trials=load.refused // CHUNK,
        **came_of.counts,
        met=not found,
        note="; ".join([*found, *counted]),
    )


def drained_over_the_limit(load: Load, queue: Queue[Any]) -> dict[str, int]:
    """Each verb, while the server has more than it may have from the first to the last: how often each went.

    That is none, where it came below the limit.
    """
    journal, before = load.journal("alone"), queue.stats().totals
    limit = load.raw.config_get("maxmemory")["maxmemory"]
    load.raw.config_set("maxmemory", load.used() * 3 // 4)
    for verb in VERBS:
        deal(queue, journal, verb)
    wait_until(lambda: queue.maintain()["swept"])
    over = load.used() > int(load.raw.config_get("maxmemory")["maxmemory"])
    load.raw.config_set("maxmemory", limit)
    after = queue.stats().totals
    return {verb: over * (after.get(verb, 0) - before.get(verb, 0)) for verb in VERBS}


def missing() -> str:
    """Why no server here can go on while its memory is full."""
    if version_of(server_version().removeprefix("Redis ")) < (7,):
        return "before Redis 7 no script may add anything when memory is full, not even a lease"
    return ""


ROWS = (
    Row(
        "T17",
        f"maxmemory reached, then drained: {SENDERS} send on, {DRAINERS} ack, nack, release, poison, lapse",
        "sends refused cleanly; every verb goes on; 0 lost, 0 partial",
        run,
        missing=missing,
    ),
)
