"""The meaning of names in a filter: fields of a message, its headers, parts of its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import NO_HEADERS
from rq_dlq.values.failure import EXPIRY, Cause
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.wanted import HEAD, NOTHING, RECORD, STATE, STORY

if TYPE_CHECKING:
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.message import Received
    from rq_dlq.values.wanted import Wanted


DAMAGED: Final = frozenset({1970, MAXYEAR})
"""Years that occur only in damaged records: that of the epoch, and the last year of the calendar."""


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of messages: the parts that contain it, and the function that reads it at a given time."""

    needs: Wanted
    read: Callable[[Received[Any], int], object]


class MessageFacts:
    """A message in a filter. Headers and body are decoded once, when they are first needed.

    Args:
        now: the server's time in milliseconds.
        masks: texts are those that these leave visible; None: the whole ones.
    """

    def __init__(self, message: Received[Any], now: int, masks: Masks | None = None) -> None:
        self.message = message
        self.now = now
        self._masks = masks

    def field(self, name: str) -> object:
        """The value of a field; None if the message does not have it, or is damaged."""
        try:
            value = FIELDS[name].read(self.message, self.now)
            if self._masks is None or not isinstance(value, str):
                return value
            if name == "message" and isinstance(self.message, DeadLetter):  # its class may be such a name
                return _visible_message(_cause(self.message), self._masks)
            return self._masks.value({name: value})[name]
        except Exception:  # noqa: BLE001 - a damaged record may cause any error
            return None

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers; empty if they are damaged."""
        try:
            headers = self.message.headers
            return headers if self._masks is None else self._masks.value(dict(headers))
        except Exception:  # noqa: BLE001 - the same
            return NO_HEADERS

    @cached_property
    def _body(self) -> object:
        try:
            body = msgspec.json.decode(self.message.data)
            return body if self._masks is None else self._masks.value(body)
        except Exception:  # noqa: BLE001 - bytes, not JSON, too deep, a damaged record
            return None

    def body(self, path: tuple[str, ...]) -> object:
        """The value in a JSON body at a path of keys; None if there is none."""
        value: Any = self._body
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)  # pyright: ignore[reportUnknownVariableType]
        return value  # pyright: ignore[reportUnknownVariableType]


def lookup(name: str) -> Callable[[MessageFacts], object]:
    """The function that reads a name: a field, a part of the body or a header."""
    name = ALIASES.get(name, name)
    if name in FIELDS:
        return lambda facts: facts.field(name)
    first, *path = name.split(".")
    if first == "body":
        keys = tuple(path)
        return lambda facts: facts.body(keys)
    return header(name)


def needs(name: str) -> Wanted:
    """The parts of a message that contain a name's value; headers and parts of the body are in the record."""
    field = FIELDS.get(ALIASES.get(name, name))
    return field.needs if field else RECORD


def is_field(name: str) -> bool:
    """Whether a name is a field, one of ours or of another broker."""
    return name in FIELDS or name in ALIASES


def refusal(name: str) -> str:
    """Why a name of another broker is not supported, with advice; empty: it is not such a name."""
    if is_field(name) or not (name.startswith(("JMS", OF_ARTEMIS)) or name in OTHER_BROKERS):
        return ""
    prefix = OF_ARTEMIS if name.startswith(OF_ARTEMIS) else name[:3]
    known = ", ".join(sorted(known for known in (*FIELDS, *ALIASES) if known.startswith(prefix)))
    return (
        f"messages here have no {name}: of the names that begin with {prefix}, {known} are supported. "
        f'If it is sent as a header of that name, write "{name}" in double quotes'
    )


def header(name: str) -> Callable[[MessageFacts], object]:
    """The function that reads a header."""
    return lambda facts: facts.headers.get(name)


def _seconds_since(moment: datetime, now: int) -> float | None:
    if moment.year in DAMAGED:
        return None
    return (now - round(moment.timestamp() * 1000)) / 1000


def _age(message: Received[Any], now: int) -> float | None:
    _ = message.priority  # raises if the record is truncated, and its time is missing
    return _seconds_since(message.enqueued_at, now)


def _sent(message: Received[Any], _: int) -> int | None:
    return None if _age(message, 0) is None else round(message.enqueued_at.timestamp() * 1000)


