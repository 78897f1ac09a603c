"""The verbs that change waiting messages.

`act`: the audit's entry (`core/queues/who.py`); empty: no note. The sender has the plan that it carries out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rq_dlq import _keys
from rq_dlq.core.pages.calls import END, START, Position, between
from rq_dlq.core.steps.call import Argument, Call, Command, Place, Sender
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.changed import Changed

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.failure import Cause


class ChangedRange(NamedTuple):
    """How many messages a call on a range changed, and the next position (None: the range has ended)."""

    changed: Changed
    next: Position | None


class PlanEnd(NamedTuple):
    """The end of a plan in a queue.

    Attributes:
        changed: how many messages it changed.
        later: how many that meet its condition have come since it was made.
        leased: how many of the chosen ones are being processed.
    """

    changed: int
    later: int
    leased: int


_REFUSED: Final = one_of(Word.DELETED)
_ENDED: Final = re.compile(rb"1 ([0-9]+)  ([0-9]+) ([0-9]+)")


def _told(sender: Sender, act: str) -> dict[str, Argument]:
    """The arguments that all these verbs have."""
    return {"number": sender.number, "act": act, "plan": sender.plan}


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
    args = _told(sender, act) | {"part": place, "by": by} | between(START, upto, limit)
    return Call("redrive", sender.keys, args, ids, _read_changed)


def redrive_range(
    sender: Sender,
    *,
    place: Place,
    by: str,
    after: Position,
    upto: Position,
    limit: int,
    act: str = "",
) -> Call[ChangedRange]:
    """Redrive the first of a range of dead letters. Reads as how many, and the next position."""
    args = _told(sender, act) | {"part": place, "by": by} | between(after, upto, limit)
    return Call("redrive", sender.keys, args, (), _read_range)


def purge(
    sender: Sender, *, place: Place, ids: Sequence[str] = (), limit: int = 0, act: str = ""
) -> Call[Changed]:
    """Remove waiting messages: these, or the first. Reads as how many."""
    args = _told(sender, act) | {"place": place} | between(START, END, limit)
    return Call("purge", sender.keys, args, ids, _read_changed)


def purge_range(
    sender: Sender,
    *,
    place: Place,
    after: Position,
    upto: Position,
    limit: int,
    act: str = "",
) -> Call[ChangedRange]:
    """Remove the first of a range of waiting messages. Reads as how many, and the next position."""
    args = _told(sender, act) | {"place": place} | between(after, upto, limit)
    return Call("purge", sender.keys, args, (), _read_range)


def _read_range(reply: Any) -> ChangedRange:
    number, score, member, leased = reply
    more = Position(score, member) if member else None  # without a member: the plan is done (`read_end`)
    return ChangedRange(Changed(number, leased), more)


def read_end(reply: Any) -> PlanEnd:
    """The reply of the last call of a plan (lua/choice.lua)."""
    number, later, _, leased = reply
    return PlanEnd(number, int(later or 0), leased)


def register(sender: Sender) -> Command[PlanEnd | None]:
    """The end in the register of a plan; None: it is not done."""
    return Command((b"GET", sender.keys["sender"]), _read_register)


def _read_register(reply: bytes | None) -> PlanEnd | None:
    found = _ENDED.fullmatch(reply or b"")
    return PlanEnd(int(found[3]), int(found[1]), int(found[2])) if found else None


def _read_changed(reply: Any) -> Changed:
    return _read_range(reply).changed


def expire_now(sender: Sender, *, place: Place, ids: Sequence[str], act: str = "") -> Call[Changed]:
    """Expire these, whatever their time to live. Reads as how many."""
    args = _told(sender, act) | {"place": place}
    return Call("expire_now", sender.keys, args, ids, _read_changed)


def dead_letter(
    sender: Sender, *, place: Place, ids: Sequence[str], by: str, cause: Cause, act: str = ""
) -> Call[Changed]:
    """Send these to the dead-letter queue. Reads as how many."""
    args = _told(sender, act) | {"place": place, "by": by, "reason": cause.cells()}
    return Call("dead_letter", sender.keys, args, ids, _read_changed)


def deliver_now(sender: Sender, *, ids: Sequence[str], act: str = "") -> Call[Changed]:
    """Make these scheduled messages ready. Reads as how many."""
    return Call("deliver_now", sender.keys, _told(sender, act), ids, _read_changed)


def prioritize(
    sender: Sender, *, place: Place, ids: Sequence[str], priority: int, act: str = ""
) -> Call[Changed]:
    """Change the priority of these. Reads as how many."""
    args = _told(sender, act) | {"place": place, "priority": priority}
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
    args = _told(sender, act) | {"place": place, "keep": int(keep), "by": by, "reason": cause.cells()}
    args["opening"] = opening
    both = {**sender.keys.others, **{f"to_{name}": target[name] for name in _keys.NAMES}}
    return Call("transfer", _keys.MoreKeys(sender.keys.queue, both), args, ids, _read_moved)


def _read_moved(reply: Any) -> Changed:
    if isinstance(reply, bytes):
        _REFUSED[reply]
        return Changed(0)
    return _read_changed(reply)
