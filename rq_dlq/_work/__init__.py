"""What clients and workers do, as generators of steps; no I/O, so both colours share it.

A generator yields a step (a call, a batch of calls, a wait) and is sent what came of it; what it returns is
the result. `_redis` runs the steps, blocking or awaiting.
"""

from rq_dlq._work.claim import claim
from rq_dlq._work.dead import DeadFilter, dead_letters, groups, redrive
from rq_dlq._work.queue import Queue, open_queue, place_of, places_of, sibling
from rq_dlq._work.send import SendOptions, send, send_one, send_options
from rq_dlq._work.settle import (
    ack,
    extend,
    extend_one,
    nack,
    one,
    poison,
    release,
    settle_by_error,
)
from rq_dlq._work.steps import CHUNK, MAX_BLOCK, MOST, WINDOW, Batch, Step, Steps, Wait
from rq_dlq._work.upkeep import browse, maintain, purge, stats

__all__ = [
    "CHUNK",
    "MAX_BLOCK",
    "MOST",
    "WINDOW",
    "Batch",
    "DeadFilter",
    "Queue",
    "SendOptions",
    "Step",
    "Steps",
    "Wait",
    "ack",
    "browse",
    "claim",
    "dead_letters",
    "extend",
    "extend_one",
    "groups",
    "maintain",
    "nack",
    "one",
    "open_queue",
    "place_of",
    "places_of",
    "poison",
    "purge",
    "redrive",
    "release",
    "send",
    "send_one",
    "send_options",
    "settle_by_error",
    "sibling",
    "stats",
]
