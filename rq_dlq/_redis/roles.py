"""The roles of Redis users: producer, consumer, maintenance and read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._redis.role import ID, Role
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.gathers import calls as gather_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.processes import calls as process_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.results import calls as result_calls
from rq_dlq.core.schedules import calls as schedule_calls
from rq_dlq.core.steps.step import Wait
from rq_dlq.core.upkeep import calls as upkeep_calls

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq._redis.role import Steps

JOB, TOKENS = ("job", "attempt"), ("token",)


def _gathering(keys: QueueKeys) -> Steps:
    """Read the rows of gathers."""
    yield gather_calls.due(keys)
    yield gather_calls.ended(keys)
    yield gather_calls.number_of(keys, ID)
    yield gather_calls.rows(keys, ID, 1)
    yield gather_calls.waiting(keys)


def _opening(keys: QueueKeys) -> Steps:
    """The steps before the first send or claim: register the queue's name, resolve its policies."""
    namespace = keys.namespace
    yield from _naming(keys)
    yield from _listing(keys)
    yield queue_calls.add_aliases(namespace, [ID])


def _listing(keys: QueueKeys) -> Steps:
    """Open a queue, and list its name."""
    yield queue_calls.open_as(keys, ID)
    yield queue_calls.close(keys)
    yield queue_calls.register(keys)
    yield queue_calls.unregister(keys)


def _naming(keys: QueueKeys) -> Steps:
    """Read the names of queues, their meanings and policies."""
    namespace = keys.namespace
    yield queue_calls.registered(namespace)
    yield queue_calls.is_registered(namespace, ID)
    yield queue_calls.is_alias(namespace, ID)
    yield queue_calls.was_sent_to(keys)
    yield queue_calls.given_names(keys)
    yield policy_calls.configured(keys)
    yield queue_calls.opening(keys)
    yield policy_calls.policies(namespace)
    yield policy_calls.policy_version(namespace)


def _upkeep(keys: QueueKeys) -> Steps:
    """Read due work and unfinished jobs."""
    yield queue_calls.clock()
    yield queue_calls.first_score(keys, "ready")
    yield page_calls.size(keys, "ready")
    yield upkeep_calls.strategy(keys)
    yield upkeep_calls.discarded(keys)
    yield job_calls.next_committed(keys)
    yield job_calls.first_of(keys, *JOB)
    yield job_calls.remove(keys, *JOB)
    yield redrive_calls.first(keys)
    yield from _gathering(keys)


def _sending(keys: QueueKeys) -> Steps:
    yield from _opening(keys)
    yield from result_calls.hearing(keys.result(ID))
    yield result_calls.tell(keys.result(ID))
    yield from _scheduling(keys)
    yield from _staging(keys)
    yield job_calls.note_list(keys, *JOB)
    yield job_calls.take_lists(keys, JOB[0], 1)
    yield job_calls.last_commit(keys, JOB[0])
    yield job_calls.first_of(keys, *JOB)
    yield job_calls.remove(keys, *JOB)


def _staging(keys: QueueKeys) -> Steps:
    """Stage messages that are too large for one script, and keep the registers of senders."""
    yield job_calls.stage(keys, *JOB, [ID])
    yield job_calls.cut(keys, *JOB, 1)
    yield job_calls.keep(keys, *JOB, 1)  # like senders.answered, with another key


def _consuming(keys: QueueKeys) -> Steps:
    yield from _opening(keys)
    yield from _staging(keys)
    yield from _upkeep(keys)
    yield from _scheduling(keys)
    yield from _reporting(keys)
    yield Wait(keys["wake"], 1)
    yield result_calls.tell(keys.result(ID))
    yield from _reading(keys)
    yield batch_calls.given_counts(keys, TOKENS)
    yield batch_calls.held_counts(keys, TOKENS)
    yield batch_calls.progress(keys, ID)
    yield batch_calls.note_held(keys, ID, 1)
    yield batch_calls.note_settled(keys, ID, 1)
    yield batch_calls.remember(keys, ID)
    yield batch_calls.note_poisoned(keys, ID, 1)


def _reporting(keys: QueueKeys) -> Steps:
    """The report of a process."""
    yield process_calls.processes(keys.namespace)
    yield process_calls.note_process(keys.namespace, ID, b"{}")
    yield process_calls.forget_processes(keys.namespace, [ID])
    yield cancelling_calls.notices(keys.namespace, "*")


def _scheduling(keys: QueueKeys) -> Steps:
    """Read the schedules."""
    yield schedule_calls.record_of(keys, ID)
    yield schedule_calls.records(keys)


