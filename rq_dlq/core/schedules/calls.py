"""Schedules: recurring sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rq_dlq.core.steps.call import Argument, Call, Command, read_hash, whole
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys

_WRITTEN: Final = one_of(Word.DONE, Word.OUTDATED, Word.EARLY, Word.FULL, Word.DELETED)


class DueSchedules(NamedTuple):
    """The server's clock, and the names and records of the schedules that are due."""

    now: int
    rows: Sequence[tuple[str, bytes]]


def due(keys: QueueKeys, *, limit: int) -> Call[DueSchedules]:
    """The schedules of a queue that are due; with a limit of 0 only the clock."""
    return Call("due", keys, {"limit": limit}, (), _read_due)


def _read_due(reply: Any) -> DueSchedules:
    now, *cells = whole(reply, 1, and_each=2)
    return DueSchedules(now, [(cells[i].decode(), cells[i + 1]) for i in range(0, len(cells), 2)])


def schedule(
    keys: QueueKeys,
    name: str,
    *,
    known: bytes,
    record: bytes,
    at: int | None,
    tick: int = 0,
    ttl: int = 0,
    opening: str = "",
    act: str = "",
    items: Sequence[Argument] = (),
) -> Call[Word]:
    """Write the record of a schedule; with the message of a tick, send that.

    Args:
        known: the record as it was read; empty: no record.
        record: empty: remove it.
        at: when the schedule is due, milliseconds; None: it is paused.
        tick: nothing is done before.
        ttl: of the message, as in `values/times.py`.
        opening: of the queue, when the client opened it; empty: any.
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
        items: id and payload of the message.

    Returns:
        A call that reads as DONE; or nothing was done: OUTDATED: the record is another one by now; EARLY;
        FULL: the queue has no room for the message; or DELETED: the queue was, since its opening.
    """
    args: dict[str, Argument] = {
        "name": name,
        "known": known,
        "record": record,
        "at": "" if at is None else at,
        "tick": tick,
        "ttl": ttl,
        "opening": opening,
        "act": act,
    }
    return Call("schedule", keys, args, items, _WRITTEN)


def record_of(keys: QueueKeys, name: str) -> Command[bytes]:
    """The record of a schedule; empty: it does not exist."""
    return Command((b"HGET", keys["schedules"], name), lambda reply: reply or b"")


def records(keys: QueueKeys) -> Command[dict[str, bytes]]:
    """The records of all schedules of a queue, by their names."""
    parts = (b"HGETALL", keys["schedules"])
    return Command(parts, lambda reply: {name.decode(): text for name, text in read_hash(reply).items()})
