"""Reads and checks the arguments that choose messages, for both colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from rq_dlq._work import Choice
from rq_dlq.errors import InvalidInput
from rq_dlq.filters import Filter
from rq_dlq.values.counts import ErrorGroup
from rq_dlq.values.durations import Duration, milliseconds, shown

if TYPE_CHECKING:
    from rq_dlq._calls import Place

Order: TypeAlias = Literal["oldest", "newest"]
PLACES = ("ready", "scheduled", "leased", "dead", "expired")
ORDERS = ("oldest", "newest")
REASONS = ("exhausted", "poison", "unprocessable", "expired")
_FINGERPRINT = re.compile("[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Conditions(TypedDict, total=False):
    """Conditions on dead letters. Those that meet all of them are chosen; without conditions, all are.

    Each verb takes `where`, too: a condition in words (`rq_dlq.filters`).

    Attributes:
        ids: the message's id is one of these; the order is that of the place, not of the list.
        group: an `ErrorGroup` from `groups`, or its fingerprint, whole.
        reason: exhausted, poison, unprocessable or expired.
        since: it died at this time or later; a datetime with a time zone.
        older_than: it died at least this long ago: seconds, a timedelta or "30d".
    """

    ids: Sequence[str] | None
    group: str | ErrorGroup | None
    reason: str | None
    since: datetime | None
    older_than: Duration | None


def dead_choice(
    conditions: Mapping[str, object],
    *,
    where: str | None = None,
    limit: int | None = None,
    order: Order = "oldest",
) -> Choice:
    """Read what a user typed of dead letters.

    Args:
        conditions: by their names, which are checked: those of `Conditions`.

    Raises:
        InvalidInput: an argument makes no sense, or there is no such condition.
        FilterError: the condition `where` makes no sense.
    """
    known = ("where", *Conditions.__annotations__)
    for name in conditions:
        if name not in known:
            closest = get_close_matches(name, known, n=1, cutoff=0)[0]
            message = f"there is no condition {name!r} here; the closest is {closest!r}: {', '.join(known)}"
            raise InvalidInput(message)
    return choice(where=where, limit=limit, order=order, **conditions)  # type: ignore[arg-type]


def choice(
    *,
    places: Sequence[Place] | None = None,
    ids: Sequence[str] | None = None,
    group: str | ErrorGroup | None = None,
    reason: str | None = None,
    since: datetime | None = None,
    older_than: Duration | None = None,
    where: str | None = None,
    limit: int | None = None,
    order: Order = "oldest",
) -> Choice:
    """Read what a user typed.

    Raises:
        InvalidInput: an argument is not valid.
        FilterError: the condition is not valid.
    """
    if order not in ORDERS:
        message = f"order {shown(order)}: pass 'oldest' or 'newest', whichever is to come first"
        raise InvalidInput(message)
    return Choice(
        places=_places_of(places),
        ids=_ids_of(ids),
        where=None if where is None else Filter.parse(where),
        group=_group_of(group),
        reason=_reason_of(reason),
        since=_moment_of(since),
        older_than=None if older_than is None else milliseconds(older_than, name="older_than"),
        limit=limit,
        newest=order == "newest",
    )


def _places_of(places: Sequence[Place] | None) -> Sequence[Place] | None:
    if places is None:
        return None
    if (
        isinstance(places, str)
        or not isinstance(places, Sequence)
        or any(place not in PLACES for place in places)
    ):
        message = f"places {shown(places)}: pass a list of {', '.join(PLACES)}"
        raise InvalidInput(message)
    return tuple(dict.fromkeys(places))


def _ids_of(ids: Sequence[str] | None) -> Sequence[str] | None:
    if ids is None:
        return None
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        message = f"ids is a list of message ids, not {shown(ids)}; for a single one write ids=[…]"
        raise InvalidInput(message)
    return tuple(ids)


def _group_of(group: str | ErrorGroup | None) -> str | None:
    """A fingerprint, whole: the beginning of one might be that of several groups."""
    if isinstance(group, ErrorGroup):
        return group.fingerprint
    if group is None or (isinstance(group, str) and _FINGERPRINT.fullmatch(group)):
        return group
    message = f"group {shown(group)}: pass an ErrorGroup, or its fingerprint: all twelve hex digits"
    raise InvalidInput(message)


def _reason_of(reason: str | None) -> str | None:
    if reason is not None and reason not in REASONS:
        message = f"reason {shown(reason)}: pass one of {', '.join(REASONS)}"
        raise InvalidInput(message)
    return reason


def _moment_of(since: datetime | None) -> int | None:
    """Milliseconds, rounded up."""
    if since is None:
        return None
    if not isinstance(since, datetime) or since.tzinfo is None:
        message = f"since {shown(since)}: pass a datetime with a time zone, such as datetime.now(UTC)"
        raise InvalidInput(message)
    return -(-(since - _EPOCH) // timedelta(milliseconds=1))


def check_purge(chosen: Choice, *, everything: bool) -> None:
    """Check that a purge has either a condition or `all`.

    Raises:
        InvalidInput: it has neither, or both.
    """
    if chosen.is_all != everything:
        message = "purge removes for good: pass a condition (ids, older_than, …) or all=True"
        raise InvalidInput(message)
