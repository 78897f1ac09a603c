"""The verbs of a selection: count and change messages in chunks, one script each.

The script checks again whether a message is still where it was seen. So every verb can be stopped half-way
and repeated; it returns how many messages it changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rq_dlq._calls import manage, scans
from rq_dlq._calls.scans import START
from rq_dlq._work import senders
from rq_dlq._work.choice import Choice
from rq_dlq._work.reading import following, read, sources
from rq_dlq._work.steps import CHANGED, Steps, bounded
from rq_dlq._work.targets import check_target, open_target
from rq_dlq.errors import UnprocessableMessage, UpgradeRequired
from rq_dlq.values.codec import check_priority
from rq_dlq.values.failure import Cause
from rq_dlq.values.state import length_of
from rq_dlq.values.wanted import ALL, NOTHING, RECORD, STATE

if TYPE_CHECKING:
    from rq_dlq._calls import Call, Place, Sender
    from rq_dlq._calls.manage import Changed
    from rq_dlq._calls.scans import Index, Position
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.queue import Queue
    from rq_dlq.values.message import Received

T = TypeVar("T")

WAITING: Final[tuple[Index, ...]] = ("ready", "scheduled")
TAKES: Final[Mapping[str, tuple[Index, ...]]] = {
    "redrive": ("dead", "expired"),
    "purge": (*WAITING, "dead", "expired"),
    "dead_letter": (*WAITING, "expired"),
    "expire": WAITING,
    "deliver_now": ("scheduled",),
    "prioritize": WAITING,
    "transfer": (*WAITING, "dead", "expired"),
}
"""The states whose messages a verb changes."""


Verb: TypeAlias = "Callable[..., Call[int]]"
"""A call that changes the messages `ids` of a `place`; it reads as how many it changed."""
VerbOfAll: TypeAlias = "Callable[..., Call[Changed]]"
"""The same for the first messages of a `place` from `after` `upto`; it also reads as where to go on."""


def chosen(queue: Queue[T], choice: Choice, only: Sequence[Place] | None = None) -> Steps[list[Received[T]]]:
    """The messages, unchanged, in the order of their states; those of a view or a group by their deaths."""
    reading = read(queue, choice, ALL, only)
    found: list[Received[T]] = []
    while page := (yield from following(reading)):
        found += page.messages
    if queue.view or choice.group is not None:
        found.sort(key=lambda message: message.due, reverse=choice.newest)
    return found


def peek(queue: Queue[T], limit: int) -> Steps[list[Received[T]]]:
    """The messages that the next claims get, unchanged."""
    return (yield from chosen(queue, Choice(limit=limit), ("ready", "dead", "expired")))


def count(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """How many are chosen."""
    reading = read(queue, choice)
    total = 0
    while page := (yield from following(reading)):
        total += len(page.rows)
    return total


def count_by(queue: Queue[Any], choice: Choice, header: str) -> Steps[dict[str | None, int]]:
    """How many are chosen for each value of a header (None: without it), the most frequent first."""
    reading = read(queue, choice, RECORD)
    counted: Counter[str | None] = Counter()
    while page := (yield from following(reading)):
        counted.update(_header(message, header) for message in page.messages)
    return dict(counted.most_common())


def _header(message: Received[Any], name: str) -> str | None:
    try:
        return message.headers.get(name)
    except (UnprocessableMessage, UpgradeRequired):
        return None


def change(
    queue: Queue[Any],
    choice: Choice,
    verb: Verb,
    places: Sequence[Place],
    *,
    but: QueueKeys | None = None,
    all_first: bool = False,
    whole: bool = False,
) -> Steps[int]:
    """Change the chosen messages that wait in one of `places`; returns how many were changed.

    Args:
        but: the member of a view that is left alone.
        all_first: choose all before the first is changed, since a changed one could be chosen again.
        whole: the verb writes whole records, so a script gets about half a megabyte of them.
    """

    def change_these(keys: QueueKeys, place: Place, ids: Sequence[str]) -> Steps[int]:
        return senders.once(queue.senders, keys, verb, place=place, ids=ids)

    reading = read(queue, choice, STATE if whole else NOTHING, only=places, but=but)
    done = 0
    waiting: list[tuple[QueueKeys, Place, Sequence[str]]] = []
    while page := (yield from following(reading)):
        for rows in bounded(page.rows, lambda row: length_of(row.state or b"")):
            ids = [row.id for row in rows]
            if all_first:
                waiting.append((page.queue.keys, page.place, ids))
            else:
                done += yield from change_these(page.queue.keys, page.place, ids)
    for chunk in waiting:
        done += yield from change_these(*chunk)
    return done


def change_all(queue: Queue[Any], choice: Choice, verb: VerbOfAll, places: Sequence[Index]) -> Steps[int]:
    """Change all messages that are in `places` now, a chunk at a time; returns how many were changed.

    The script finds them itself, so it also takes damaged messages, and rows that an interrupted script left.
    Each chunk begins after the last row of the one before it. What a later version wrote
    stays, and is passed; what was changed and came back is left.
    """
    done = 0
    for member in (yield from sources(queue, choice)):
        for place in places:
            if place not in choice.places_in(member):
                continue
            after: Position | None = START
            upto: Position | None = yield scans.position(member.keys, place, -1)
            while after and upto:
                changed = yield from senders.once(
                    queue.senders, member.keys, verb, place=place, after=after, upto=upto
                )
                done += changed.number
                after = changed.next
    return done


def redrive(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Bring them back to their queue, except those that die again meanwhile."""
    if choice.is_all:
        verb = partial(manage.redrive_range, by=queue.consumer, limit=CHANGED)
        return (yield from change_all(queue, choice, verb, TAKES["redrive"]))
    these = partial(manage.redrive, by=queue.consumer)
    return (yield from change(queue, choice, these, TAKES["redrive"], all_first=True))


