"""A server that worlds are put into: put, call, read what is there, many of them in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rq_dlq._keys import QueueKeys
from rq_dlq._scripts.verb import Verbs
from rq_dlq.testing.clock import CLOCK
from tests.model.interleavings.world import HASHES, INDEXES, NAMES, Cells

KEYS = [QueueKeys("rq", "q")[name] for name in NAMES]
# The cells of all keys as one string, which Redis reads and writes quicker than many.
PUT = f"""\
redis.call('FLUSHDB')
redis.call('SET', '{CLOCK}', ARGV[1])
local all = cmsgpack.unpack(ARGV[2])
for n, key in ipairs(KEYS) do
  local cells = all[n]
  if #cells > 0 and n <= {len(HASHES)} then
    redis.call('HSET', key, unpack(cells))
  elseif #cells > 0 and n <= {len(HASHES) + len(INDEXES)} then
    for i = 1, #cells, 2 do cells[i], cells[i + 1] = cells[i + 1], cells[i] end
    redis.call('ZADD', key, unpack(cells))
  elseif #cells > 0 then
    redis.call('RPUSH', key, unpack(cells))
  end
end
"""
GET = f"""\
local all = {{}}
for n, key in ipairs(KEYS) do
  all[n] = n <= {len(HASHES)} and redis.call('HGETALL', key)
    or n <= {len(HASHES) + len(INDEXES)} and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    or redis.call('LRANGE', key, 0, -1)
end
return cmsgpack.pack(all)
"""


class Trip(NamedTuple):
    """A world to put there, a call to make there, and how often."""

    put: bytes
    call: bytes
    times: int = 1


class Server:
    """Through a plain client of its own."""

    def __init__(self, raw: Any, verbs: Verbs) -> None:
        for load in {verbs[name].load for name in verbs.names()}:
            with suppress(ResponseError):  # an earlier search has loaded it
                raw.execute_command(*load)
        self._connection = raw.connection_pool.get_connection()
        self._put = ("EVALSHA", raw.script_load(PUT), len(KEYS), *KEYS)
        self._get = self.packed(("EVALSHA", raw.script_load(GET), len(KEYS), *KEYS))

    def packed(self, command: tuple[Any, ...]) -> bytes:
        """A command as it is sent."""
        return b"".join(self._connection.pack_command(*command))

    def put(self, now: int, cells: Cells) -> bytes:
        """The command that puts a world there."""
        return self.packed((*self._put, now, pack(cells)))

    def run(self, trips: Sequence[Trip]) -> list[list[tuple[Any, bytes]]]:
        """One round trip: for each its replies, each with what is there then."""
        parts = (part for put, call, times in trips for part in (put, *(call, self._get) * times))
        self._connection.send_packed_command([b"".join(parts)])
        answers = []
        for trip in trips:
            self._read()
            answers.append([(self._read(), self._read()) for _ in range(trip.times)])
        return answers

    def _read(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as error:
            return error


def pack(cells: Cells) -> bytes:
    """As msgpack, in the words that Redis knows."""
    return _array(len(cells)) + b"".join(_array(len(row)) + b"".join(map(_string, row)) for row in cells)


def _array(size: int) -> bytes:
    return bytes((0x90 | size,)) if size < 16 else b"\xdc" + size.to_bytes(2)


def _string(cell: bytes) -> bytes:
    return (bytes((0xA0 | len(cell),)) if len(cell) < 32 else b"\xda" + len(cell).to_bytes(2)) + cell


def unpack(text: bytes) -> Cells:
    """What `pack` packs, or Redis."""
    found: Cells
    found, at = _unpacked(text, 0)
    assert at == len(text)
    return found


def _unpacked(text: bytes, at: int) -> tuple[Any, int]:
    head, at = text[at], at + 1
    if head & 0xE0 == 0xA0:
        return text[at : at + (head & 0x1F)], at + (head & 0x1F)
    if head in {0xD9, 0xDA}:
        wide = head - 0xD8
        size, at = int.from_bytes(text[at : at + wide]), at + wide
        return text[at : at + size], at + size
    size = head & 0x0F
    if head == 0xDC:
        size, at = int.from_bytes(text[at : at + 2]), at + 2
    elif head == 0x80:  # an empty table may be either
        size = 0
    items: list[Any] = []
    for _ in range(size):
        item, at = _unpacked(text, at)
        items.append(item)
    return tuple(items), at
