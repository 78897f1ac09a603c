"""What the processes of a row do: send, claim and ack, work. Each writes its journal."""

from __future__ import annotations

import logging
import multiprocessing
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from itertools import count, cycle
from pathlib import Path
from typing import Any, Literal

import rq_dlq
from rq_dlq import Message, RedeliveryPolicy
from rq_dlq._redis import AsyncConnections, Connections, Retries
from rq_dlq._scripts import Joined
from rq_dlq._scripts.verb import run_by
from rq_dlq.client.durability import Durability
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.counts import is_drained
from rq_dlq.values.settlement import Fate, Settlement
from rq_dlq.worker import Worker
from rq_dlq.worker.tally import Tally
from tests.proofs.reliability.journal import Journal

CHUNK = 100  # messages that a sender sends at once
BATCH = 8  # messages that a consumer claims at once
EVERY = 10  # every tenth chunk is delayed
DELAY = 300  # milliseconds
LABOUR = 0.01  # seconds that some batches take; the others take no time
LABORIOUS = 0.05  # of the batches
FREEZE = signal.SIGUSR1
PATIENT = Retries(attempts=None, seconds=60)
SOON_AND_FOR_EVER = RedeliveryPolicy(initial_delay="500ms", multiplier=1, max_redeliveries=None)


@dataclass(frozen=True)
class Place:
    """Where actors act.

    Attributes:
        lease: milliseconds.
        durability: of the brokers.
        modules: Lua in place of the broker's own.
        names: of the queues, each on a server of its own; chunks go to them in turn.
    """

    url: str
    journals: Path
    lease: int = 30_000
    policy: RedeliveryPolicy = SOON_AND_FOR_EVER
    modules: Mapping[str, str] = field(default_factory=dict)
    durability: Durability = "memory"
    names: Sequence[str] = ("work",)

    def open(self) -> list[rq_dlq.Queue[int]]:
        """The queues; a body is the server's time, milliseconds, before which it must not be delivered."""
        verbs = Joined(self.modules)
        broker = rq_dlq.Broker(self.url, verbs=verbs, retries=PATIENT, durability=self.durability)
        return [
            broker.queue(name, type=int, lease=self.lease / 1000, redelivery=self.policy)
            for name in self.names
        ]

    def queue(self) -> rq_dlq.Queue[int]:
        """The first queue."""
        return self.open()[0]

    def journal(self) -> Journal:
        """That of this process."""
        return Journal(self.journals, multiprocessing.current_process().name)


def send(place: Place, sender: str, chunks: Iterable[int]) -> None:
    """Send these chunks of a sender's messages, some of them delayed."""
    queues, journal = place.open(), place.journal()
    for chunk in chunks:
        send_chunk(queues[chunk % len(queues)], journal, sender, chunk)


