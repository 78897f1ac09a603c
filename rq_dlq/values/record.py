"""The layout of a message's record (lua/lib/record.lua).

    birth (7)  flags (1)  [expiry (6)]  [length (2), then that many bytes: fields, then headers]  body

A field is its number (1 to 31), its length (2) and its bytes. A version skips fields that it does not know.
They are kept, since this part is never rewritten.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rq_dlq.values.later import needed

BIRTH: Final = slice(0, 7)
FLAGS: Final = 7
EXPIRY: Final = slice(8, 14)
BARE, MORTAL = 8, 14  # where the sender's part begins: without a time to live, and with one
HEAD = MORTAL  # the most bytes of the server's part
NUMBER_BITS = 12  # the low bits of a birth; the bits above are its millisecond

PRIORITY = 0x0F  # a mask of the flags
EXPIRES, HEADERS, BYTES, TRANSIENT = 0x10, 0x20, 0x40, 0x80
LATER = 0x0F  # the flags of a record in a later form: the mark of a version follows
PLAIN = range(10)  # flags with a priority alone: the body is JSON and begins at BARE

LENGTH = 2  # bytes of a length
MAX_BLOCK = 0xFFFF  # bytes of fields and headers
KEY: Final = 1  # a field: the message's key (`values.key`); scripts look for it in front of the others
DEPENDENCY: Final = 2  # and behind it for its dependency
RESULT: Final = 3  # and behind these, without bytes: its sender asks for the result (lua/lib/packed.lua)
_FIELDS = range(1, 32)  # the first byte of a field; headers are JSON and begin with "{"


class Content(NamedTuple):
    """The sender's part.

    Attributes:
        fields: bytes by number, beside the headers.
        headers: as JSON; None: there are none.
    """

    fields: dict[int, bytes]
    headers: bytes | None
    body: bytes


def pack_head(priority: int, headers: bytes, *, raw: bool, persistent: bool) -> bytes:
    """The part of a payload before the body: flags, fields and headers.

    Args:
        headers: as JSON, after the fields; empty: neither.
        raw: the body is bytes, not JSON.
    """
    flags = priority | (HEADERS if headers else 0) | (BYTES if raw else 0) | (0 if persistent else TRANSIENT)
    block = len(headers).to_bytes(LENGTH, "big") + headers if headers else b""
    return bytes((flags,)) + block


def pack_field(number: int, value: bytes) -> bytes:
    """A field; they stand before the headers."""
    return bytes((number,)) + len(value).to_bytes(LENGTH, "big") + value


def sent(birth: int, payload: bytes, expires: int | None = None) -> bytes:
    """The record of a payload, as a send writes it.

    Args:
        birth: its millisecond, and its number there.
        expires: when its time to live ends, milliseconds; None: it has none.
    """
    head = birth.to_bytes(FLAGS, "big")
    if expires is None:
        return head + payload
    width = EXPIRY.stop - EXPIRY.start
    return head + bytes((payload[0] | EXPIRES,)) + expires.to_bytes(width, "big") + payload[1:]


def with_body(record: bytes, body: bytes, *, raw: bool) -> bytes:
    """A record with another body; the rest is as it was, also fields that this version does not know.

    Args:
        raw: the body is bytes, not JSON.
    """
    head = bytearray(record[: len(record) - len(content_of(record).body)])
    head[FLAGS] = head[FLAGS] & ~BYTES | (BYTES if raw else 0)
    return bytes(head) + body


def version_needed(record: bytes) -> str:
    """The version that can read a record in a later form; empty: it has today's form, or is damaged."""
    return needed(record, BARE) if len(record) > BARE and record[FLAGS] == LATER else ""


def birth_of(record: bytes) -> int:
    """When it was sent, milliseconds."""
    return int.from_bytes(record[BIRTH], "big") >> NUMBER_BITS


def expiry_of(record: bytes) -> int | None:
    """When its time to live ends, milliseconds; None: never."""
    return int.from_bytes(record[EXPIRY], "big") if record[FLAGS] & EXPIRES else None


def content_of(record: bytes) -> Content:
    """The sender's part of a record that is long enough to have one.

    Raises:
        ValueError: the fields do not end where they should.
    """
    flags = record[FLAGS]
    start = MORTAL if flags & EXPIRES else BARE
    if not flags & HEADERS:
        return Content({}, None, record[start:])
    end = start + LENGTH + int.from_bytes(record[start : start + LENGTH], "big")
    block = record[start + LENGTH : end]
    fields, at = _read_fields(block)
    return Content(fields, None if fields and at == len(block) else block[at:], record[end:])


def _read_fields(block: bytes) -> tuple[dict[int, bytes], int]:
    """The fields at the head of a block, and where the headers begin."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(block) and block[at] in _FIELDS:
        first = at + 1 + LENGTH
        end = first + int.from_bytes(block[at + 1 : first], "big")
        if end > len(block):
            raise ValueError(f"field {block[at]} is longer than the block")
        fields[block[at]], at = block[first:end], end
    return fields, at
