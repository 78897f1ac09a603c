"""Keys and dependencies of messages: texts that a message has for life, and the numbers of their lanes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal, TypeAlias

from rq_dlq.errors import InvalidMessage
from rq_dlq.values.durations import shown
from rq_dlq.values.names import MAX_BYTES

Of: TypeAlias = Literal["key", "dependency"]
"""What a lane is of."""
WIDTH = 6  # bytes of a lane
_LANES = (1 << 46) - 1  # so that the score of a blocked message has no more digits than Lua prints


@dataclass(frozen=True, slots=True)
class KeyStats:
    """The messages of a queue that have one key.

    Attributes:
        key: empty: it is not known, since none of them could be read.
        blocked: how many are due, and wait for others of their key.
        seats: how many hold a seat: are ready, in work, or keep it while they wait or are dead, by the rule.
        head: the id of the first that is blocked; empty: none is.
        held_by: those that hold a seat, at most a hundred: the id, and the consumer that works on it, or "".
        limit: how many may hold a seat, where this key has a limit of its own; None: what the rule says.
        next_at: until then the rate of keys lets none of them in (UTC); None: it does, or there is no rate.

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


def lane_of(text: str, of: Of = "key") -> int:
    """The number of the lane of a key or a dependency. Two may share one: then they are ordered together."""
    digest = blake2b(text.encode(), digest_size=WIDTH, person=f"rq_dlq {of}".encode()[:16]).digest()
    return int.from_bytes(digest, "big") & _LANES


def packed(given: object, of: Of = "key") -> bytes:
    """A key or a dependency as it stands in a record: its lane, then the text.

    Raises:
        InvalidMessage: this cannot be one.
    """
    if isinstance(given, str) and given:
        try:
            text = str(given).encode()
        except UnicodeEncodeError:
            text = b""
        if 0 < len(text) <= MAX_BYTES:
            return lane_of(given, of).to_bytes(WIDTH, "big") + text
    raise InvalidMessage(f"{of} {shown(given)}: use text of 1 to {MAX_BYTES} bytes, or None for no {of}")


def given_of(key: str | None, dependency: str | None) -> set[Of]:
    """Which of the two there are."""
    given: dict[Of, str | None] = {"key": key, "dependency": dependency}
    return {of for of, text in given.items() if text is not None}


def text_in(field: bytes | None) -> str | None:
    """The text in such a field of a record; None: the message has none."""
    return None if field is None else field[WIDTH:].decode(errors="replace")