def send_chunk(queue: rq_dlq.Queue[int], journal: Journal, sender: str, chunk: int) -> None:
    """Send one of them; its number says which ids its messages have."""
    delayed = chunk % EVERY == 0
    due = server_time(queue) + DELAY if delayed else 0
    ids = [f"{sender}-{number}" for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
    journal.note("send", ids)
    queue.send_many([Message(body=due, id=name) for name in ids], delay=DELAY / 1000 if delayed else None)
    journal.note("sent", ids)


def chunk_of(message_id: str) -> int:
    """The number of the chunk that a message is in."""
    return int(message_id.partition("-")[2]) // CHUNK


def note_repeated_acks(journal: Journal, *kinds: Any) -> None:
    """Note the acks that the clients of this process repeat, not knowing whether they were done."""
    for kind in kinds or (Connections, AsyncConnections):
        kind._again = _noting(kind._again, journal)


def _noting(again: Any, journal: Journal) -> Any:
    def note(step: Any, tries: Any) -> None:
        for call in getattr(step, "calls", (step,)) if tries.indeterminate else ():
            if "ack" in run_by(getattr(call, "verb", "")):
                journal.note("indeterminate", map(str, call.items[1 : 1 + call.items[0]]))  # lua/settle.lua

    def noting(connections: Any, step: Any, tries: Any) -> Any:
        note(step, tries)
        return again(connections, step, tries)

    async def awaiting(connections: Any, step: Any, tries: Any) -> Any:  # tenacity looks which it is
        note(step, tries)
        return await again(connections, step, tries)

    return awaiting if iscoroutinefunction(again) else noting


def steadily(seconds: float) -> Iterator[int]:
    """Chunks for ever, one each so many seconds."""
    never = threading.Event()
    return (chunk for chunk in count() if not never.wait(seconds))


def is_empty(queue: rq_dlq.Queue[Any]) -> bool:
    """Whether nothing is to be delivered, and nobody holds anything."""
    return queue._run(is_drained(queue._core))


def server_time(queue: rq_dlq.Queue[Any]) -> int:
    """The server's clock, milliseconds."""
    now: int = queue._run(queue._broker._step(queue_calls.clock()))
    return now


def freezer() -> Callable[[], None]:
    """What is called with messages in one's hands: whoever was told to freeze stands still there."""
    told: list[int] = []
    signal.signal(FREEZE, lambda number, _: told.append(number))

    def freeze() -> None:
        if told:  # and then this thread goes not one step further
            told.clear()
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    return freeze


def consume(place: Place) -> None:
    """Claim and ack, for ever, from all queues in turn.

    Who is told to freeze does so with messages in its hands.
    """
    freeze, queues, journal = freezer(), place.open(), place.journal()
    note_repeated_acks(journal)
    for queue in cycle(queues):
        deliveries = queue.claim(BATCH, wait="1s")
        if deliveries:
            note_got(place, journal, deliveries)
            freeze()
            if random.random() < LABORIOUS:
                time.sleep(LABOUR)
            journal.note("ack", [delivery.id for delivery in deliveries])
            note_acked(journal, queue.ack(deliveries))


def note_got(place: Place, journal: Journal, deliveries: Sequence[rq_dlq.Delivery[int]]) -> None:
    """Note that they were delivered, and which of them came early."""
    early = [
        delivery.id
        for delivery in deliveries
        if delivery._lease.ends - place.lease < max(delivery.due, delivery.body)
    ]
    if early:
        journal.note("early", early)
    journal.note("got", [delivery.id for delivery in deliveries])


def note_acked(journal: Journal, settlements: Iterable[Settlement]) -> None:
    """Note what came of acks."""
    told = list(settlements)
    if acked := [said.id for said in told if said]:
        journal.note("acked", acked)
    if stale := [said.id for said in told if not said]:
        journal.note("stale", stale)


class NotedTally(Tally):
    """Notes what came of a worker's acks."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def add(self, settlements: Iterable[Settlement], asked: Fate) -> Counter[str]:
        """Note it."""
        told = list(settlements)
        counts = super().add(told, asked)
        if asked == "acked":
            note_acked(self._journal, told)
        return counts


def work(
    place: Place, concurrency: int = 1, fails: bool = False, colour: Literal["def", "async def"] = "def"
) -> None:
    """Run a worker, for ever; its handler succeeds with every message, or fails with every one.

    It freezes as `consume` does.
    """
    logging.getLogger("rq_dlq").setLevel(logging.ERROR)
    freeze, queues, journal = freezer(), place.open(), place.journal()
    note_repeated_acks(journal)

    def handle(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        del body
        note_got(place, journal, [delivery])
        freeze()
        if fails:
            message = f"attempt {delivery.delivery_count}"
            raise ValueError(message)
        journal.note("ack", [delivery.id])

    async def awaiting(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        handle(body, delivery)

    for queue in queues:
        queue.handler(concurrency=concurrency)(handle if colour == "def" else awaiting)
    worker = Worker(queues[0]._broker)
    worker.tally = NotedTally(journal)
    worker.run()
