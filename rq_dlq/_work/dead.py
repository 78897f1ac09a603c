"""Dead letters: which, by kind, and back to their queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq import _calls
from rq_dlq._names import check_id
from rq_dlq._work.queue import Queue, check_limit, place_of
from rq_dlq._work.steps import CHUNK, Steps
from rq_dlq._work.views import members
from rq_dlq.message import DeadLetter, ErrorGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.filters import Filter
    from rq_dlq.message import Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters; None: no condition."""

    ids: Sequence[str] | None = None
    group: str | None = None
    reason: str | None = None
    since: float | None = None
    where: Filter | None = None

    def __post_init__(self) -> None:
        for message_id in self.ids or ():
            check_id(message_id)

    @property
    def selects_all(self) -> bool:
        """There is no condition."""
        conditions = (self.ids, self.group, self.reason, self.since, self.where)
        return all(condition is None for condition in conditions)

    def takes(self, letter: DeadLetter[Any], now: int = 0) -> bool:
        """Whether a dead letter is meant."""
        return (
            (self.group is None or letter.fingerprint == self.group)
            and (self.reason is None or letter.reason == self.reason)
            and (self.since is None or letter.died_at.timestamp() >= self.since)
            and (self.where is None or self.where.takes(letter, now))
        )


def dead_letters(queue: Queue[T], wanted: DeadFilter, limit: int | None = None) -> Steps[list[DeadLetter[T]]]:
    """The dead letters that a filter takes, the oldest first; none is consumed."""
    check_limit(limit)
    shown = yield from members(queue)
    found: list[DeadLetter[T]] = []
    for member in shown:
        found += yield from _dead_letters(member, wanted, limit)
    if len(shown) > 1:
        found.sort(key=lambda letter: letter.died_at)
    return found[:limit]


def _dead_letters(queue: Queue[T], wanted: DeadFilter, limit: int | None) -> Steps[list[DeadLetter[T]]]:
    now = (yield _calls.stats(queue.keys, queue.name))[0] if wanted.where else 0
    found: list[DeadLetter[T]] = []
    for_ids = list(wanted.ids or ())
    first = 0
    while limit is None or len(found) < limit:
        if wanted.ids is None:
            page: list[Row] = yield _calls.browse(queue.keys, place=place_of(queue), first=first, limit=CHUNK)
        else:
            chunk = for_ids[first : first + CHUNK]
            page = (yield _calls.browse(queue.keys, ids=chunk)) if chunk else []
            page = [row for row in page if row.state.startswith(queue.part.encode())]
            if chunk and not page:
                first += CHUNK
                continue
        if not page:
            break
        first += CHUNK
        letters = (DeadLetter(row, queue.codec, queue.keys.home) for row in page)
        found += (letter for letter in letters if wanted.takes(letter, now))
    return found


def groups(queue: Queue[Any], wanted: DeadFilter) -> Steps[list[ErrorGroup]]:
    """The dead letters by kind, the largest group first."""
    found: dict[tuple[str, str], ErrorGroup] = {}
    for letter in (yield from dead_letters(queue, wanted)):
        cause = letter.cause
        key = (cause.fingerprint, letter.reason)
        known = found.get(key)
        found[key] = ErrorGroup(
            fingerprint=cause.fingerprint,
            reason=letter.reason,
            error=": ".join(filter(None, (cause.type, cause.message))),
            count=known.count + 1 if known else 1,
            first_seen=known.first_seen if known else letter.died_at,
            last_seen=letter.died_at,
            sample_id=letter.id,
        )
    return sorted(found.values(), key=lambda group: (-group.count, group.fingerprint))


def redrive(queue: Queue[Any], wanted: DeadFilter, by: str, limit: int | None = None) -> Steps[int]:
    """Bring dead letters back to their queue: how many. What dies again meanwhile is left."""
    redriven = 0
    for member in (yield from members(queue)):
        left = None if limit is None else limit - redriven
        if wanted.selects_all and limit is None:
            redriven += yield from _redrive_all(member, by)
            continue
        letters = yield from _dead_letters(member, wanted, left)
        for start in range(0, len(letters[:left]), CHUNK):
            chunk = [letter.id for letter in letters[:left][start : start + CHUNK]]
            redriven += len((yield _calls.redrive(member.keys, part=member.part, by=by, ids=chunk)))
    return redriven


def _redrive_all(queue: Queue[Any], by: str) -> Steps[int]:
    now, counts = yield _calls.stats(queue.keys, queue.name)
    most = counts.dead if queue.part == "dead" else counts.expired
    newest = yield _calls.browse(queue.keys, place=place_of(queue), first=-1, limit=1)
    # After a step back of the clock the newest may have died in what is now the future.
    deaths = [DeadLetter(row, queue.codec, "").died_at for row in newest]
    before = max([now, *(round(at.timestamp() * 1000) for at in deaths)])
    redriven = 0
    while redriven < most:
        ids = yield _calls.redrive(
            queue.keys, part=queue.part, by=by, limit=min(CHUNK, most - redriven), before=before
        )
        redriven += len(ids)
        if not ids:
            break
    return redriven
