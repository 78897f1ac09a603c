"""The dead letters of a queue: look at them, group them, bring them back, remove them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _work
from rq_dlq._names import check_id
from rq_dlq._work import DeadFilter, Queue, Steps
from rq_dlq.durations import Duration, milliseconds, shown
from rq_dlq.errors import InvalidInput
from rq_dlq.filters import Filter
from rq_dlq.selection import Selection, choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.broker import Broker
    from rq_dlq.message import DeadLetter, ErrorGroup

T = TypeVar("T")


class DeadLetters(Generic[T]):
    """`queue.dlq`; nothing here consumes a dead letter."""

    def __init__(self, work: Queue[T], broker: Broker) -> None:
        self._work = work
        self._broker = broker

    def groups(self, *, reason: str | None = None, since: datetime | None = None) -> list[ErrorGroup]:
        """The dead letters by kind of failure, the largest group first."""
        return self._broker.run_steps(_work.groups(self._work, dead_filter(None, None, reason, since)))

    def browse(
        self,
        *,
        ids: Sequence[str] | None = None,
        group: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        where: str | None = None,
        limit: int | None = 20,
    ) -> list[DeadLetter[T]]:
        """The dead letters that meet the conditions, the oldest first.

        Args:
            group: a fingerprint, as `groups` gives it.
            reason: exhausted, poison, unprocessable or expired.
            where: a condition, such as "tenant = 'a' and delivery_count > 2" (`rq_dlq.filters`).
            limit: at most; None: all.
        """
        wanted = dead_filter(ids, group, reason, since, where)
        return self._broker.run_steps(_work.dead_letters(self._work, wanted, limit))

    def redrive(
        self,
        *,
        ids: Sequence[str] | None = None,
        group: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        where: str | None = None,
    ) -> int:
        """Bring dead letters back to their queue: same id, fresh budget, history kept.

        Without a condition all that are dead when it begins. Safe to repeat, and to stop half-way.

        Returns:
            How many came back.
        """
        wanted = dead_filter(ids, group, reason, since, where)
        return self._broker.run_steps(_work.redrive(self._work, wanted, self._work.consumer))

    def select(
        self, where: str | None = None, *, ids: Sequence[str] | None = None, limit: int | None = None
    ) -> Selection[T]:
        """Choose dead letters, to count, move or otherwise manage them; see `Queue.select`."""
        return Selection(self._work, self._broker, choice(where, ids, None, limit))

    def purge(
        self,
        *,
        ids: Sequence[str] | None = None,
        older_than: Duration | None = None,
        all: bool = False,
    ) -> int:
        """Remove dead letters for good.

        Returns:
            How many were removed.

        Raises:
            InvalidInput: not exactly one of the three arguments is given.
        """
        return self._broker.run_steps(purge(self._work, ids, older_than, everything=all))


def dead_filter(
    ids: Sequence[str] | None,
    group: str | None,
    reason: str | None,
    since: datetime | None,
    where: str | None = None,
) -> DeadFilter:
    """Read the conditions that a user typed."""
    if since is not None and (not isinstance(since, datetime) or since.tzinfo is None):
        message = f"since {shown(since)}: pass a datetime with a time zone, such as datetime.now(UTC)"
        raise InvalidInput(message)
    return DeadFilter(
        ids_of(ids),
        group,
        reason,
        since.timestamp() if since else None,
        None if where is None else Filter.parse(where),
    )


def ids_of(ids: Sequence[str] | None) -> Sequence[str] | None:
    """Check the ids that a user typed."""
    if ids is None:
        return None
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        message = f"ids is a list of message ids, not {shown(ids)}; for a single one write ids=[…]"
        raise InvalidInput(message)
    ids = list(ids)
    for message_id in ids:
        check_id(message_id)
    return ids


def purge(
    work: Queue[Any], ids: Sequence[str] | None, older_than: Duration | None, *, everything: bool
) -> Steps[int]:
    """The steps of `DeadLetters.purge`, in either colour."""
    if sum((ids is not None, older_than is not None, everything)) != 1:
        message = "purge removes for good: say which, with ids=…, older_than=… or all=True"
        raise InvalidInput(message)
    age = None if older_than is None else milliseconds(older_than, name="older_than")
    return _work.purge(work, ids=ids_of(ids), older_than=age)