def purge(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Remove them for good."""
    if choice.is_all:
        these = partial(manage.purge_range, limit=CHANGED)
        return (yield from change_all(queue, choice, these, TAKES["purge"]))
    return (yield from change(queue, choice, manage.purge, TAKES["purge"]))


def dead_letter(queue: Queue[Any], choice: Choice, reason: str) -> Steps[int]:
    """Send them to the dead-letter queue."""
    verb = partial(manage.dead_letter, by=queue.consumer, cause=Cause.of(reason))
    return (yield from change(queue, choice, verb, TAKES["dead_letter"]))


def expire_now(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Expire them, whatever their time to live."""
    return (yield from change(queue, choice, manage.expire_now, TAKES["expire"]))


def deliver_now(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Make them ready, at the position that they had when they were sent."""

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str]) -> Call[int]:
        del place
        return manage.deliver_now(sender, ids=ids)

    return (yield from change(queue, choice, verb, TAKES["deliver_now"]))


def prioritize(queue: Queue[Any], choice: Choice, priority: int) -> Steps[int]:
    """Give them another priority."""
    check_priority(priority)
    verb = partial(manage.prioritize, priority=priority)
    return (yield from change(queue, choice, verb, TAKES["prioritize"], all_first=True, whole=True))


def transfer(
    queue: Queue[Any], choice: Choice, target: Queue[Any], *, keep: bool, create: bool = False
) -> Steps[int]:
    """Move them to another queue, or copy them, except those whose ids that queue already has.

    Raises:
        InvalidInput: it is the same queue, or there is no such queue.
        CrossSlot: a cluster keeps the two on different nodes.
    """
    yield from check_target(target, (yield from sources(queue, choice)), create=create)
    if create:
        yield from open_target(target)
    opening = yield manage.opening(target.keys)
    verb_name = "copied" if keep else "moved"

    def verb(sender: Sender, /, *, place: Place, ids: Sequence[str]) -> Call[int]:
        cause = Cause.of(f"{verb_name} from {sender.keys.queue.family} ({place})")
        return manage.transfer(
            sender,
            target.keys,
            opening=opening,
            place=place,
            ids=ids,
            keep=keep,
            by=queue.consumer,
            cause=cause,
        )

    return (yield from change(queue, choice, verb, TAKES["transfer"], but=target.keys, whole=True))
