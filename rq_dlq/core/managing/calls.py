"""Pausing a queue, or one of its lanes, and resetting its totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.core.steps.call import Call
from rq_dlq.values.key import lane_of

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Argument, Sender
    from rq_dlq.values.key import Of


class Until(NamedTuple):
    """When a pause ends, milliseconds: a time, or a duration from now; neither: at `resume`."""

    ends: int | None = None
    after: int | None = None

    def arguments(self) -> dict[str, Argument]:
        """Those of a script."""
        return {name: b"" if value is None else value for name, value in self._asdict().items()}


NO_END = Until()
IS_DOWN, HAS_PASSED = -1, -2
"""Why a pause or a resume did nothing: the breaker is open, and stays so; the end has passed."""


def pause(keys: QueueKeys, *, paused: bool, until: Until = NO_END, by: str = "", user: str = "") -> Call[int]:
    """Pause or resume deliveries. Reads as 1 if anything changed, 0 if not, HAS_PASSED if nothing was done.

    Args:
        until: when the pause ends.
        by: the operator, as JSON.
        user: of Redis.
    """
    return Call("pause", keys, {"paused": int(paused), **until.arguments(), "by": by, "user": user}, (), int)


def pause_lane(
    keys: QueueKeys,
    of: Of,
    name: str,
    *,
    paused: bool,
    until: Until = NO_END,
    close: bool = False,
    by: str = "",
    user: str = "",
) -> Call[int]:
    """Pause or resume deliveries of a key or a dependency; otherwise like `pause`.

    Reads as 1 if anything changed, 0 if not, IS_DOWN or HAS_PASSED if nothing was done.

    Args:
        close: also close the breaker of a dependency.
    """
    args: dict[str, Argument] = {
        "number": lane_of(name, of),
        "of": of,
        "name": name,
        "paused": int(paused),
        **until.arguments(),
        "close": int(close),
        "by": by,
        "user": user,
    }
    return Call("pause_lane", keys, args, (), int)


def probe_lane(sender: Sender, name: str, *, seed: float, act: str = "") -> Call[int]:
    """Let one message through that needs a dependency which is down or paused. Reads as how many.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
    """
    args: dict[str, Argument] = {
        "number": sender.number, "lane": lane_of(name, "dependency"), "seed": seed, "act": act,
    }  # fmt: skip
    return Call("probe_lane", sender.keys, args, (), int)


def limit_lane(keys: QueueKeys, name: str, limit: int | None, *, by: str = "", user: str = "") -> Call[int]:
    """Set a key's own limit; None: remove it.

    Reads as 1 if that changed anything, 0 if not, -1 if the rule of the queue is not a limit.

    Args:
        by: the operator, as JSON.
        user: of Redis.
    """
    args: dict[str, Argument] = {
        "number": lane_of(name),
        "name": name,
        "limit": b"" if limit is None else limit,
        "by": by,
        "user": user,
    }
    return Call("limit_lane", keys, args, (), int)


def reset(keys: QueueKeys, *, act: str = "") -> Call[int]:
    """Set the totals to zero. Reads as how many messages are in the queue.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
    """
    return Call("reset", keys, {"act": act}, (), int)
