"""A worker process: `python -m tests.worker.app URL COLOUR LEASE`.

A message says what its handler does: "quick" ends at once, "wait" when the key `go` exists, "block" sleeps
in C, "apart" ends after a while without asking Redis for anything.
What began and what ended is noted in lists.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import redis

import rq_dlq
from rq_dlq import RedeliveryPolicy
from rq_dlq.worker import worker

logger = logging.getLogger(__name__)


def main(url: str, colour: str, lease: str) -> None:
    """Run until the signal."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    worker.GRACE = 0.5
    broker = rq_dlq.Broker(url)
    policy = RedeliveryPolicy(delays=[0], max_redeliveries=9)
    queue = broker.queue("a", lease=lease, redelivery=policy)
    notes = redis.Redis.from_url(url)

    def plain(body: str) -> None:
        notes.rpush("begun", body)
        if body == "block":
            time.sleep(60)
        if body == "apart":
            time.sleep(0.3)
            logger.info("apart ended")
            return
        while body == "wait" and not notes.exists("go"):
            time.sleep(0.005)
        notes.rpush("ended", body)

    async def awaiting(body: str) -> None:
        notes.rpush("begun", body)
        if body == "block":
            time.sleep(60)  # noqa: ASYNC251 - as some handlers do
        if body == "apart":
            await asyncio.sleep(0.3)
            logger.info("apart ended")
            return
        while body == "wait" and not notes.exists("go"):  # noqa: ASYNC110 - a condition elsewhere
            await asyncio.sleep(0.005)
        notes.rpush("ended", body)

    queue.handler()(plain if colour == "def" else awaiting)
    broker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
