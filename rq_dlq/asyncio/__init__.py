"""The asyncio version of `rq_dlq`: the same names, awaited."""

from rq_dlq.asyncio.broker import Broker
from rq_dlq.asyncio.delivery import Delivery
from rq_dlq.asyncio.dlq import DeadLetters
from rq_dlq.asyncio.gather import Gather, GatheredTask
from rq_dlq.asyncio.plan import Plan
from rq_dlq.asyncio.policies import Policies
from rq_dlq.asyncio.queue import Queue
from rq_dlq.asyncio.redrive import RedriveJob
from rq_dlq.asyncio.results import SentForResult
from rq_dlq.asyncio.selection import Selection
from rq_dlq.asyncio.session import Session
from rq_dlq.asyncio.task import Task

__all__ = [
    "Broker",
    "DeadLetters",
    "Delivery",
    "Gather",
    "GatheredTask",
    "Plan",
    "Policies",
    "Queue",
    "RedriveJob",
    "Selection",
    "SentForResult",
    "Session",
    "Task",
]
