"""The verbs of a selection: they change messages in chunks, one call each.

The verb checks again whether a message is still where it was seen. So every verb can be stopped half-way
and repeated; it returns how many messages it changed, and how many leased ones it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rq_dlq.core.changing import calls
from rq_dlq.core.changing.targets import check_target, open_target
from rq_dlq.core.choosing.counting import Leased, count_leased
from rq_dlq.core.choosing.reading import following, read, sources
from rq_dlq.core.keyed.keyed import why_blocked
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import END, START
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import places_of
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.step import CHANGED, Steps, bounded
from rq_dlq.errors import InvalidInput
from rq_dlq.values.changed import Changed
from rq_dlq.values.codec import check_priority
from rq_dlq.values.failure import Cause
from rq_dlq.values.state import length_of
from rq_dlq.values.wanted import NOTHING, STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.changing.calls import ChangedRange
    from rq_dlq.core.changing.plans import Carrying
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.pages.calls import Index, Page, Position
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Call, Place, Sender

T = TypeVar("T")

WAITING: Final[tuple[Index, ...]] = ("ready", "scheduled")
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


Verb: TypeAlias = "Callable[..., Call[Changed]]"
"""A call that changes the messages `ids` of a `place`; it reads as how many it changed."""
VerbOfAll: TypeAlias = "Callable[..., Call[ChangedRange]]"
"""The same for the first messages of a `place` from `after` `upto`; it also reads as the next position."""


def change(
    queue: QueueState[Any],
    choice: Choice,
    verb: Verb,
    places: Sequence[Place],
    *,
    but: QueueKeys | None = None,
    all_first: bool = False,
    whole: bool = False,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Change the chosen messages that wait in one of `places`; returns how many were changed.

    Args:
        but: the member of a view that is left alone.
        all_first: choose all before the first is changed, since a changed one could be chosen again.
        whole: the verb writes whole records, so a call gets about half a megabyte of them.
        plan: the plan that it carries out; None: it has none.
    """
    done = left = 0
    once = _once(queue, plan, partial(verb, place=places[0], ids=()))

    def change_these(keys: QueueKeys, place: Place, ids: Sequence[str]) -> Steps[None]:
        nonlocal done, left
        changed = yield from once(keys, verb, place=place, ids=ids)
        done, left = done + changed, left + changed.leased

    leased = Leased(queue, choice)
    yield from leased.begin()
    waiting: list[tuple[QueueKeys, Place, Sequence[str]]] = []
    all_first = all_first or choice.limit is not None or (yield from _are_blocked(queue, choice, places))
    for some in _in_turn(choice, places):
        reading = read(queue, choice, STATE if whole else NOTHING, only=some, but=but)
        while page := (yield from following(reading)):
            leased.found(page)
            for rows in bounded(page.rows, lambda row: length_of(row.state or b"")):
                ids = [row.id for row in rows]
                if all_first:
                    waiting.append((page.queue.keys, page.place, ids))
                else:
                    yield from change_these(page.queue.keys, page.place, ids)
    for chunk in sorted(waiting, key=lambda chunk: chunk[1] == "scheduled"):
        yield from change_these(*chunk)
    return Changed(done, left + (yield from leased.end()))


def _once(
    queue: QueueState[Any], plan: Carrying | None, last: Callable[..., Call[Any]]
) -> Callable[..., Steps[Any]]:
    """How calls are made that take effect once; `last` makes the last call of a plan."""
    if plan is None:
        return partial(senders.once, queue.senders)
    plan.last = last
    return plan.once


def _are_blocked(queue: QueueState[Any], choice: Choice, places: Sequence[Place]) -> Steps[bool]:
    """Whether keys may block messages: the head of a key must be changed first, and lets in the next one.

    If it were changed before the others were read, these would be missed; after them, they would overtake it.
    """
    if not {*WAITING} <= {*places}:
        return False
    for member in (yield from sources(queue, choice)):
        if "key" in (yield queue_calls.heeded(member.keys)):
            return True
    return False


def _in_turn(choice: Choice, places: Sequence[Place]) -> list[Sequence[Place]]:
    """The places to read one after another; the first of all of them, if there is a limit.

    Scheduled messages are read before ready ones, so that one that becomes ready meanwhile is not missed.
    """
    if choice.limit is not None or "scheduled" not in places:
        return [places]
    return [("scheduled",), [place for place in places if place != "scheduled"]]


