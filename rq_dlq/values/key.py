"""Keys and dependencies of messages: fixed texts of each message, and the numbers of their lanes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from typing import Literal, TypeAlias

from rq_dlq.errors import InvalidMessage
from rq_dlq.values.durations import shown
from rq_dlq.values.names import MAX_BYTES

Of: TypeAlias = Literal["key", "dependency"]
"""Whether a lane is for a key or for a dependency."""
WIDTH = 6  # the size of a lane's number, bytes
_LANES = (1 << 46) - 1  # so that Lua prints the score of a blocked message exactly


@dataclass(frozen=True, slots=True)
class KeyStats:
    """The messages of a queue with one key.

    Attributes:
        key: the key; empty: unknown, since none of its messages could be read.
        blocked: how many are due, but wait for other messages of the key, or for the end of its pause.
        seats: how many hold a seat: ready and leased messages, and under some rules waiting or dead ones.
        head: the id of the first blocked message; empty: none is blocked.
        held_by: the messages that hold a seat, at most a hundred: each id, with the consumer of the message,
            or "".
        limit: how many may hold a seat, if this key has its own limit and the rule is a limit; None: as many
            as the rule says.
        next_at: when the rate allows the next message of the key (UTC); None: now, or there is no rate.
        paused: whether the key is paused, by an operator or by a handler (`Redeliver(pause_key=True)`).
        until: when the pause ends (UTC); None: at `resume`, or it is not paused.
        paused_by: the operator who paused it; empty: unknown, or it is not paused.

    Examples:
        >>> orders = broker.queue("orders", per_key=PerKey(order=True))
        >>> sent = orders.send_many([Message(n, id=f"o-{n}", key="customer-7") for n in range(3)])
        >>> stats = orders.key("customer-7").stats()
        >>> stats.blocked, stats.head, stats.held_by
        (2, 'o-1', (('o-0', ''),))
    """

    key: str
    blocked: int
    seats: int
    head: str
    held_by: tuple[tuple[str, str], ...]
    limit: int | None = None
    next_at: datetime | None = None
    paused: bool = False
    until: datetime | None = None
    paused_by: str = ""


def lane_of(text: str, of: Of = "key") -> int:
    """The number of the lane of a key or a dependency. Keys with the same lane are ordered together.

    Every language has this hash, and so has Redis: `Record.lane_of` in `lua/record.lua`.
    """
    digest = sha1(f"{of}\0{text}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:WIDTH], "big") & _LANES


def packed(given: object, of: Of = "key") -> bytes:
    """A key or a dependency as stored in a record: its lane, then the text.

    Raises:
        InvalidMessage: it is not valid.
    """
    if isinstance(given, str) and given:
        try:
            text = str(given).encode()
        except UnicodeEncodeError:
            text = b""
        if 0 < len(text) <= MAX_BYTES:
            return lane_of(given, of).to_bytes(WIDTH, "big") + text
    raise InvalidMessage(f"{of} {shown(given)}: use text of 1 to {MAX_BYTES} bytes")


def given_of(key: str | None, dependency: str | None) -> set[Of]:
    """Which of the two are given."""
    given: dict[Of, str | None] = {"key": key, "dependency": dependency}
    return {of for of, text in given.items() if text is not None}


def text_in(field: bytes | None) -> str | None:
    """The text in a field that `packed` made; None: the message has no such field."""
    return None if field is None else field[WIDTH:].decode(errors="replace")
