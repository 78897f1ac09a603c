"""Maintenance of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.core.steps.call import Argument, Call, Command
from rq_dlq.values.failure import LAPSE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys


def sweep(keys: QueueKeys, *, limit: int, seed: float, default_policy: bytes) -> Call[int]:
    """Redeliver the messages of lapsed leases. Reads as how many messages were checked."""
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
    """Move messages whose time to live has expired. Reads as how many were checked."""
    return Call("expire", keys, {"limit": limit}, (), int)


def retire(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Drop dead and expired messages after their retention. Reads as how many."""
    return Call("retire", keys, {"limit": limit}, (), int)


def regroup(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Put dead letters that are in no group into theirs. Reads as how many rows were checked."""
    return Call("regroup", keys, {"limit": limit}, (), int)


def reindex(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Put messages back that are in no index, while there are any. Reads as how many were checked."""
    return Call("reindex", keys, {"limit": limit}, (), int)


def strategy(keys: QueueKeys) -> Command[bytes]:
    """Where dead letters and expired messages go, as JSON; empty: the default."""
    return Command((b"HGET", keys["settings"], b"dead_letter"), lambda reply: reply or b"")


def discarded(keys: QueueKeys) -> Command[int]:
    """How many messages the queue has dropped."""
    return Command((b"HGET", keys["counters"], b"discarded"), lambda reply: int(reply or 0))
