"""What clients and workers do, as generators of steps; no I/O, so both colours share it.

A generator yields a step (a call, a batch of calls, a wait) and is sent what came of it; what it returns is
the result. `_redis` runs the steps, blocking or awaiting.
"""

from rq_dlq._work import batches, select, session
from rq_dlq._work.claim import claim
from rq_dlq._work.confirm import Confirm
from rq_dlq._work.dead import DeadFilter, dead_letters, groups, redrive
from rq_dlq._work.explain import Explanation, explain
from rq_dlq._work.health import Health, Maintainer, maintainers
from rq_dlq._work.outcomes import last_outcomes, read_outcomes
from rq_dlq._work.policies import (
    apply_policies,
    explain_policy,
    open_queue,
    read_policies,
    reset,
    set_paused,
    set_policy,
    undeclare,
)
from rq_dlq._work.queue import Queue, place_of, places_of, sibling
from rq_dlq._work.rounds import Watch, Watched, look, one_round, work_off
from rq_dlq._work.select import Choice
from rq_dlq._work.send import SendOptions, send, send_one, send_options
from rq_dlq._work.session import Session
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
from rq_dlq._work.upkeep import DONE, ROLES, Role, browse, is_drained, maintain, purge, stats

__all__ = [
    "CHUNK",
    "DONE",
    "MAX_BLOCK",
    "MOST",
    "ROLES",
    "WINDOW",
    "Batch",
    "Choice",
    "Confirm",
    "DeadFilter",
    "Explanation",
    "Health",
    "Maintainer",
    "Queue",
    "Role",
    "SendOptions",
    "Session",
    "Step",
    "Steps",
    "Wait",
    "Watch",
    "Watched",
    "ack",
    "apply_policies",
    "batches",
    "browse",
    "claim",
    "dead_letters",
    "explain",
    "explain_policy",
    "extend",
    "extend_one",
    "groups",
    "is_drained",
    "last_outcomes",
    "look",
    "maintain",
    "maintainers",
    "nack",
    "one",
    "one_round",
    "open_queue",
    "place_of",
    "places_of",
    "poison",
    "purge",
    "read_outcomes",
    "read_policies",
    "redrive",
    "release",
    "reset",
    "select",
    "send",
    "send_one",
    "send_options",
    "session",
    "set_paused",
    "set_policy",
    "settle_by_error",
    "sibling",
    "stats",
    "undeclare",
    "work_off",
]
