"""The asyncio version of `rq_dlq`: the same names, awaited.

The files here and in `_redis/awaiting` are the source of two colours. The blocking files in `client` and
`_redis/blocking` are generated from them by replacing words, also in docstrings (`tests/colours_twin.py`),
and are checked in; `make lint` and a test fail if they differ. Code that differs by more than words is in the
`own.py` of each colour, under the same names: in the façade `run` and messages from async iterables; in
`_redis` the owner of an idle connection (a process and its threads, or an event loop), how a connection is
made, written to and closed, and how to sleep. Only `asyncio.shield`, with which a cancelled task puts its
connection in order, is left out of the twin: threads are not cancelled.
"""

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
