"""A worker that is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

import rq_dlq
from rq_dlq import RedeliveryPolicy
from tests.proofs.reliability.journal import Journal

LEASE = 60  # seconds, far longer than it takes to see whether something is still held
INTERRUPTS = -0.01


def queue_of(broker: rq_dlq.Broker) -> rq_dlq.Queue[float]:
    """A body says how many seconds its handler takes; or that it interrupts its own process."""
    return broker.queue(
        "stopped", type=float, lease=LEASE, redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=None)
    )


def work(url: str, journals: Path, name: str, colour: str) -> None:
    """Run a worker until it is told to stop; it notes which calls began, and which came to their end."""
    logging.getLogger("rq_dlq").setLevel(logging.ERROR)
    queue, journal = queue_of(rq_dlq.Broker(url)), Journal(journals, name)

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

    queue.handler(concurrency=4)(plain if colour == "def" else awaiting)
    queue._broker.run()
