"""The layout of a message's record (lua/record.lua).

    birth (7)  flags (1)  [expiry (6)]  [length (2), then that many bytes: fields, then headers]  body

A field is its number (1 to 31), its length (2) and its bytes. A version skips unknown fields. They are kept,
since this part is never rewritten.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rq_dlq.values.later import needed

BIRTH: Final = slice(0, 7)
FLAGS: Final = 7
EXPIRY: Final = slice(8, 14)
BARE, MORTAL = 8, 14  # where the sender's part begins, without and with a time to live
HEAD = MORTAL  # the largest size of the server's part, bytes
NUMBER_BITS = 12  # the low bits of a birth; the high bits are its millisecond

PRIORITY = 0x0F  # a mask for the flags
EXPIRES, HEADERS, BYTES, TRANSIENT = 0x10, 0x20, 0x40, 0x80
LATER = 0x0F  # the flags of a record in a later form: the mark of a version follows
PLAIN = range(10)  # flags with only a priority: the body is JSON and begins at BARE

LENGTH = 2  # the size of a length, bytes
MAX_BLOCK = 0xFFFF  # the largest size of fields and headers, bytes
KEY: Final = 1  # a field: the message's key (`values.key`); the Lua expects it before the others
DEPENDENCY: Final = 2  # then the dependency
RESULT: Final = 3  # then, without bytes: the sender requests the result (lua/send.lua)
_FIELDS = range(1, 32)  # the possible first bytes of a field; headers are JSON and begin with "{"


class Content(NamedTuple):
    """The sender's part.

    Attributes:
        fields: bytes by field number.
        headers: the headers as JSON; None: no headers.
    """

    fields: dict[int, bytes]
    headers: bytes | None
    body: bytes


def pack_head(priority: int, headers: bytes, *, raw: bool, persistent: bool) -> bytes:
    """The part of a payload before the body: flags, fields and headers.

    Args:
        headers: fields, then headers as JSON; empty: neither.
        raw: the body is bytes, not JSON.
    """
    flags = priority | (HEADERS if headers else 0) | (BYTES if raw else 0) | (0 if persistent else TRANSIENT)
    block = len(headers).to_bytes(LENGTH, "big") + headers if headers else b""
    return bytes((flags,)) + block


def pack_field(number: int, value: bytes) -> bytes:
    """A field; fields precede the headers."""
    return bytes((number,)) + len(value).to_bytes(LENGTH, "big") + value


def sent(birth: int, payload: bytes, expires: int | None = None) -> bytes:
    """The record of a payload, as written by a send.

    Args:
        birth: its millisecond, and its number within that.
        expires: when its time to live ends, milliseconds; None: never.
    """
    head = birth.to_bytes(FLAGS, "big")
    if expires is None:
        return head + payload
    width = EXPIRY.stop - EXPIRY.start
    return head + bytes((payload[0] | EXPIRES,)) + expires.to_bytes(width, "big") + payload[1:]


def with_body(record: bytes, body: bytes, *, raw: bool) -> bytes:
    """A record with another body; the rest is unchanged, including unknown fields.

    Args:
        raw: the body is bytes, not JSON.
    """
    head = bytearray(record[: len(record) - len(content_of(record).body)])
    head[FLAGS] = head[FLAGS] & ~BYTES | (BYTES if raw else 0)
    return bytes(head) + body


def version_needed(record: bytes) -> str:
    """The version that can read a record in a later form; empty: the form is current, or damaged."""
    return needed(record, BARE) if len(record) > BARE and record[FLAGS] == LATER else ""


def birth_of(record: bytes) -> int:
    """The number of its send: its millisecond, and its number within that."""
    return int.from_bytes(record[BIRTH], "big")


def born_at(record: bytes) -> int:
    """When it was sent, milliseconds."""
    return birth_of(record) >> NUMBER_BITS


def expiry_of(record: bytes) -> int | None:
    """When its time to live ends, milliseconds; None: never."""
    return int.from_bytes(record[EXPIRY], "big") if record[FLAGS] & EXPIRES else None


def content_of(record: bytes) -> Content:
    """The sender's part of a record; the record must be long enough to have one.

    Raises:
        ValueError: a field is longer than the part that contains it.
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
    """The fields at the start of a block, and where the headers begin."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(block) and block[at] in _FIELDS:
        first = at + 1 + LENGTH
        end = first + int.from_bytes(block[at + 1 : first], "big")
        if end > len(block):
            raise ValueError(f"field {block[at]} is longer than the block")
        fields[block[at]], at = block[first:end], end
    return fields, at
