"""Pausing a queue, or one of its lanes, and resetting its totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word, one_of
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
_PAUSED: Final = one_of(Word.DONE, Word.UNCHANGED, Word.PAST)
_LANE_PAUSED: Final = one_of(Word.DONE, Word.UNCHANGED, Word.PAST, Word.DOWN)
_LIMITED: Final = one_of(Word.DONE, Word.UNCHANGED, Word.UNLIMITED)


def pause(
    keys: QueueKeys, *, paused: bool, until: Until = NO_END, by: str = "", user: str = ""
) -> Call[Word]:
    """Pause or resume deliveries. Reads as DONE, UNCHANGED or PAST (the end has passed).

    Args:
        until: when the pause ends.
        by: the operator, as JSON.
        user: of Redis.
    """
    args = {"paused": int(paused), **until.arguments(), "by": by, "user": user}
    return Call("pause", keys, args, (), _PAUSED)


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
) -> Call[Word]:
    """Pause or resume deliveries of a key or a dependency; otherwise like `pause`.

    Reads also as DOWN: its breaker is open, and stays so.

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
    return Call("pause_lane", keys, args, (), _LANE_PAUSED)


def probe_lane(sender: Sender, name: str, *, seed: float, act: str = "") -> Call[int]:
    """Let one message through that needs a dependency which is down or paused. Reads as how many.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
    """
    args: dict[str, Argument] = {
        "number": sender.number, "lane": lane_of(name, "dependency"), "seed": seed, "act": act,
    }  # fmt: skip
    return Call("probe_lane", sender.keys, args, (), int)


def limit_lane(keys: QueueKeys, name: str, limit: int | None, *, by: str = "", user: str = "") -> Call[Word]:
    """Set a key's own limit; None: remove it.

    Reads as DONE, UNCHANGED, or UNLIMITED: the rule of the queue is not a limit.

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
    return Call("limit_lane", keys, args, (), _LIMITED)


def reset(keys: QueueKeys, *, act: str = "") -> Call[int]:
    """Set the totals to zero. Reads as how many messages are in the queue.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
    """
    return Call("reset", keys, {"act": act}, (), int)
