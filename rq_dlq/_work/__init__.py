"""What clients and workers do, as generators of steps; no I/O, so both colours share it.

A generator yields a step (a call, a batch of calls, a wait) and receives the step's result; its return value
is the result of the whole. `_redis` runs the steps, blocking or awaiting.
"""

from rq_dlq._work import batches, redrives, schedules, select, session
from rq_dlq._work.audit import audit
from rq_dlq._work.choice import Choice
from rq_dlq._work.claim import claim
from rq_dlq._work.confirm import Confirm
from rq_dlq._work.consume import ACK_WITHIN, Consuming
from rq_dlq._work.cut_off import claim_is_cut_off, give_back, is_cut_off, log_failure
from rq_dlq._work.delete import delete
from rq_dlq._work.explain import Explanation, explain
from rq_dlq._work.given_names import check_not_own
from rq_dlq._work.manage import reset, set_paused
from rq_dlq._work.observers import Observers
from rq_dlq._work.opening import open_queue
from rq_dlq._work.outcomes import last_outcomes, read_outcomes
from rq_dlq._work.overview import counts, overview
from rq_dlq._work.policies import apply_policies, explain_policy, read_policies, set_policy, undeclare
from rq_dlq._work.processes import Reporter, maintainers, processes, workers
from rq_dlq._work.queue import Queue, sibling
from rq_dlq._work.riding import riding
from rq_dlq._work.rounds import MaintainedNamespace, MaintainedQueue, fire_due, look, one_round, work_off
from rq_dlq._work.send import SendOptions, send, send_one, send_options
from rq_dlq._work.senders import Senders, once
from rq_dlq._work.session import Session
from rq_dlq._work.settle import (
    ack,
    extend,
    extend_one,
    family_of,
    held_or_raise,
    nack,
    poison,
    release,
    settle_by_error,
    values_of,
)
from rq_dlq._work.steps import (
    CHANGED,
    CHUNK,
    MAX_BLOCK,
    MOST,
    WINDOW,
    Batch,
    NodeUnavailable,
    Step,
    Steps,
    Wait,
    unrepeated,
)
from rq_dlq._work.taking import take_all
from rq_dlq._work.upkeep import ROLES, MaintenanceRole, is_drained, maintain, stats
