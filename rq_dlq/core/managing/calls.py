"""Pausing a queue, and resetting its totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.core.steps.call import Call

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys


def pause(keys: QueueKeys, *, paused: bool, by: str = "", user: str = "") -> Call[bool]:
    """Stop handing out messages, or go on. Reads as whether that changed anything.

    Args:
        by: who asks, as JSON.
        user: of Redis.
    """
    return Call("pause", keys, {"paused": int(paused), "by": by, "user": user}, (), bool)


def reset(keys: QueueKeys, *, act: str = "") -> Call[int]:
    """Set the totals to zero. Reads as how many messages are in the queue.

    Args:
        act: for the audit (`core/queues/who.py`); empty: no note.
    """
    return Call("reset", keys, {"act": act}, (), int)