def change_all(
    queue: QueueState[Any],
    choice: Choice,
    verb: VerbOfAll,
    places: Sequence[Index],
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Change all messages that are in `places` now, a chunk at a time; returns how many were changed.

    The verb finds them itself, so it also takes damaged messages, and rows that an interrupted call left.
    Each chunk begins after the last row of the one before it. Messages of a later version are skipped, and so
    are changed messages that returned.

    Args:
        plan: as for `change`.
    """
    once = _once(queue, plan, partial(verb, place=places[0], after=END, upto=START))
    done, left = 0, (yield from count_leased(queue, choice))
    for member in (yield from sources(queue, choice)):
        for place in places:
            if place not in choice.places_in(member):
                continue
            after: Position | None = START
            upto: Position | None = yield page_calls.position(member.keys, place, -1)
            while after and upto:
                part = yield from once(member.keys, verb, place=place, after=after, upto=upto)
                done += part.changed
                after = part.next
    return Changed(done, left)


def redrive(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Redrive them, except those that die again during the call."""
    act, name = (yield from _act(queue, choice, "redriven", by, plan)), _who(queue, by)
    if choice.is_all:
        verb = partial(calls.redrive_range, by=name, limit=CHANGED, act=act)
        return (yield from change_all(queue, choice, verb, TAKES["redrive"], plan))
    these = partial(calls.redrive, by=name, act=act)
    return (yield from change(queue, choice, these, TAKES["redrive"], all_first=True, plan=plan))


def purge(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Remove them permanently."""
    act = yield from _act(queue, choice, "purged", by, plan)
    if choice.is_all:
        these = partial(calls.purge_range, limit=CHANGED, act=act)
        return (yield from change_all(queue, choice, these, TAKES["purge"], plan))
    return (yield from change(queue, choice, partial(calls.purge, act=act), TAKES["purge"], plan=plan))


def dead_letter(
    queue: QueueState[Any],
    choice: Choice,
    reason: str,
    by: str | None = None,
    *,
    plan: Carrying | None = None,
) -> Steps[Changed]:
    """Send them to the dead-letter queue."""
    act = yield from _act(queue, choice, "dead-lettered", by, plan, how=reason)
    verb = partial(calls.dead_letter, by=_who(queue, by), cause=Cause.of(reason), act=act)
    return (yield from change(queue, choice, verb, TAKES["dead_letter"], plan=plan))


def expire_now(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Expire them, whatever their time to live."""
    act = yield from _act(queue, choice, "expired", by, plan)
    return (yield from change(queue, choice, partial(calls.expire_now, act=act), TAKES["expire"], plan=plan))


def deliver_now(
    queue: QueueState[Any], choice: Choice, by: str | None = None, *, plan: Carrying | None = None
) -> Steps[Changed]:
    """Make them ready, at the position that they had when they were sent.

    Raises:
        InvalidInput: one that was named by its id waits for others of its key; nothing was changed.
    """
    for message_id in choice.ids or ():
        yield from _refuse_blocked(queue, choice, message_id)
    act = yield from _act(queue, choice, "made ready", by, plan)

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str]) -> Call[Changed]:
        del place
        return calls.deliver_now(sender, ids=ids, act=act)

    return (yield from change(queue, choice, verb, TAKES["deliver_now"], plan=plan))


def _refuse_blocked(queue: QueueState[Any], choice: Choice, message_id: str) -> Steps[None]:
    """A due time can be cut short; the others of a key cannot."""
    for member in (yield from sources(queue, choice)):
        if (yield queue_calls.heeded(member.keys)):
            page: Page = yield page_calls.browse(member.keys, ids=[message_id])
            now, _ = yield queue_calls.stats(member.keys, member.name)
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
    act = yield from _act(queue, choice, "prioritized", by, plan, how=f"priority {priority}")
    verb = partial(calls.prioritize, priority=priority, act=act)
    return (
        yield from change(queue, choice, verb, TAKES["prioritize"], all_first=True, whole=True, plan=plan)
    )


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
    yield from check_target(target, (yield from sources(queue, choice)), create=create)
    if create:
        yield from open_target(target)
    opening = yield queue_calls.opening(target.keys)
    verb_name = "copied" if keep else "moved"
    act = yield from _act(queue, choice, verb_name, by, plan, how=f"to {target.name}")

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str]) -> Call[Changed]:
        cause = Cause.of(f"{verb_name} from {sender.keys.queue.family} ({place})")
        return calls.transfer(
            sender,
            target.keys,
            opening=opening,
            place=place,
            ids=ids,
            keep=keep,
            by=_who(queue, by),
            cause=cause,
            act=act,
        )

    return (yield from change(queue, choice, verb, TAKES["transfer"], but=target.keys, whole=True, plan=plan))


def _act(
    queue: QueueState[Any], choice: Choice, did: str, by: str | None, plan: Carrying | None, *, how: str = ""
) -> Steps[str]:
    """The audit record of a verb: the choice, and the places."""
    places = ", ".join(choice.places or places_of(queue))
    mark = "" if plan is None else plan.planned.mark
    return (yield from act_of(did, by, chosen=f"{places}: {choice.in_words}", how=how, mark=mark))


def _who(queue: QueueState[Any], by: str | None) -> str:
    """The name for the history of the messages: the operator's, or this process."""
    return queue.consumer if by is None else who(by)
