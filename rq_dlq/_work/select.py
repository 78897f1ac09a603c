"""What operators do to waiting messages: chosen by ids or by a filter, in chunks, each chunk one script.

The choice is made on a snapshot; the script looks again whether a message still waits where it was seen. So
every verb can be stopped half-way and said again, and returns how many messages it changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rq_dlq import _calls
from rq_dlq._names import check_id
from rq_dlq._work.queue import Queue, check_limit, only_live, places_of
from rq_dlq._work.steps import CHUNK, Steps
from rq_dlq._work.views import find, members
from rq_dlq.codec import PRIORITIES
from rq_dlq.errors import InvalidInput, UnprocessableMessage
from rq_dlq.failure import Cause
from rq_dlq.message import DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rq_dlq._calls import Call, Part, Place
    from rq_dlq._keys import QueueKeys
    from rq_dlq.filters import Filter
    from rq_dlq.message import Row

T = TypeVar("T")
Verb: TypeAlias = Callable[[Queue[Any], "Place", Sequence[str]], "Call[list[str]]"]
LEASES = 5  # claims in one page of what is leased: each may hold a thousand messages


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages; None: no condition.

    Attributes:
        places: where they are looked for, in this order; None: where the messages of a queue wait.
        limit: at most so many, the first in their order.
    """

    places: Sequence[Place] | None = None
    ids: Sequence[str] | None = None
    where: Filter | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for message_id in self.ids or ():
            check_id(message_id)
        check_limit(self.limit)


def chosen(queue: Queue[T], choice: Choice) -> Steps[list[Received[T]]]:
    """The messages themselves, untouched, in the order of their places."""
    found: list[Received[T]] = []
    for member in (yield from members(queue)):
        for place in _places(member, choice):
            left = None if choice.limit is None else choice.limit - len(found)
            if left != 0:
                found += yield from _in_place(member, place, choice, left)
    return found


