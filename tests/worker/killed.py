"""Workers that some of their messages kill."""

from __future__ import annotations

import os
import signal
from typing import Any

import rq_dlq
from rq_dlq import RedeliveryPolicy


def queue_of(broker: rq_dlq.Broker) -> rq_dlq.Queue[Any]:
    """With a budget of one redelivery."""
    return broker.queue("a", lease=4, redelivery=RedeliveryPolicy(delays=[0], max_redeliveries=1))


def work(url: str, colour: str) -> None:
    """Run a worker, for ever; the message "kill" kills it."""
    broker = rq_dlq.Broker(url)

    def plain(body: Any) -> None:
        if body == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    async def awaiting(body: Any) -> None:
        plain(body)

    queue_of(broker).handler(concurrency=1 if colour == "def" else 100)(
        plain if colour == "def" else awaiting
    )
    broker.run()
