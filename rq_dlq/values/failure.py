"""Why deliveries failed: the history that a message keeps as a dead letter."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from rq_dlq.errors import Poison, Redeliver
from rq_dlq.values.durations import human
from rq_dlq.values.fingerprint import NAMING, Raised, fingerprint, from_user, place_of

MAX_MESSAGE = 500  # characters kept of an error's text
MAX_BEHIND = 10  # the most causes of an error that are examined
CELLS = 6  # cells in a line of history, not counting the traceback
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TRACEBACK = 2_000  # characters kept of a traceback, from its end


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a failed delivery.

    Attributes:
        type: the error's class, with its module unless it is a built-in.
        message: the error's text, at most 500 characters.
        fingerprint: twelve hex digits that are equal for the same kind of failure: six for the class of the
            error and the running functions of the user's code, six for the text without its variable parts.
        traceback: the end of the traceback, at most 2,000 characters; empty for all but the newest failure.
        version: the version of the program that failed (`Broker(version=…)`); empty: unknown.

    Examples:
        >>> (letter,) = mails.dlq.browse()
        >>> print(letter.cause)
        no address
        >>> letter.cause.type, letter.cause.message, len(letter.cause.fingerprint)
        ('', 'no address', 12)
    """

    type: str = ""
    message: str = ""
    fingerprint: str = ""
    traceback: str = ""
    version: str = ""

    @classmethod
    def named(cls, kind: str, text: str) -> Cause:
        """A cause recorded by another program: an error's class and its text."""
        return cls(_clean(kind[:MAX_MESSAGE]), _clean(text[:MAX_MESSAGE]), fingerprint(kind, text))

    @classmethod
    def of(cls, error: BaseException | str | None, values: Iterable[str] = ()) -> Cause:
        """Make the cause for an exception, or for a reason in words.

        Args:
            values: texts from the failing messages, which must not distinguish kinds of failure.
        """
        if error is None:
            return cls()
        if not isinstance(error, BaseException):
            error = error if isinstance(error, str) else _text(error)  # callers may pass any object
            return cls("", _clean(error[:MAX_MESSAGE]), fingerprint("", error, values=values))
        error = behind(error)
        raised, causes = _raised(error), [*map(_raised, causes_of(error))]
        mark = fingerprint(*raised[:3], values, naming=raised.naming, behind=causes)
        return cls(raised.error, _with_root(raised.text, causes)[:MAX_MESSAGE], mark, _traceback(error))

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.type, self.message)))  # the parts that are known

    def cells(self) -> str:
        """The two cells of a history line for this cause: its fields, and the traceback."""
        facts = {"type": self.type, "message": self.message, "fingerprint": self.fingerprint}
        if self.version:
            facts["version"] = self.version
        return f"{_json(facts)}\t{_json(self.traceback) if self.traceback else ''}"


def _raised(error: BaseException) -> Raised:
    place = place_of(error.__traceback__)
    return Raised(class_name(type(error)), _clean(_text(error)), place, isinstance(error, NAMING))


def causes_of(error: BaseException) -> list[BaseException]:
    """The causes and contexts of an error, and the errors of a group, nearest first."""
    if isinstance(error, Poison | Redeliver):
        return []  # their own text is the reason
    found = [error]
    for one in found:  # grows in the loop
        context = None if one.__suppress_context__ else one.__context__
        found += [
            other
            for other in (*_of_group(one)[:MAX_BEHIND], one.__cause__ or context)
            if other is not None and not any(other is known for known in found)
        ]
        del found[MAX_BEHIND:]
    return found[1:]


