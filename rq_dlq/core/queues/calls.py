"""A queue as a whole: its name, its opening, its counts; and its contents if it is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rq_dlq import _keys
from rq_dlq.core.steps.call import (
    Argument,
    Call,
    Command,
    Sender,
    read_ids,
    whole,
)
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.counts import QueueStats
from rq_dlq.values.failure import moment

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.key import Of


_REFUSED: Final = one_of(Word.NOT_EMPTY)


class Left(NamedTuple):
    """Why a queue was not deleted: how many messages are in it, and how many lists that a job committed."""

    ready: int
    scheduled: int
    leased: int
    dead: int
    expired: int
    committed: int

    def __str__(self) -> str:
        counts = self._asdict() | {"committed lists of jobs": self.committed}
        del counts["committed"]
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def delete(sender: Sender, *, force: bool) -> Call[int | Left]:
    """Remove a queue's keys, also with messages in it if `force`.

    Reads as the number of messages that were removed; or, if that was refused, the contents of the queue.
    """

    def read(reply: Any) -> int | Left:
        if not isinstance(reply, list):
            return int(reply)
        why, *left = whole(reply, 1 + len(Left._fields))
        _REFUSED[why]
        return Left(*left)

    return Call("delete", sender.keys, {"number": sender.number, "force": int(force)}, (), read)


def register(keys: QueueKeys) -> Command[int]:
    """Add the name of a queue to the list of queues."""
    return Command((b"SADD", _keys.queues(keys.namespace), keys.family), int)


def unregister(keys: QueueKeys) -> Command[int]:
    """Remove the name from the list of queues."""
    return Command((b"SREM", _keys.queues(keys.namespace), keys.family), int)


def is_registered(namespace: str, name: str) -> Command[int]:
    """Whether a queue of this name was ever used."""
    return Command((b"SISMEMBER", _keys.queues(namespace), name), int)


def open_as(keys: QueueKeys, opening: str) -> Command[int]:
    """Open a queue, unless it is open; the opening is a word that no other opening has."""
    return Command((b"HSETNX", keys["settings"], b"opening", opening), int)


def close(keys: QueueKeys) -> Command[int]:
    """Close a queue: sends to it are refused until it is opened again."""
    return Command((b"HDEL", keys["settings"], b"opening"), int)


def opening(keys: QueueKeys) -> Command[str]:
    """The opening of a queue; empty: it is not open."""
    return Command((b"HGET", keys["settings"], b"opening"), lambda reply: (reply or b"").decode())


def heeded(keys: QueueKeys) -> Command[set[Of]]:
    """Which of the keys and the dependencies of its messages a queue heeds."""
    settings: dict[Of, bytes] = {"key": b"per_key", "dependency": b"breaker"}
    return Command(
        (b"HMGET", keys["settings"], *settings.values()),
        lambda reply: {of for of, value in zip(settings, reply, strict=True) if value},
    )


def was_sent_to(keys: QueueKeys) -> Command[int]:
    """Whether anything was ever sent to a queue."""
    return Command((b"EXISTS", keys["messages"], keys["counters"]), int)


def add_aliases(namespace: str, names: Sequence[str]) -> Command[int]:
    """Record names that policies give to dead-letter or expiry queues."""
    return Command((b"SADD", _keys.aliases(namespace), *names), int)


def is_alias(namespace: str, name: str) -> Command[int]:
    """Whether a policy ever gave this name; the queues' settings show whether one still does."""
    return Command((b"SISMEMBER", _keys.aliases(namespace), name), int)


def given_names(keys: QueueKeys) -> Command[list[str]]:
    """The names of a queue's dead-letter and expiry queues that a policy gave; empty: none.

    Then the aliases of the dead-letter queue, separated by blanks, if it has any.
    """
    parts = (b"HGET", keys.settings, b"names")
    return Command(parts, lambda reply: (reply or b"").decode(errors="replace").split("\t"))


