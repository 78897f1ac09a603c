"""Another form of the format, made of the present one: more fields in states, in records and in settings.

A state counts in `seen` how often scripts of this form wrote it, and ends in a field of each shape that the
grammar in lua/README.md allows; a record names its writer in field 31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from rq_dlq._scripts import Joined
from rq_dlq.values import record
from tests.checkout import ROOT
from tests.conftest import MOVED_CLOCK

FIELD, WRITER = 31, b"other"
_SEEN = re.compile(rb" seen=(\d+)")
_VALUE = bytes(set(range(256)) - set(b" \t\n\v\f\r"))
SHAPES = b" _= 9=0 Az_09=a=b overhead=1/2/3/4 groups=x GROUP=x redrive_=a/b of=+T was=-T any=" + _VALUE
"""The shortest name, each kind of character, names that are nearly known, each byte that a value may have."""
_QUOTED = "".join(f"\\{byte:03}" for byte in SHAPES)
SPLIT = f"""
local SHAPES = '{_QUOTED}'

local function split(more)
  local seen = more:match(' seen=(%d+)') or 0
  local first, last = more:find(SHAPES, 1, true)
  more = first and more:sub(1, first - 1) .. more:sub(last + 1) or more
  return (more:gsub(' seen=%d+', '')), tonumber(seen)
end

"""
# Of lua/state.lua: what is written otherwise, and how.
CHANGES = (
    ("delay = 0, more = '',", "delay = 0, more = '', seen = 0,"),
    ("more = more, deliveries", "more = (split(more)), seen = select(2, split(more)), deliveries"),
    ("function State.parse", SPLIT + "function State.parse"),
    ("(s.delay) .. s.more", "(s.delay) .. ' seen=' .. (s.seen + 1) .. s.more .. SHAPES"),
)


def changed(name: str, *changes: tuple[str, str]) -> str:
    """A Lua file with these changes, each of which there must be a place for."""
    text = (ROOT / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"lua/{name}.lua is written otherwise by now: {old}"
        text = text.replace(old, new)
    return text


OTHER = Joined({**MOVED_CLOCK.modules, "state": changed("state", *CHANGES)})
"""The scripts that write states in the other form, on a clock that tests move."""


@contextmanager
def packing() -> Iterator[None]:
    """What is sent has records of the other form."""
    with mock.patch.object(record, "pack_head", _pack_head):
        yield


def _pack_head(priority: int, headers: bytes, *, raw: bool, persistent: bool) -> bytes:
    block = bytes((FIELD,)) + len(WRITER).to_bytes(record.LENGTH, "big") + WRITER + headers
    head = _PLAIN(priority, block, raw=raw, persistent=persistent)
    assert head[0] & record.HEADERS
    return head


_PLAIN = record.pack_head


def fields(states: dict[bytes, bytes], records: dict[bytes, bytes]) -> dict[bytes, tuple[int, bytes]]:
    """What the other form says of each message: how often it was seen, if no field was lost; who wrote it."""
    return {
        name: (_seen(states.get(name, b"")), record.content_of(records[name]).fields.get(FIELD, b""))
        for name in records
    }


def _seen(state: bytes) -> int:
    found = _SEEN.search(state)
    return int(found[1]) if found and SHAPES in state else 0


def without(value: Any) -> Any:
    """What stands in Redis, without what only the other form says."""
    if isinstance(value, dict):
        return {key: without(cell) for key, cell in value.items()}
    if isinstance(value, list):
        return [without(cell) for cell in value]
    return _without(value) if isinstance(value, bytes) else value


def _without(cell: bytes) -> bytes:
    """A state, a record, or a payload that is not a record yet."""
    field = bytes((FIELD,)) + len(WRITER).to_bytes(record.LENGTH, "big") + WRITER
    block = len(field).to_bytes(record.LENGTH, "big") + field
    at = cell.find(block)
    if at < 0:
        return _SEEN.sub(b"", cell).replace(SHAPES, b"")
    flags = 0 if at == 1 else record.FLAGS
    cleared = bytes((cell[flags] & ~record.HEADERS,))
    return cell[:flags] + cleared + cell[flags + 1 : at] + cell[at + len(block) :]
