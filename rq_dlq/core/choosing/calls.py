"""The verbs that change waiting messages. `act`: the audit's entry (`core/queues/who.py`); empty: no note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rq_dlq import _keys
from rq_dlq.core.pages.calls import END, START, Position, between
from rq_dlq.core.steps.call import Argument, Call, Place, Sender
from rq_dlq.values.changed import Changed

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.failure import Cause


class ChangedRange(NamedTuple):
    """How many messages a call on a range changed, and the next position (None: the range has ended)."""

    changed: Changed
    next: Position | None


def redrive(
    sender: Sender,
    *,
    place: Place,
    by: str,
    ids: Sequence[str] = (),
    limit: int = 0,
    before: int | None = None,
    act: str = "",
) -> Call[Changed]:
    """Redrive dead letters: these, or the oldest that died by a time. Reads as how many."""
    upto = END if before is None else Position(before, END.member)
    args = {"number": sender.number, "part": place, "by": by, **between(START, upto, limit), "act": act}
    return Call("redrive", sender.keys, args, ids, _read_changed)


def redrive_range(
    sender: Sender, *, place: Place, by: str, after: Position, upto: Position, limit: int, act: str = ""
) -> Call[ChangedRange]:
    """Redrive the first of a range of dead letters. Reads as how many, and the next position."""
    args = {"number": sender.number, "part": place, "by": by, **between(after, upto, limit), "act": act}
    return Call("redrive", sender.keys, args, (), _read_range)


def purge(
    sender: Sender, *, place: Place, ids: Sequence[str] = (), limit: int = 0, act: str = ""
) -> Call[Changed]:
    """Remove waiting messages: these, or the first. Reads as how many."""
    args = {"number": sender.number, "place": place, **between(START, END, limit), "act": act}
    return Call("purge", sender.keys, args, ids, _read_changed)


def purge_range(
    sender: Sender, *, place: Place, after: Position, upto: Position, limit: int, act: str = ""
) -> Call[ChangedRange]:
    """Remove the first of a range of waiting messages. Reads as how many, and the next position."""
    args = {"number": sender.number, "place": place, **between(after, upto, limit), "act": act}
    return Call("purge", sender.keys, args, (), _read_range)


def _read_range(reply: Any) -> ChangedRange:
    number, score, member, leased = reply
    return ChangedRange(Changed(number, leased), Position(score, member) if score else None)


def _read_changed(reply: Any) -> Changed:
    return _read_range(reply).changed


def expire_now(sender: Sender, *, place: Place, ids: Sequence[str], act: str = "") -> Call[Changed]:
    """Expire these, whatever their time to live. Reads as how many."""
    args: dict[str, Argument] = {"number": sender.number, "place": place, "act": act}
    return Call("expire_now", sender.keys, args, ids, _read_changed)


def dead_letter(
    sender: Sender, *, place: Place, ids: Sequence[str], by: str, cause: Cause, act: str = ""
) -> Call[Changed]:
    """Send these to the dead-letter queue. Reads as how many."""
    args: dict[str, Argument] = {
        "number": sender.number, "place": place, "by": by, "reason": cause.cells(), "act": act,
    }  # fmt: skip
    return Call("dead_letter", sender.keys, args, ids, _read_changed)


def deliver_now(sender: Sender, *, ids: Sequence[str], act: str = "") -> Call[Changed]:
    """Make these scheduled messages ready. Reads as how many."""
    return Call("deliver_now", sender.keys, {"number": sender.number, "act": act}, ids, _read_changed)


def prioritize(
    sender: Sender, *, place: Place, ids: Sequence[str], priority: int, act: str = ""
) -> Call[Changed]:
    """Change the priority of these. Reads as how many."""
    args: dict[str, Argument] = {"number": sender.number, "place": place, "priority": priority, "act": act}
    return Call("prioritize", sender.keys, args, ids, _read_changed)


def transfer(
    sender: Sender,
    target: QueueKeys,
    *,
    opening: str = "",
    place: Place,
    ids: Sequence[str],
    keep: bool,
    by: str,
    cause: Cause,
    act: str = "",
) -> Call[Changed]:
    """Move these to another queue, or copy them.

    Reads as how many, without those whose ids it already had; 0 if it was deleted since its `opening`.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "place": place,
        "keep": int(keep),
        "by": by,
        "reason": cause.cells(),
        "opening": opening,
        "act": act,
    }
    both = {**sender.keys.others, **{f"to_{name}": target[name] for name in _keys.NAMES}}
    return Call("transfer", _keys.MoreKeys(sender.keys.queue, both), args, ids, _read_changed)