def _reading(keys: QueueKeys) -> Steps:
    """Read the leased messages."""
    yield batch_calls.places(keys, ID)
    yield from (page_calls.cells(keys, part, [ID.encode()]) for part in ("messages", "history", "states"))


def _looking(keys: QueueKeys) -> Steps:
    yield from _naming(keys)
    yield from _scheduling(keys)
    yield from result_calls.hearing(keys.result(ID))
    yield queue_calls.clock()
    yield process_calls.processes(keys.namespace)
    yield looking_calls.page(keys, limit=1)
    yield looking_calls.newest(keys, limit=1)
    yield looking_calls.count(keys)
    yield looking_calls.acked_at(keys, ID)
    yield looking_calls.unique_until(keys, ID)
    yield page_calls.rank(keys, "ready", 0)
    yield page_calls.size(keys, "ready")
    yield page_calls.position(keys, "ready", 0)
    yield page_calls.position_of(keys, "ready", b"0")
    yield from _reading(keys)
    yield batch_calls.given_counts(keys, TOKENS)
    yield queue_calls.first_score(keys, "ticks")
    yield redrive_calls.record(keys, ID)
    yield redrive_calls.jobs(keys)
    yield looking_calls.audit(keys, 1)
    yield looking_calls.audit_of_none(keys.namespace, 1)
    yield group_calls.muted(keys, ID)
    yield keyed_calls.holders(keys, 0)
    yield keyed_calls.rank(keys, b"0")
    yield keyed_calls.consumer(keys, ID)
    yield keyed_calls.special(keys, 0)
    yield keyed_calls.specials(keys)
    yield from _gathering(keys)


def _maintaining(keys: QueueKeys) -> Steps:
    yield from _upkeep(keys)
    yield result_calls.tell(keys.result(ID))
    yield from _looking(keys)
    yield queue_calls.add_aliases(keys.namespace, [ID])
    yield queue_calls.note(keys.namespace, did=ID)
    yield from _listing(keys)
    yield looking_calls.trim(keys, through="0-1")
    yield from _reporting(keys)
    yield redrive_calls.list_ids(keys, ID, [ID])
    yield redrive_calls.listed(keys, ID, 0, 1)
    yield redrive_calls.cut(keys, ID, 1)
    yield redrive_calls.keep(keys, ID, 1)
    yield Wait(keys.silent, 1)
    yield from cancelling_calls.tell(keys.namespace, "*", cancelling_calls.Notice(ID, (ID, ID)))


_SCHEDULES = ("due", "schedule")
_GATHERS = ("open_gather", "send_children", "close_gather", "carry_gather", "cancel_gather")
_UPKEEP = (
    *(
        "sweep",
        "promote",
        "expire",
        "retire",
        "regroup",
        "reindex",
        "move_staged",
        "commit_job",
        "step_redrive",
        "carry_gather",
    ),
    *_SCHEDULES,
)
_LOOKING = ("browse", "scan", "groups", "stats", "result")

ROLES = {
    role.name: role
    for role in (
        Role(
            "producer",
            "sends (also in sessions, from Spark and by schedules), reads results, sees the counts of queues",
            (
                *("send", "send_limited", "resend", "commit", "configure", "renumber", "commit_job"),
                *("move_staged", "drop_staged", "stats", "result", *_SCHEDULES, *_GATHERS),
            ),
            _sending,
        ),
        Role(
            "consumer",
            "claims messages and acks or nacks them (also as a worker), and sends in its sessions",
            (
                *("claim", "ack", "ack_and_claim", "ack_all"),
                *("nack", "poison", "release", "pass_on", "extend"),
                *("send", "send_limited", "resend"),
                *("progress", "ack_claim", "extend_claim", "divide_claim", "begin_batch", "note_batch"),
                *("configure", "renumber", "commit", "stats", "result", *_UPKEEP, *_GATHERS),
            ),
            _consuming,
        ),
        Role(
            "maintenance",
            "maintains the queues, and runs the operators' verbs: redrive, purge, move, pause, set policies",
            (
                *(*_UPKEEP, *_LOOKING, "configure", "renumber", "set_policy", "pause", "pause_lane"),
                *(
                    "reset",
                    "delete",
                    "redrive",
                    "purge",
                    "cancel",
                    "transfer",
                    "prioritize",
                    "deliver_now",
                    "dead_letter",
                ),
                *("start_redrive", "offer_redrive", "steer_redrive", "undo_redrive", "restore", "mute"),
                *("expire_now", "limit_lane", "probe_lane"),
            ),
            _maintaining,
            loads=True,
        ),
        Role("read-only", "reads queues and messages, and changes nothing", _LOOKING, _looking),
    )
}
