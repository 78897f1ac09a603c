"""The app of workers that are replaced after some messages; `rq-dlq worker` imports it."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from pathlib import Path

import rq_dlq
from tests.proofs.reliability.journal import Journal

JOURNALS = "RECYCLED_JOURNALS"
"""The variable with the directory of the journals."""
NAMES = ("def", "async")
LEASE = 60  # seconds, far longer than a run: nothing comes back by its lease

broker = rq_dlq.Broker()


def queues_of(broker: rq_dlq.Broker) -> list[rq_dlq.Queue[float]]:
    """A queue of each colour; a body says how many seconds its call takes."""
    return [broker.queue(name, type=float, lease=LEASE) for name in NAMES]


@cache
def journal() -> Journal:
    """The journal of this process; the parent imports this, too, and has none."""
    return Journal(Path(os.environ[JOURNALS]), f"worker.{os.getpid()}")


def begin(delivery: rq_dlq.Delivery[float]) -> None:
    """Note a call; "early": it is not the first one of its message."""
    journal().note("got", [delivery.id])
    if delivery.redelivered:
        journal().note("early", [delivery.id])


_plain, _awaiting = queues_of(broker)


@_plain.handler(concurrency=4)
def plain(body: float, delivery: rq_dlq.Delivery[float]) -> None:
    """Take so long."""
    begin(delivery)
    time.sleep(body)
    journal().note("ack", [delivery.id])


@_awaiting.handler(concurrency=20)
async def awaiting(body: float, delivery: rq_dlq.Delivery[float]) -> None:
    """Take so long."""
    begin(delivery)
    await asyncio.sleep(body)
    journal().note("ack", [delivery.id])