MOST_NOTES = 1_000  # as in lua/audit.lua, note
NO_TOTALS = frozenset({b"birth", b"rate_until", b"rate_spent"})  # a time of a rate has a fraction
_BAND = 1 << 42  # lua/order.lua: the score of a ready message is a priority's band and the due time


def counted(keys: QueueKeys, *names: str) -> Command[list[int]]:
    """These counters of a queue; 0 for one that it does not have."""
    parts: tuple[Argument, ...] = (b"HMGET", keys["counters"], *names)
    return Command(parts, lambda reply: [int(float(cell or 0)) for cell in reply])


def stats(keys: QueueKeys, name: str) -> Call[tuple[int, QueueStats]]:
    """Reads as the server's clock (milliseconds) and the counts."""
    return Call("stats", keys, {}, (), partial(_read_stats, name))


def _read_stats(name: str, reply: Any) -> tuple[int, QueueStats]:
    now, ready, scheduled, leased, dead, expired = reply[:6]
    head, due, lapse = (float(cell) if cell else None for cell in reply[6:9])
    pause, orphaned, blocked, gathers, opened, *cells = reply[9:]
    counters = zip(cells[::2], cells[1::2], strict=True)
    totals = {name.decode(): int(count) for name, count in counters if name not in NO_TOTALS}
    return now, QueueStats(
        name, ready, scheduled, leased, dead, expired,
        oldest=waited(now, head),
        next_due=None if due is None else max(0.0, (due - now) / 1000),
        totals=totals,
        paused=bool(pause),
        overdue=max(0.0, *((now - time) / 1000 for time in (due, lapse) if time is not None), 0.0),
        orphaned=orphaned,
        blocked=blocked,
        gathers=gathers,
        oldest_gather=max(0.0, (now - opened) / 1000) if gathers else None,
        until=moment(pause) if pause > 1 else None,
    )  # fmt: skip


def waited(now: int, head: float | None) -> float | None:
    """Seconds since a ready message became due, by its score; None: there is none."""
    return None if head is None else max(0.0, (now - head % _BAND) / 1000)


def is_limited(keys: QueueKeys) -> Command[bool]:
    """Whether claims may have to wait while messages are ready: the queue has a rate or a `max_in_flight`."""
    return Command((b"HMGET", keys["settings"], b"rate", b"max_in_flight"), any)


def registered(namespace: str) -> Command[list[str]]:
    """The names of all queues, sorted."""
    return Command((b"SMEMBERS", _keys.queues(namespace)), lambda reply: sorted(read_ids(reply)))


def clock() -> Command[int]:
    """The server's clock in milliseconds, for planning; the scripts read it themselves."""
    return Command((b"TIME",), _read_clock)


def _read_clock(reply: Any) -> int:
    seconds, micros = whole(reply, 2)
    return int(seconds) * 1000 + int(micros) // 1000


def first_score(keys: QueueKeys, index: str) -> Command[float | None]:
    """The lowest score of an index; None: the index is empty."""
    return Command((b"ZRANGE", keys[index], 0, 0, b"WITHSCORES"), _read_score)


def _read_score(reply: Any) -> float | None:
    if not reply:
        return None
    last: Any = reply[-1]
    return float(last if isinstance(last, bytes) else last[-1])  # in pairs, if a pool speaks RESP3


def note(namespace: str, **fields: str | int) -> Command[bytes]:
    """Add a note to the audit of changes that no queue keeps; the last thousand stay."""
    cells = [cell for field in fields.items() for cell in field]
    return Command((b"XADD", _keys.audit(namespace), b"MAXLEN", b"~", MOST_NOTES, b"*", *cells))


def whoami() -> Command[str]:
    """The Redis user of the connection; empty if the server does not tell it."""
    return Command((b"ACL", b"WHOAMI"), lambda reply: (reply or b"").decode(), optional=True)
