"""A server of each form, as one client, and a driver that compares what each call does to them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from rq_dlq._scripts import Scripts
from rq_dlq.core.steps.call import Call, Command
from rq_dlq.errors import RqDlqError
from tests.model.driver import Driver

R = TypeVar("R")
NEAR = 5_000  # milliseconds by which two times to live may differ
GOES = 1_000  # milliseconds: a key that goes so soon may have gone in the other server


class Both:
    """Does everything on two servers, and returns what the first one says."""

    def __init__(self, one: Any, other: Any) -> None:
        self.one, self.other = one, other

    def __getattr__(self, name: str) -> Any:
        getattr(self.one, name)  # an AttributeError if it has none

        def call(*args: Any, **options: Any) -> Any:
            first, second = (getattr(at, name)(*args, **options) for at in (self.one, self.other))
            return Both(first, second) if name == "pipeline" or type(first).__name__ == "Pipeline" else first

        return call


# What a server stores, at one moment: each key, its type, its time to live and its content; of a stream no
# ids, which are times of the server.
READ = """
local reads = {
  string = function(key) return redis.call('GET', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SORT', key, 'ALPHA') end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key)
    local entries = redis.call('XRANGE', key, '-', '+')
    for n, entry in ipairs(entries) do
      entries[n] = entry[2]
    end
    return entries
  end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  found[#found + 1] = { key, kind, redis.call('PTTL', key), reads[kind](key) }
end
return found
"""


def contents(raw: Any) -> dict[bytes, Any]:
    """What a server stores: the type of each key, its content and its time to live."""
    found: dict[bytes, Any] = {}
    for key, kind, ttl, value in raw.eval(READ, 0):
        found[key] = kind, dict(zip(value[::2], value[1::2], strict=True)) if kind == b"hash" else value, ttl
    return found


def differences(raw: Both) -> list[str]:
    """How what the two servers store differs."""
    one, other = contents(raw.one), contents(raw.other)
    found: list[str] = []
    for key in sorted(one.keys() | other.keys()):
        if key not in one or key not in other:
            _, _, ttl = one.get(key) or other[key]
            if 0 <= ttl < GOES:
                continue
            found.append(
                f"{key!r} only in the {'first' if key in one else 'second'}: {one.get(key, other.get(key))}"
            )
        elif one[key][:2] != other[key][:2]:
            found.append(f"{key!r}:\n    {one[key][1]}\n    {other[key][1]}")
        elif (one[key][2] < 0) != (other[key][2] < 0) or abs(one[key][2] - other[key][2]) > NEAR:
            found.append(f"{key!r} goes in {one[key][2]} and in {other[key][2]} ms")
    return found


class TwinDriver(Driver):
    """Runs each call on both servers, on each in its form."""

    forms: ClassVar[tuple[Scripts, Scripts]]

    def run_all(self, *calls: Call[Any] | Command[Any], repeated: bool = False) -> list[Any]:
        """Run calls, and compare replies and keys.

        Raises:
            AssertionError: they differ.
        """
        raw: Both = self.raw
        plain: list[Any] = [
            call._replace(reader=_same, repetition_reader=None)
            if isinstance(call, Call)
            else Command(call.parts)
            for call in calls
        ]
        replies = [
            _replies(at, form, plain) for at, form in zip((raw.one, raw.other), self.forms, strict=True)
        ]
        assert _comparable(replies[0]) == _comparable(replies[1]), f"{calls}: {replies[0]}, but {replies[1]}"
        assert not (found := differences(raw)), f"{calls}: " + "\n".join(found)
        if isinstance(replies[0], Exception):
            raise replies[0]
        return [call.read(reply, repeated) for call, reply in zip(calls, replies[0], strict=True)]


def _same(reply: Any) -> Any:
    return reply


def _comparable(replies: Any) -> Any:
    return type(replies) if isinstance(replies, Exception) else replies


def _replies(raw: Any, form: Scripts, calls: list[Any]) -> Any:
    try:
        return Driver(raw, scripts=form).run_all(*calls)
    except RqDlqError as error:
        return error
