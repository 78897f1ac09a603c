"""The conditions that choose dead letters, for both colours."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, TypedDict

from rq_dlq.core.choosing.choice import Choice, Order
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.durations import Duration


class Conditions(TypedDict, total=False):
    """Conditions on dead letters. Dead letters that meet all of them are chosen.

    Each verb also takes `where`, a condition in words (`rq_dlq.filters`).

    Attributes:
        ids: the message's id is one of these; the list does not determine the order.
        key: the message was sent with this key.
        group: an `ErrorGroup` from `groups`, or its fingerprint; its first six digits mean all groups of one
            error class and place in the code.
        reason: exhausted, poison, unprocessable or expired.
        since: it died at this time or later; a datetime with a time zone.
        older_than: it died at least this long ago: seconds, a timedelta or "30d".

    Examples:
        >>> mails.dlq.redrive(reason="poison", older_than="1d", dry_run=True).eligible
        0
        >>> [letter.id for letter in mails.dlq.browse(ids=["mail-1"], where="body.to = 'bob'")]
        ['mail-1']
    """

    ids: Sequence[str] | None
    key: str | None
    group: str | ErrorGroup | None
    reason: str | None
    since: datetime | None
    older_than: Duration | None


_OF_VERBS = ("limit", "order", "all")  # arguments of most verbs


def dead_choice(
    conditions: Mapping[str, object],
    *,
    where: str | None = None,
    limit: int | None = None,
    order: Order = "oldest",
    all: bool = False,
) -> Choice:
    """Read the user's choice of dead letters.

    Args:
        conditions: conditions by their names, which are checked against `Conditions`.

    Raises:
        InvalidInput: an argument is not valid, or there is no such condition.
        FilterError: the condition `where` is not valid.
    """
    for name in conditions:
        if name not in Conditions.__annotations__:
            known = [other for other in ("where", *Conditions.__annotations__, *_OF_VERBS) if other != name]
            closest = "".join(f"; the closest is {match!r}" for match in get_close_matches(name, known, n=1))
            raise InvalidInput(
                f"there is no condition {name!r}{closest}. The conditions are {', '.join(known)}"
            )
    return Choice(where=where, limit=limit, order=order, all=all, **conditions)  # type: ignore[arg-type]
