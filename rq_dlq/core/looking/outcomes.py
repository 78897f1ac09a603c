"""Reads the outcome history of a queue, and trims it after archiving."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.looking import calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import check_limit, only_live
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown
from rq_dlq.values.outcome import Outcome, RawOutcome, after, is_event_id, read_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState

PAGE = 1_000  # entries in one reply


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a queue's outcome history.

    Attributes:
        count: how many entries there are.
        first: the id of the oldest entry; None: the history is empty.
        last: the id of the newest.
    """

    count: int
    first: str | None
    last: str | None


def extent(keys: QueueKeys) -> Steps[Extent]:
    """The range of the outcome history."""
    count, oldest, newest = yield Pipeline(
        [calls.count(keys), calls.page(keys, limit=1), calls.newest(keys, limit=1)]
    )
    return Extent(count, oldest[0][0] if oldest else None, newest[0][0] if newest else None)


def entries(
    keys: QueueKeys, *, start: str = "-", end: str = "+", limit: int | None = None
) -> Steps[list[RawOutcome]]:
    """The entries from `start` to `end`, both included, in their order; at most `limit`."""
    found: list[RawOutcome] = []
    while limit is None or len(found) < limit:
        wanted = PAGE if limit is None else min(PAGE, limit - len(found))
        page: list[RawOutcome] = yield calls.page(keys, start=start, end=end, limit=wanted)
        found += page
        if len(page) < wanted:
            break
        start = after(page[-1][0])
    return found


def read_outcomes(
    queue: QueueState[Any], since: datetime | str | None, limit: int | None
) -> Steps[list[Outcome]]:
    """The events of a queue, the oldest first.

    Args:
        since: a time, or the id of an event, after which to begin; None: the oldest.
        limit: the most events; None: all.

    Raises:
        InvalidInput: an argument is not valid, or the queue has no outcome history of its own.
    """
    check_limit(limit)
    return _of_live(queue, partial(entries, queue.keys, start=_start(since), limit=limit))


def last_outcomes(queue: QueueState[Any], count: int) -> Steps[list[Outcome]]:
    """The newest events of a queue, the oldest of them first."""
    return _of_live(queue, partial(_newest, queue.keys, count))


def _newest(keys: QueueKeys, count: int) -> Steps[list[RawOutcome]]:
    return (yield calls.newest(keys, limit=count))  # type: ignore[no-any-return]


def _of_live(queue: QueueState[Any], read: Callable[[], Steps[list[RawOutcome]]]) -> Steps[list[Outcome]]:
    def begin(_: object) -> Steps[list[Outcome]]:
        only_live(queue, "read the outcomes of")
        return [read_outcome(queue.keys.family, entry) for entry in (yield from read())]

    return behind(queue, begin)


def _start(since: object) -> str:
    if since is None:
        return "-"
    if isinstance(since, datetime) and since.tzinfo is not None:
        return str(max(0, int(since.timestamp() * 1000)))
    if isinstance(since, str) and is_event_id(since):
        return after(since)
    message = f"since {shown(since)}: pass a datetime with its time zone, or the event_id of an outcome"
    raise InvalidInput(message)
