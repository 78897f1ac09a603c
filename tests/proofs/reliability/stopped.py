"""A worker that is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rq_dlq
from rq_dlq import RedeliveryPolicy
from tests.proofs.reliability.journal import Journal

LEASE = 60  # seconds, far longer than it takes to see whether something is still held
INTERRUPTS = -0.01


@dataclass(frozen=True)
class Place:
    """Where it works: its queues, each on a server of its own."""

    url: str
    names: Sequence[str]
    journals: Path

    def open(self) -> list[rq_dlq.Queue[float]]:
        """The queues of a new broker.

        A body says how many seconds its handler takes; or that it interrupts its own process.
        """
        broker, policy = rq_dlq.Broker(self.url), RedeliveryPolicy(delays=[0], max_redeliveries=None)
        return [broker.queue(name, type=float, lease=LEASE, redelivery=policy) for name in self.names]


def work(place: Place, name: str, colour: str) -> None:
    """Run a worker until it is told to stop; it notes which calls began, and which came to their end."""
    logging.getLogger("rq_dlq").setLevel(logging.ERROR)
    queues, journal = place.open(), Journal(place.journals, name)

    def begin(body: float, delivery: rq_dlq.Delivery[float]) -> float:
        journal.note("got", [delivery.id])
        if body == INTERRUPTS:
            os.kill(os.getpid(), signal.SIGINT)
        return abs(body)

    def plain(body: float, delivery: rq_dlq.Delivery[float]) -> None:
        time.sleep(begin(body, delivery))
        journal.note("ack", [delivery.id])

    async def awaiting(body: float, delivery: rq_dlq.Delivery[float]) -> None:
        await asyncio.sleep(begin(body, delivery))
        journal.note("ack", [delivery.id])

    for queue in queues:
        queue.handler(concurrency=4)(plain if colour == "def" else awaiting)
    queues[0]._broker.run()