def count(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """How many are chosen."""
    return len((yield from chosen(queue, choice)))


def count_by(queue: Queue[Any], choice: Choice, header: str) -> Steps[dict[str | None, int]]:
    """How many are chosen for each value of a header (None: without it), the most frequent first."""
    messages = yield from chosen(queue, choice)
    return dict(Counter(_header(message, header) for message in messages).most_common())


def _header(message: Received[Any], name: str) -> str | None:
    try:
        return message.headers.get(name)
    except UnprocessableMessage:
        return None


def change(
    queue: Queue[Any], choice: Choice, verb: Verb, places: Sequence[Place], but: QueueKeys | None = None
) -> Steps[int]:
    """Have a script change what is chosen and waits in one of `places`; how many it changed.

    Args:
        but: of a view, the queue that is left alone.
    """
    done = 0
    for member in [shown for shown in (yield from members(queue)) if shown.keys != but]:
        for place in _places(member, choice):
            left = None if choice.limit is None else choice.limit - done
            if place not in places or left == 0:
                continue
            ids = [message.id for message in (yield from _in_place(member, place, choice, left))]
            for start in range(0, len(ids), CHUNK):
                done += len((yield verb(member, place, ids[start : start + CHUNK])))
    return done


def _places(queue: Queue[Any], choice: Choice) -> list[Place]:
    if choice.places is None:
        return places_of(queue)
    return [place for place in choice.places if not queue.viewed or place == queue.part]


def _in_place(queue: Queue[T], place: Place, choice: Choice, limit: int | None) -> Steps[list[Received[T]]]:
    if choice.ids is not None:
        rows = yield from _by_ids(queue, place, choice.ids)
    elif place == "leased":
        rows = yield from _leased(queue)
    elif limit is not None and choice.where is None:
        rows = yield from _first(queue, place, limit)
    else:
        rows = yield from _all_waiting(queue, place)
    now = (yield _calls.stats(queue.keys, queue.name))[0] if choice.where else 0
    return list(_taken(queue, place, rows, choice.where, now))[:limit]


def _taken(
    queue: Queue[T], place: Place, rows: Sequence[Row], where: Filter | None, now: int
) -> Iterator[Received[T]]:
    for row in rows:
        buried = place in {"dead", "expired"}
        message = (
            DeadLetter(row, queue.codec, queue.keys.home)
            if buried
            else Received(row, queue.codec, queue.name)
        )
        if where is None or where.takes(message, now):
            yield message


def _by_ids(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Steps[list[Row]]:
    rows: dict[str, Row] = {}
    for start in range(0, len(ids), CHUNK):
        page = yield _calls.browse(queue.keys, place=place, ids=ids[start : start + CHUNK])
        rows |= {row.id: row for row in page}
    return list(rows.values())


def _first(queue: Queue[Any], place: Place, limit: int) -> Steps[list[Row]]:
    """The first of a place; what is sent or claimed meanwhile may be in the list or not."""
    rows: dict[str, Row] = {}
    first, size = 0, min(CHUNK, limit)
    while len(rows) < limit:
        page: list[Row] = yield _calls.browse(queue.keys, place=place, first=first, limit=size)
        if not page:
            break
        rows |= {row.id: row for row in page}
        first += size
    return list(rows.values())


def _all_waiting(queue: Queue[Any], place: Place) -> Steps[list[Row]]:
    """All of a place, read from its end: what is claimed at its head meanwhile moves no other's rank."""
    rows: dict[str, Row] = {}
    first = -CHUNK
    while page := (yield _calls.browse(queue.keys, place=place, first=first, limit=CHUNK)):
        rows |= {row.id: row for row in reversed(page)}
        first -= CHUNK
    return list(reversed(rows.values()))


def _leased(queue: Queue[Any]) -> Steps[list[Row]]:
    rows: dict[str, Row] = {}
    first = 0
    while page := (yield _calls.browse(queue.keys, place="leased", first=first, limit=LEASES)):
        rows |= {row.id: row for row in page}
        first += LEASES
    return list(rows.values())


def redrive(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Bring them back to their queue."""

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        part: Part = "dead" if place == "dead" else "expired"
        return _calls.redrive(queue.keys, part=part, by=queue.consumer, ids=ids)

    return (yield from change(queue, choice, verb, ("dead", "expired")))


def remove(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Remove them for good."""
    return (yield from change(queue, choice, _purge, ("ready", "scheduled", "dead", "expired")))


def _purge(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
    return _calls.purge(queue.keys, place=place, ids=ids)


def dead_letter(queue: Queue[Any], choice: Choice, reason: str) -> Steps[int]:
    """Send them to the dead-letter queue."""
    cause = Cause.of(reason)

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        return _calls.dead_letter(queue.keys, place=place, ids=ids, by=queue.consumer, cause=cause)

    return (yield from change(queue, choice, verb, ("ready", "scheduled", "expired")))


def expire_now(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Expire them, whatever their time to live."""

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        return _calls.expire_now(queue.keys, place=place, ids=ids)

    return (yield from change(queue, choice, verb, ("ready", "scheduled")))


def deliver_now(queue: Queue[Any], choice: Choice) -> Steps[int]:
    """Make them ready, at the place where they were born."""

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        del place
        return _calls.deliver_now(queue.keys, ids=ids)

    return (yield from change(queue, choice, verb, ("scheduled",)))


def prioritise(queue: Queue[Any], choice: Choice, priority: int) -> Steps[int]:
    """Give them another priority."""
    if type(priority) is not int or priority not in PRIORITIES:
        message = f"priority {priority!r}: use a whole number from 0 (last) to 9 (first)"
        raise InvalidInput(message)

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        return _calls.prioritise(queue.keys, place=place, ids=ids, priority=priority)

    return (yield from change(queue, choice, verb, ("ready", "scheduled")))


def transfer(queue: Queue[Any], choice: Choice, target: Queue[Any], *, keep: bool) -> Steps[int]:
    """Move them to another queue, or copy them; what that queue knows by its id is left where it is.

    Raises:
        InvalidInput: it is the same queue, or there is no such queue.
        CrossSlot: a cluster keeps the two on different nodes.
    """
    yield from find(target)
    only_live(target, "put messages into")
    homes = yield _calls.registered(target.keys.namespace)
    if target.name not in homes:
        message = f"there is no queue {target.name!r} to put messages into: send something to it first"
        raise InvalidInput(message)
    sources = yield from members(queue)
    if sources and all(source.keys == target.keys for source in sources):
        message = f"{target.name!r} is where they come from: name another queue, or redrive dead letters"
        raise InvalidInput(message)
    verb_name = "copied" if keep else "moved"

    def verb(queue: Queue[Any], place: Place, ids: Sequence[str]) -> Call[list[str]]:
        cause = Cause.of(f"{verb_name} from {queue.keys.home} ({place})")
        return _calls.transfer(
            queue.keys, target.keys, place=place, ids=ids, keep=keep, by=queue.consumer, cause=cause
        )

    places: tuple[Place, ...] = ("ready", "scheduled", "dead", "expired")
    return (yield from change(queue, choice, verb, places, but=target.keys))