def _of_group(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _with_root(text: str, causes: list[Raised]) -> str:
    """An uninformative text, such as a TaskGroup's, with the last of its causes."""
    if not causes:
        return text
    root = causes[-1]
    if root.text and root.text in text:
        return text
    why = ": ".join(filter(None, (root.error, root.text)))
    return f"{text} (caused by {why})".lstrip()


def behind(error: BaseException) -> BaseException:
    """The error behind a Redeliver, or behind a Poison without text: these are only instructions."""
    if isinstance(error, Redeliver) or (isinstance(error, Poison) and not error.args):
        context = None if error.__suppress_context__ else error.__context__
        return error.__cause__ or context or error
    return error


FAILURES = frozenset({"nacked", "lapsed", "passed_on", "poisoned", "dead_lettered"})
"""The events of a history that can make a message dead."""

LAPSE = Cause("Lapsed", "the lease expired before its holder settled the message", "lapsed")
EXPIRY = Cause("Expired", "the message's time to live had expired", "expired")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a message's history.

    Attributes:
        event: nacked, lapsed, poisoned, redriven, undone (its redrive was undone), dead_lettered (by an
            operator), moved, copied, expired (recorded when the message leaves its expiry queue), kept (it
            failed as a dead letter), or passed_on (by a program that does not accept it). Of several kept or
            passed_on events in a row only the newest is recorded.
        at: the time, by the server's clock.
        delivery: the number of the attempt that it ended, from 1.
        delay: seconds until the redelivery; 0 if the message died or was redelivered immediately.
        consumer: the consumer that held the message; for a redrive, the one that requested it.
        cause: the cause of the failure.

    Examples:
        >>> (letter,) = mails.dlq.browse()
        >>> [(event.event, event.delivery, event.cause.message) for event in letter.history]
        [('poisoned', 1, 'no address')]
    """

    event: str
    at: datetime
    delivery: int
    delay: float
    consumer: str
    cause: Cause


def cause_of_expiry(last: Event | None, died_at: datetime) -> Cause:
    """The cause of an expiry: the failure after which too little time was left, or only the time to live.

    Args:
        last: the message's last failure; None: it never failed.
        died_at: when it expired. A failure without enough time left expires the message in the same step.
    """
    if last is None or last.at != died_at:
        return EXPIRY
    after = (
        f"the next delivery, {human(round(last.delay * 1000))} later" if last.delay else "the next delivery"
    )
    why = f"its time to live ends before {after}"
    if last.cause == Cause():
        return replace(EXPIRY, message=why)
    return replace(last.cause, message=f"{last.cause.message} (expired: {why})".lstrip())


def read_history(text: bytes) -> tuple[Event, ...]:
    """The events of a stored history; damaged lines are left out."""
    return tuple(_events(text.decode(errors="replace"))) if text else ()


def last_failure(text: bytes | None) -> Event | None:
    """The newest failure in a history; None: no failure."""
    for line in reversed((text or b"").split(b"\n")):
        for event in read_history(line):
            if event.event in FAILURES:
                return event
    return None


def _events(text: str) -> Iterator[Event]:
    for line in text.split("\n"):
        cells = line.split("\t")
        if len(cells) < CELLS:
            continue
        event, at, delivery, delay, consumer, facts, *tail = cells
        try:
            yield Event(
                event,
                moment(int(at)),
                int(delivery),
                int(delay) / 1000,
                msgspec.json.decode(consumer, type=str) if consumer else "",
                _cause(facts, tail[0] if tail else ""),
            )
        except (ValueError, TypeError, OverflowError):
            continue


def _cause(facts: str, tail: str) -> Cause:
    known: dict[str, Any] = msgspec.json.decode(facts, type=dict[str, Any]) if facts else {}
    text = msgspec.json.decode(tail, type=str) if tail else ""
    names = ("type", "message", "fingerprint", "version")
    kind, message, mark, version = (str(known.get(name, "")) for name in names)
    return Cause(kind, message, mark, text, version)


def moment(milliseconds: float) -> datetime:
    """A time of the server as a datetime in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a damaged record
        return datetime.max.replace(tzinfo=UTC)


def epoch_milliseconds(time: datetime) -> int:
    """A datetime with a time zone as a time of the server, rounded up."""
    return -(-(time - _EPOCH) // timedelta(milliseconds=1))


def class_name(kind: type) -> str:
    """The name of a class, with its module unless it is built in."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _text(error: object) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return "(the error has no text)"


def _traceback(error: BaseException) -> str:
    """The end of the traceback; empty if there is none, or if Python cannot format it."""
    if error.__traceback__ is None:
        return ""
    try:
        lines = traceback.format_exception(type(error), error, from_user(error.__traceback__))
    except Exception:  # noqa: BLE001 - a user's error may have any attributes, like the `offset` of a SyntaxError
        return ""
    return _clean("".join(lines)[-MAX_TRACEBACK:])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _clean(text: str) -> str:
    """The text with a question mark for each character that UTF-8 cannot encode (a lone surrogate)."""
    return text.encode(errors="replace").decode()
