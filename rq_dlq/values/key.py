"""Keys of messages: a text that a message has for life, and the number of the lane of all that have it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from rq_dlq.errors import InvalidMessage
from rq_dlq.values.durations import shown
from rq_dlq.values.names import MAX_BYTES

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
    """

    key: str
    blocked: int
    seats: int
    head: str
    held_by: tuple[tuple[str, str], ...]


def lane_of(key: str) -> int:
    """The number of a key's lane. Two keys may share a lane: then they are ordered together."""
    digest = blake2b(key.encode(), digest_size=WIDTH, person=b"rq_dlq key").digest()
    return int.from_bytes(digest, "big") & _LANES


def packed_key(key: object) -> bytes:
    """A key as it stands in a record: its lane, then the text.

    Raises:
        InvalidMessage: this cannot be a key.
    """
    if isinstance(key, str) and key:
        try:
            text = str(key).encode()
        except UnicodeEncodeError:
            text = b""
        if 0 < len(text) <= MAX_BYTES:
            return lane_of(key).to_bytes(WIDTH, "big") + text
    raise InvalidMessage(f"key {shown(key)}: use text of 1 to {MAX_BYTES} bytes, or None for no key")
