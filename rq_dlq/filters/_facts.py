"""What the names in a filter stand for: fields of a message, its headers, parts of its body."""

from __future__ import annotations

from datetime import MAXYEAR
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rq_dlq.codec import NO_HEADERS
from rq_dlq.failure import EXPIRY, Cause
from rq_dlq.message import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from rq_dlq.message import Received


DAMAGED: Final = frozenset({1970, MAXYEAR})
"""Years that only damaged records tell of: the clock's first, and the one for times beyond the calendar."""


class Facts:
    """One message under one filter; headers and body are decoded when asked for, and once."""

    def __init__(self, message: Received[Any], now: int) -> None:
        self.message = message
        self.now = now

    def field(self, name: str) -> object:
        """A field; None where the message has none, or is damaged."""
        try:
            return FIELDS[name](self.message, self.now)
        except Exception:  # noqa: BLE001 - a record that someone damaged may fail anywhere
            return None

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers; none where they are damaged."""
        try:
            return self.message.headers
        except Exception:  # noqa: BLE001 - the same
            return NO_HEADERS

    @cached_property
    def _body(self) -> object:
        try:
            return msgspec.json.decode(self.message.data)
        except Exception:  # noqa: BLE001 - bytes, no JSON, too deep, a damaged record
            return None

    def body(self, path: tuple[str, ...]) -> object:
        """What a JSON body holds at a path of keys; None where it holds nothing there."""
        value: Any = self._body
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)  # pyright: ignore[reportUnknownVariableType]
        return value  # pyright: ignore[reportUnknownVariableType]


def lookup(name: str) -> Callable[[Facts], object]:
    """What reads a name: a field, a part of the body or a header."""
    name = ALIASES.get(name, name)
    if name in FIELDS:
        return lambda facts: facts.field(name)
    first, *path = name.split(".")
    if first == "body":
        keys = tuple(path)
        return lambda facts: facts.body(keys)
    return header(name)


def header(name: str) -> Callable[[Facts], object]:
    """What reads a header."""
    return lambda facts: facts.headers.get(name)


def _seconds_since(moment: datetime, now: int) -> float | None:
    if moment.year in DAMAGED:
        return None
    return (now - round(moment.timestamp() * 1000)) / 1000


def _age(message: Received[Any], now: int) -> float | None:
    _ = message.priority  # a record that is cut off has no time either, and this notices
    return _seconds_since(message.enqueued_at, now)


def _died(letter: DeadLetter[Any], now: int) -> float | None:
    return _seconds_since(letter.died_at, now)


def _cause(letter: DeadLetter[Any]) -> Cause:
    cause = letter.cause  # a history that is damaged reads as if the letter were expired
    return Cause() if cause is EXPIRY and letter.reason != "expired" else cause


def _of_dead(read: Callable[[DeadLetter[Any], int], object]) -> Callable[[Received[Any], int], object]:
    """A field that dead letters have; empty text is none."""

    def value(message: Received[Any], now: int) -> object:
        found = read(message, now) if isinstance(message, DeadLetter) else None
        return None if found == "" else found

    return value


def _of_state(name: str) -> Callable[[Received[Any], int], object]:
    """A count in the state of a message; of a dead letter without a reason, the state is damaged."""

    def value(message: Received[Any], _: int) -> object:
        damaged = isinstance(message, DeadLetter) and not message.reason
        return None if damaged else getattr(message, name)

    return value


FIELDS: Final[Mapping[str, Callable[[Received[Any], int], object]]] = {
    "id": lambda message, _: message.id,
    "queue": lambda message, _: message.queue,
    "priority": lambda message, _: message.priority,
    "size": lambda message, _: len(message.data),
    "age": _age,
    "delivery_count": _of_state("delivery_count"),
    "charged": _of_state("charged"),
    "nacked": _of_state("nacked"),
    "lapsed": _of_state("lapsed"),
    "released": _of_state("released"),
    "redriven": _of_state("redriven"),
    "redelivered": _of_state("redelivered"),
    "reason": _of_dead(lambda letter, _: letter.reason),
    "error": _of_dead(lambda letter, _: _cause(letter).type),
    "message": _of_dead(lambda letter, _: _cause(letter).message),
    "fingerprint": _of_dead(lambda letter, _: _cause(letter).fingerprint),
    "original_queue": _of_dead(lambda letter, _: letter.original_queue),
    "died": _of_dead(_died),
}

ALIASES: Final[Mapping[str, str]] = {
    "JMSMessageID": "id",
    "AMQUserID": "id",
    "JMSPriority": "priority",
    "AMQPriority": "priority",
    "JMSXDeliveryCount": "delivery_count",
    "JMSRedelivered": "redelivered",
    "AMQSize": "size",
}

SPANS: Final = frozenset({"age", "died"})
"""Fields in seconds, which compare with durations."""
