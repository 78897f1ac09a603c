"""Adding messages to a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from rq_dlq.core.steps.call import Argument, Call, Sender
from rq_dlq.values.sent import PLACES, Known


class Place(NamedTuple):
    """The place of a known message; None: unknown. And whether it has another key than it was sent with."""

    known: Known | None
    other_key: bool = False


Places: TypeAlias = "Mapping[int, Place]"
"""Of the items that the queue knew, by their numbers; 0 is the first."""
_OTHER_KEY = "/key"  # lua/lib/with_places.lua


def send(
    sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument], opening: str = ""
) -> Call[Places | None]:
    """Add messages; items: id, payload.

    Args:
        opening: the queue's, when the client opened it; empty: any.

    Returns:
        A call that reads as the messages that the queue already had; None: it was deleted since its opening,
        so nothing was added.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
    }
    return Call("send", sender.keys, args, items, _read_places)


def restore(
    sender: Sender, *, items: Sequence[Argument], opening: str, act: str = ""
) -> Call[list[int] | None]:
    """Restore exported messages; items: id, record, state, history.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.

    Returns:
        A call that reads as the items that the queue already had, 0 is the first; None: see `send`.
    """
    args: dict[str, Argument] = {"number": sender.number, "opening": opening, "act": act}
    return Call("restore", sender.keys, args, items, _read_known)


def _read_places(reply: Any) -> Places | None:
    if not reply:  # nearly always
        return _NOTHING
    return None if reply == _NOT_OPEN else read_places(reply)


def read_places(reply: Sequence[Any]) -> Places:
    """Numbers (1 is the first) and names of places, by turns."""
    names = [name.decode() for name in reply[1::2]]
    return {number - 1: _place(name) for number, name in zip(reply[::2], names, strict=True)}


def _place(name: str) -> Place:
    where = name.removesuffix(_OTHER_KEY)
    return Place(where if where in PLACES else None, where != name)  # type: ignore[arg-type]


def _read_known(reply: Any) -> list[int] | None:
    return None if reply == _NOT_OPEN else [number - 1 for number in reply]


_NOTHING: Places = {}
_NOT_OPEN = -1  # lua/send.lua
