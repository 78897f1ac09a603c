"""The twin of `rq_dlq` for asyncio: the same names, to be awaited."""

from rq_dlq.asyncio.broker import Broker
from rq_dlq.asyncio.dlq import DeadLetters
from rq_dlq.asyncio.queue import Delivery, Queue

__all__ = ["Broker", "DeadLetters", "Delivery", "Queue"]
