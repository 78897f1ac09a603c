"""The moved clock on a cluster: a script sees no key of another slot, so each queue has a clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from rq_dlq._keys import QueueKeys
from rq_dlq._scripts import Joined
from tests.checkout import ROOT
from tests.conftest import Clock

CLOCK = """\
function Clock.read_of(q)
  for _, key in pairs(rawget(q, 'KEYS') or q) do
    local tag = type(key) == 'string' and key:match('^%w+:({.-})')
    if tag then
      return tonumber(redis.call('GET', tag .. 'clock'))
    end
  end
end
"""


def read_of_queue(name: str) -> str:
    """A module that reads the clock of its queue."""
    text = (ROOT / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    assert "Clock.read()" in text
    text = text.replace("local function now()", "local function now(q)")
    return text.replace("Clock.read()", "Clock.read_of(q)")


JOINED = Joined({"clock": CLOCK, **{name: read_of_queue(name) for name in ("queue", "claim", "send")}})


class SlotClock(Clock):
    """One clock for all queues, by as many keys."""

    def __init__(self, raw: Any) -> None:
        self._tags: set[str] = set()
        super().__init__(raw)

    def set(self, now: int) -> None:
        self.now = now
        for tag in tuple(self._tags):  # another thread may add one
            self._raw.set(f"{{{tag}}}clock", now)

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """While this lasts, whatever queue is used has the clock."""
        key_of = QueueKeys._key

        def noted(keys: QueueKeys, name: str) -> str:
            key = key_of(keys, name)
            tag = key[key.index("{") + 1 : key.index("}")]  # it decides the queue's node
            if tag not in self._tags:
                self._tags.add(tag)
                self._raw.set(f"{{{tag}}}clock", self.now)
            return key

        with mock.patch.object(QueueKeys, "_key", noted):
            yield
