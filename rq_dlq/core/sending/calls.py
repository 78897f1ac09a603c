"""Adding messages to a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rq_dlq.core.steps.call import Argument, Call, Sender


def send(
    sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument], opening: str = ""
) -> Call[list[int] | None]:
    """Add messages; items: id, payload.

    Args:
        opening: of the queue, when the client opened it; empty: any.

    Returns:
        A call that reads as the places of those that the queue knew already; None: the queue was deleted
        since its opening, so nothing was added.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
    }
    return Call("send", sender.keys, args, items, _read_known)


def restore(sender: Sender, *, items: Sequence[Argument], opening: str) -> Call[list[int] | None]:
    """Put exported messages back; items: id, record, state, history.

    Returns:
        A call that reads as that of `send`.
    """
    args: dict[str, Argument] = {"number": sender.number, "opening": opening}
    return Call("restore", sender.keys, args, items, _read_known)


def _place_of(number: Any) -> int:
    return int(number) - 1


def _read_known(reply: Any) -> list[int] | None:
    return None if reply == _NOT_OPEN else [*map(_place_of, reply)]


_NOT_OPEN = -1  # lua/send.lua
