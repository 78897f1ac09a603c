"""Maintenance, and the counts of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq import _keys
from rq_dlq._calls.call import Argument, Call, Command, read_hash, read_ids, whole
from rq_dlq.values.counts import QueueStats
from rq_dlq.values.failure import LAPSE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

_BAND = 1 << 42  # lua/lib/order.lua: the score of a ready message is a priority's band and the due time


def sweep(keys: QueueKeys, *, limit: int, seed: float, default_policy: bytes) -> Call[int]:
    """Bring back the messages of lapsed leases. Reads as how many messages were checked."""
    args: dict[str, Argument] = {
        "limit": limit,
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": LAPSE.cells(),
    }
    return Call("sweep", keys, args, (), int)


def promote(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Make due messages ready. Reads as how many."""
    return Call("promote", keys, {"limit": limit}, (), int)


def expire(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Move messages whose time to live is over. Reads as how many were checked."""
    return Call("expire", keys, {"limit": limit}, (), int)


def retire(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Drop dead and expired messages whose retention is over. Reads as how many."""
    return Call("retire", keys, {"limit": limit}, (), int)


def regroup(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Put dead letters that are in no group into theirs. Reads as how many rows were checked."""
    return Call("regroup", keys, {"limit": limit}, (), int)


def stats(keys: QueueKeys, name: str) -> Call[tuple[int, QueueStats]]:
    """Reads as the server's clock (milliseconds) and the counts."""
    return Call("stats", keys, {}, (), partial(_read_stats, name))


def _read_stats(name: str, reply: Any) -> tuple[int, QueueStats]:
    now, ready, scheduled, leased, dead, expired = reply[:6]
    head, due, lapse = (float(cell) if cell else None for cell in reply[6:9])
    paused, *cells = reply[9:]
    totals = {cells[i].decode(): int(cells[i + 1]) for i in range(0, len(cells), 2)}
    totals.pop("birth", None)
    return now, QueueStats(
        name, ready, scheduled, leased, dead, expired,
        oldest=None if head is None else max(0.0, (now - head % _BAND) / 1000),
        next_due=None if due is None else max(0.0, (due - now) / 1000),
        totals=totals,
        paused=bool(paused),
        overdue=max(0.0, *((now - time) / 1000 for time in (due, lapse) if time is not None), 0.0),
    )  # fmt: skip


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
    return float(last if isinstance(last, bytes) else last[-1])  # in pairs, where a pool speaks RESP3


def strategy(keys: QueueKeys) -> Command[bytes]:
    """What becomes of dead letters and expired messages, as JSON; empty: the default."""
    return Command((b"HGET", keys["settings"], b"dead_letter"), lambda reply: reply or b"")


def discarded(keys: QueueKeys) -> Command[int]:
    """How many messages the queue has dropped."""
    return Command((b"HGET", keys["counters"], b"discarded"), lambda reply: int(reply or 0))


def processes(namespace: str) -> Command[dict[bytes, bytes]]:
    """The last reports of the processes that work on queues or maintain them."""
    return Command((b"HGETALL", _keys.processes(namespace)), read_hash)


def note_process(namespace: str, process: str, report: bytes) -> Command[int]:
    """Store the report of a process."""
    return Command((b"HSET", _keys.processes(namespace), process, report), int)


def forget_processes(namespace: str, processes: Sequence[bytes | str]) -> Command[int]:
    """Remove the reports of processes that have ended."""
    return Command((b"HDEL", _keys.processes(namespace), *processes), int)
