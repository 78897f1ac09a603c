"""The verbs of a selection: they change messages in chunks, one call each.

The verb checks again whether a message is still where it was seen. So every verb can be stopped half-way
and repeated; it returns how many messages it changed, and how many leased ones it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rq_dlq.core.changing import calls
from rq_dlq.core.changing.by_chunks import WAITING, change, change_all
from rq_dlq.core.changing.targets import check_target, open_target
from rq_dlq.core.keyed.keyed import why_blocked
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import places_of
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who
from rq_dlq.core.steps.step import CHANGED, Pipeline, Steps, chunks
from rq_dlq.errors import InvalidInput
from rq_dlq.values.codec import check_priority
from rq_dlq.values.failure import Cause

if TYPE_CHECKING:
    from rq_dlq.core.changing.plans import Carrying
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.pages.calls import Index, Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Call, Place, Sender
    from rq_dlq.values.changed import Changed

T = TypeVar("T")

# A whole purge begins with blocked messages: a removed one would let in the next, which would be skipped.
TAKES: Final[Mapping[str, tuple[Index, ...]]] = {
    "redrive": ("dead", "expired"),
    "purge": (*reversed(WAITING), "dead", "expired"),
    "dead_letter": (*WAITING, "expired"),
    "expire": WAITING,
    "deliver_now": ("scheduled",),
    "prioritize": WAITING,
    "transfer": (*WAITING, "dead", "expired"),
}
"""The states whose messages a verb changes."""


def redrive(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Redrive them, except those that die again during the call."""
    act, name = _act(queue, choice, "redriven", by, plan), _who(queue, by)
    if choice.is_all:
        verb = partial(calls.redrive_range, by=name, limit=CHANGED)
        return change_all(queue, choice, verb, TAKES["redrive"], act, plan=plan)
    these = partial(calls.redrive, by=name)
    return change(queue, choice, these, TAKES["redrive"], act, all_first=True, plan=plan)


def purge(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Remove them permanently."""
    act = _act(queue, choice, "purged", by, plan)
    if choice.is_all:
        these = partial(calls.purge_range, limit=CHANGED)
        return change_all(queue, choice, these, TAKES["purge"], act, plan=plan)
    return change(queue, choice, calls.purge, TAKES["purge"], act, plan=plan)


def dead_letter(
    queue: QueueState[Any],
    choice: Choice,
    reason: str,
    by: str | None = None,
    *,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Send them to the dead-letter queue."""
    act = _act(queue, choice, "dead-lettered", by, plan, how=reason)
    verb = partial(calls.dead_letter, by=_who(queue, by), cause=Cause.of(reason))
    return change(queue, choice, verb, TAKES["dead_letter"], act, plan=plan)


def expire_now(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Expire them, whatever their time to live."""
    act = _act(queue, choice, "expired", by, plan)
    return change(queue, choice, calls.expire_now, TAKES["expire"], act, plan=plan)


def deliver_now(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Make them ready, at the position that they had when they were sent.

    Raises:
        InvalidInput: one that was named by its id waits for others of its key; nothing was changed.
    """
    act = _act(queue, choice, "made ready", by, plan)

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str], act: str) -> Call[Changed]:
        del place
        return calls.deliver_now(sender, ids=ids, act=act)

    check = partial(_refuse_blocked, choice.ids or ())
    return change(queue, choice, verb, TAKES["deliver_now"], act, check=check, plan=plan)


def _refuse_blocked(ids: Sequence[str], members: Sequence[QueueState[Any]]) -> Steps[None]:
    """A due time can be cut short; the others of a key cannot."""
    for some in chunks(members) if ids else ():
        heeded = yield Pipeline([queue_calls.heeded(member.keys) for member in some])
        keyed = [member for member, rules in zip(some, heeded, strict=True) if rules]
        for member, message_id in product(keyed, ids):
            page: Page
            page, (now, _) = yield Pipeline(
                [
                    page_calls.browse(member.keys, ids=[message_id]),
                    queue_calls.stats(member.keys, member.name),
                ]
            )
            why, _ = (yield from why_blocked(member, page.rows()[0], now)) if page.ids else ("", "")
            if why:
                message = f"{message_id} cannot be delivered now, and nothing was changed: {why}"
                raise InvalidInput(message)


def prioritize(
    queue: QueueState[Any],
    choice: Choice,
    priority: int,
    by: str | None = None,
    *,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Give them another priority."""
    check_priority(priority)
    act = _act(queue, choice, "prioritized", by, plan, how=f"priority {priority}")
    verb = partial(calls.prioritize, priority=priority)
    return change(queue, choice, verb, TAKES["prioritize"], act, all_first=True, whole=True, plan=plan)


def transfer(
    queue: QueueState[Any],
    choice: Choice,
    target: QueueState[Any],
    *,
    keep: bool,
    create: bool = False,
    by: str | None = None,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Move them to another queue, or copy them, except those whose ids that queue already has.

    Raises:
        InvalidInput: it is the same queue, or that queue does not exist.
        CrossSlot: a cluster keeps the two on different nodes.
    """
    verb_name, name, opening = "copied" if keep else "moved", _who(queue, by), ""

    def check(members: Sequence[QueueName]) -> Steps[None]:
        nonlocal opening
        opening = yield from check_target(target, members, create=create)
        if create:
            opening = yield from open_target(target)

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str], act: str) -> Call[Changed]:
        cause = Cause.of(f"{verb_name} from {sender.keys.queue.family} ({place})")
        return calls.transfer(
            sender,
            target.keys,
            opening=opening,
            place=place,
            ids=ids,
            keep=keep,
            by=name,
            cause=cause,
            act=act,
        )

    act = _act(queue, choice, verb_name, by, plan, how=f"to {target.name}")
    return change(
        queue, choice, verb, TAKES["transfer"], act, but=target.keys, whole=True, check=check, plan=plan
    )


def _act(
    queue: QueueName, choice: Choice, did: str, by: str | None, plan: Carrying | None, *, how: str = ""
) -> Callable[[], Steps[str]]:
    """Makes the audit record of a verb: the choice, and the places."""
    who(by)  # raises before anything is asked
    places = ", ".join(choice.places or places_of(queue))
    mark = "" if plan is None else plan.planned.mark
    return partial(act_of, did, by, chosen=f"{places}: {choice.in_words}", how=how, mark=mark)


def _who(queue: QueueState[Any], by: str | None) -> str:
    """The name for the history of the messages: the operator's, or this process."""
    return queue.consumer if by is None else who(by)
