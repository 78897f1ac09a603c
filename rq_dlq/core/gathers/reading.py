"""Reading gathers: the ends of their children for `then`, and what people are shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rq_dlq._keys import QueueKeys
from rq_dlq.core.gathers import calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.results import calls as result_calls
from rq_dlq.core.results.results import value_of
from rq_dlq.core.steps.step import CHUNK, Pipeline, chunks
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.failure import moment
from rq_dlq.values.gathered import GatheredChild, GatherStatus
from rq_dlq.values.readable import many
from rq_dlq.values.record import NUMBER_BITS, birth_of
from rq_dlq.values.state import THEN, gather_of, read_state
from rq_dlq.values.wanted import HEAD, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName
    from rq_dlq.core.results.calls import Found
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.gathered import ChildEnd
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.message import MessageRow

_STATE = Wanted("head", state=True, history=False)
OLDEST = 5  # open children that are named
LOOKED = 250  # of which they are chosen


class Child(NamedTuple):
    """A child, as its row has it."""

    queue: str
    id: str
    end: str | None
    asked: bool


def gathered(queue: QueueName, one: Leased[Any]) -> Steps[Mapping[str, GatheredChild]]:
    """The children of the gather of a message, by their ids.

    Raises:
        InvalidInput: the message is not the `then` of a gather.
    """
    if gather_of(one._row.state) != THEN:  # noqa: SLF001 - no part of what users see
        raise InvalidInput(f"message {one.id} of {queue.name!r} is not the `then` of a gather")
    _, children = yield from _read(replace(queue.keys, family=one.original_queue), one.id)
    found: dict[str, GatheredChild] = {}
    for family in dict.fromkeys(child.queue for child in children):
        yield from _add(queue, family, [child for child in children if child.queue == family], found)
    return dict(sorted(found.items()))


def _add(
    queue: QueueName, family: str, children: Sequence[Child], found: dict[str, GatheredChild]
) -> Steps[None]:
    """Add the children of one queue, with their results."""
    there = replace(queue, name=family, keys=replace(queue.keys, family=family))
    for child in children:
        found[child.id] = GatheredChild(child.id, family, cast("ChildEnd | None", child.end))
    for chunk in chunks([child.id for child in children if child.asked and child.end == "acked"], CHUNK):
        meant = [result_calls.Meant(one, -1) for one in chunk]  # one more run of a child may follow
        ends: list[Found] = yield result_calls.result(there.keys, meant)
        for message_id, end in zip(chunk, ends, strict=True):
            found[message_id] = _with_value(there, found[message_id], end)


def _with_value(queue: QueueName, child: GatheredChild, end: Found) -> GatheredChild:
    if isinstance(end, result_calls.ResultEnd) and end.word == "acked" and not end.rest:
        return child  # it was acked without a result
    try:
        return replace(child, value=value_of(queue, child.id, end))
    except RqDlqError:
        return replace(child, dropped=True)


def _read(keys: QueueKeys, message_id: str) -> Steps[tuple[float | None, list[Child]]]:
    """The number of a gather, and its children; of shares that have not come, as their queues have them."""
    gather = calls.own(message_id)
    number: float | None = yield calls.number_of(keys, gather)
    if number is None:
        return None, []
    rows: list[calls.GatherRow] = yield calls.rows(keys, gather, number)
    found: dict[tuple[str, str], Child] = {}
    shares = [row.name for row in rows if " " not in row.name]
    for family in shares:
        for child in (yield from _share(replace(keys, family=family), calls.share(message_id, keys.family))):
            found[family, child.id] = child
    if shares:  # one may have come since, before its queue was read: its children are added here first
        rows = yield calls.rows(keys, gather, number)
    for row in rows:
        family, blank, child_id = row.name.partition(" ")
        if blank:
            found[family, child_id] = Child(family, child_id, row.end, row.asked)
    return number, [*found.values()]


def _share(keys: QueueKeys, gather: str) -> Steps[list[Child]]:
    number: float | None = yield calls.number_of(keys, gather)
    if number is None:
        return []
    found: list[calls.GatherRow] = yield calls.rows(keys, gather, number)
    return [Child(keys.family, row.name, row.end, row.asked) for row in found]


def all_statuses(namespace: str, family: str | None = None) -> Steps[list[GatherStatus]]:
    """The gathers whose `then` waits, of one queue or of all; the oldest first."""
    families: list[str] = [family] if family else (yield queue_calls.registered(namespace))
    found: list[GatherStatus] = []
    for one in families:
        found += yield from statuses_of(QueueKeys(namespace, one))
    return sorted(found, key=lambda status: status.opened_at)


def statuses_of(keys: QueueKeys, most: int | None = None) -> Steps[list[GatherStatus]]:
    """The same of one queue, at most so many."""
    waiting: list[tuple[str, int]] = yield calls.waiting(keys)
    found: list[GatherStatus] = []
    for message_id, _ in waiting[:most]:
        status = yield from status_of(keys, message_id)
        if status is not None:
            found.append(status)
    return found


def status_of(keys: QueueKeys, message_id: str) -> Steps[GatherStatus | None]:
    """A gather; None: the queue has no such one, or its `then` is gone."""
    number, children = yield from _read(keys, message_id)
    there, scheduled = yield Pipeline(
        [
            page_calls.browse(keys, ids=[message_id], place=place, wanted=_STATE)
            for place in (None, "scheduled")
        ]
    )
    rows: Sequence[MessageRow] = there.rows()
    if number is None or not rows:
        return None
    state = read_state(rows[0].state)
    waits = bool(scheduled.ids) and state is not None and not state.deliveries
    open_ones = [child for child in children if child.end is None]
    return GatherStatus(
        message_id,
        keys.family,
        ("closed" if number % 1 else "open") if waits else "due",
        moment(birth_of(rows[0].record) >> NUMBER_BITS),
        moment(state.due) if waits and state is not None else None,
        len(children),
        len(open_ones),
        Counter(child.end for child in children if child.end is not None),
        (yield from _oldest(keys, open_ones)),
    )


def children_of(keys: QueueKeys, message_id: str) -> Steps[list[Child]]:
    """The children of a gather, those that are open first."""
    _, children = yield from _read(keys, message_id)
    return sorted(children, key=lambda child: child.end is not None)


def said_of(keys: QueueKeys, row: MessageRow) -> Steps[str]:
    """The gather of a message, as a part of a sentence; empty: it has none."""
    gather = gather_of(row.state)
    if gather is None:
        return ""
    if gather != THEN:
        message_id, family = calls.then_of(gather)
        return f"; it is a child of the gather {message_id}, whose `then` is in {family}"
    status = yield from status_of(keys, row.id)
    return f"; it is the `then` of a gather: {said(status)}" if status else ""


def said(status: GatherStatus) -> str:
    """How far a gather is, in words."""
    if not status.open:
        done = "its block has not ended" if status.state == "open" else "all have ended"
        return f"{many(status.children, 'child', 'children')}, {done}"
    oldest = f", the oldest {', '.join(status.oldest)}" if status.oldest else ""
    return f"{status.open:,} of {many(status.children, 'child', 'children')} open{oldest}"


def _oldest(keys: QueueKeys, children: Sequence[Child]) -> Steps[tuple[str, ...]]:
    """Ids of the oldest of some children."""
    born: list[tuple[bytes, str]] = []
    some = children[:LOOKED]
    for family in dict.fromkeys(child.queue for child in some):
        ids = [child.id for child in some if child.queue == family]
        page: Page = yield page_calls.browse(replace(keys, family=family), ids=ids, wanted=HEAD)
        born += [(row.record[:7], row.id) for row in page.rows()]
    return tuple(message_id for _, message_id in sorted(born)[:OLDEST])