def _expiration(message: Received[Any], _: int) -> int | None:
    """When it expires, in milliseconds; 0: never, as in JMS."""
    end = message.expires_at
    if end is None:
        return 0
    return None if end.year in DAMAGED else round(end.timestamp() * 1000)


def _cause(letter: DeadLetter[Any]) -> Cause:
    cause = letter.cause  # EXPIRY if the history is damaged
    return Cause() if cause is EXPIRY and letter.reason != "expired" else cause


def _visible_message(cause: Cause, masks: Masks) -> str:
    """An error's text as a page shows it: masked behind the name of its class, then by itself."""
    shown = masks.text(str(cause))
    return masks.text(shown.removeprefix(f"{cause.type}: ") if cause.type else shown)


def _of_dead(read: Callable[[DeadLetter[Any], int], object]) -> Callable[[Received[Any], int], object]:
    """A field of dead letters; empty text counts as NULL."""

    def value(message: Received[Any], now: int) -> object:
        found = read(message, now) if isinstance(message, DeadLetter) else None
        return None if found == "" else found

    return value


def _expired(letter: DeadLetter[Any], _: int) -> int | None:
    """When it expired, in milliseconds; None: it died for another reason."""
    return round(letter.died_at.timestamp() * 1000) if letter.reason == "expired" else None


def _of_state(name: str) -> Callable[[Received[Any], int], object]:
    """A count in the state of a message. If a dead letter has no reason, its state is damaged."""

    def value(message: Received[Any], _: int) -> object:
        damaged = isinstance(message, DeadLetter) and not message.reason
        return None if damaged else getattr(message, name)

    return value


_COUNTS: Final = (
    "attempt", "redelivered", "delivery_count", "untried",
    "charged", "nacked", "lapsed", "released", "redriven",
)  # fmt: skip

FIELDS: Final[Mapping[str, MessageField]] = {
    "id": MessageField(NOTHING, lambda message, _: message.id),
    "queue": MessageField(NOTHING, lambda message, _: message.queue),
    "priority": MessageField(HEAD, lambda message, _: message.priority),
    "key": MessageField(RECORD, lambda message, _: message.key),
    "dependency": MessageField(RECORD, lambda message, _: message.dependency),
    "size": MessageField(RECORD, lambda message, _: len(message.data)),
    "age": MessageField(HEAD, _age),
    **{name: MessageField(STATE, _of_state(name)) for name in _COUNTS},
    "reason": MessageField(STATE, _of_dead(lambda letter, _: letter.reason)),
    "error": MessageField(STORY, _of_dead(lambda letter, _: _cause(letter).type)),
    "message": MessageField(STORY, _of_dead(lambda letter, _: _cause(letter).message)),
    "fingerprint": MessageField(STORY, _of_dead(lambda letter, _: _cause(letter).fingerprint)),
    "original_queue": MessageField(NOTHING, _of_dead(lambda letter, _: letter.original_queue)),
    "died": MessageField(STATE, _of_dead(lambda letter, now: _seconds_since(letter.died_at, now))),
    "JMSTimestamp": MessageField(HEAD, _sent),
    "JMSExpiration": MessageField(HEAD | STATE, _expiration),
    "_AMQ_ACTUAL_EXPIRY": MessageField(STATE, _of_dead(_expired)),
}

ALIASES: Final[Mapping[str, str]] = {
    "JMSMessageID": "id",
    "AMQUserID": "id",
    "JMSPriority": "priority",
    "AMQPriority": "priority",
    "JMSXGroupID": "key",
    "AMQGroupID": "key",
    "JMSXDeliveryCount": "attempt",
    "JMSRedelivered": "redelivered",
    "AMQSize": "size",
    "AMQTimestamp": "JMSTimestamp",
    "AMQExpiration": "JMSExpiration",
    "_AMQ_ORIG_ADDRESS": "original_queue",
    "_AMQ_ORIG_QUEUE": "original_queue",
}

OTHER_BROKERS: Final = frozenset({"AMQDurable", "AMQAddress"})
"""Names of Artemis without an equivalent. JMS reserves all names that begin with JMS."""
OF_ARTEMIS: Final = "_AMQ_"
"""The beginning of names that Artemis reserves."""

SPANS: Final = frozenset({"age", "died"})
"""Fields in seconds, which are compared with durations."""
