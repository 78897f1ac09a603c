"""The values of options, read from their texts. A value that cannot be used raises InvalidInput."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

import msgspec

from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.values.durations import milliseconds
from rq_dlq.values.failure import epoch_milliseconds
from rq_dlq.values.names import check_id, check_name

T = TypeVar("T")
Word = TypeVar("Word", bound=str)
Read: TypeAlias = Callable[[str, str], T]
"""Makes a value of the name of an option and its text."""

VIEW = (
    "Spark keeps the options of a temporary view, but not those of a table: write CREATE TEMPORARY VIEW … "
    "USING rq_dlq OPTIONS (queue '…')"
)
EXAMPLE = ', as in .option("queue", "orders")'
_NUMBER = re.compile(r"[0-9][0-9_]{0,17}")
_NAMES_IN_JSON = re.compile(r'\s*\[\s*"')  # no name has a quote
_EARLIEST = 10**11  # milliseconds: smaller numbers, except 0, are seconds, a year or a date without hyphens


def text(_: str, given: str) -> str:
    """Text, unchanged."""
    return given


def one_of(words: Iterable[Word]) -> Read[Word]:
    """One of several words, in any case."""
    known = {word.lower(): word for word in words}

    def read(name: str, given: str) -> Word:
        if (word := given.lower()) not in known:
            raise _unusable(name, word, f"one of {', '.join(filter(None, known))}")
        return known[word]

    return read


def flag(name: str, given: str) -> bool:
    """True or false."""
    return one_of(("true", "false"))(name, given) == "true"


def number(least: int, most: int = 1_000_000_000) -> Read[int]:
    """A whole number."""

    def read(name: str, given: str) -> int:
        digits = given.strip()
        if not _NUMBER.fullmatch(digits) or not least <= (value := int(digits.replace("_", ""))) <= most:
            raise _unusable(name, digits, f"a whole number from {least:,} to {most:,}")
        return value

    return read


def duration(minimum: int) -> Read[int]:
    """A duration in milliseconds."""
    return lambda name, given: milliseconds(given, name=name, minimum=minimum)


def byte_count(name: str, given: str) -> int:
    """A number of bytes, like Spark's: 64m, 512kb, 1g."""
    found = re.fullmatch(r"([0-9]{1,15}) ?([kmg]?)b?", given.strip().lower())
    if not found or not int(found[1]):
        raise _unusable(name, given, "a number of bytes (64m, 512k, 1g)")
    return int(found[1]) << 10 * " kmg".index(found[2] or " ")


def moment(name: str, given: str) -> int:
    """A time in epoch milliseconds, rounded up. A time without a zone is in UTC."""
    given = given.strip()
    if re.fullmatch(r"[0-9]{1,15}", given):
        if 0 < int(given) < _EARLIEST:
            wanted = "milliseconds since 1970, which have 12 digits or more: write a date as 2026-11-21"
            raise _unusable(name, given, wanted)
        return int(given)
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise _unusable(name, given, "an ISO time (2026-11-21T14:00:00Z) or epoch milliseconds") from None
    return epoch_milliseconds(time if time.tzinfo else time.replace(tzinfo=UTC))


def function_name(name: str, given: str) -> str:
    """A function as module:function, which tasks can import."""
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", given.strip()):
        raise _unusable(name, given, "a function that tasks can import, as module:function")
    return given.strip()


def column_names(_: str, given: str) -> tuple[str, ...]:
    """Names of columns, separated by commas."""
    return tuple(filter(None, _listed(given, in_json=False)))


def queue_name(name: str, given: str) -> str:
    """The name of a queue, without spaces around it."""
    first, *more = queue_names(name, given)
    if more or "*" in first:
        wanted = "the name of one queue; only what reads takes several. Use one write for each"
        raise _unusable(name, given, wanted)
    return first


def queue_names(name: str, given: str) -> tuple[str, ...]:
    """Names or patterns of queues, without spaces around them; in a JSON array, they may have commas."""
    if not given.strip():
        raise InvalidInput(f"option {name} is missing: pass the name of a queue{EXAMPLE}. In SQL: {VIEW}")
    try:
        names = tuple(_listed(given, in_json=_NAMES_IN_JSON.match(given) is not None))
    except msgspec.MsgspecError as error:
        raise _unusable(name, given, f"a list of names, separated by commas or in JSON ({error})") from None
    if not all(names):
        message = f"option {name}: {given[:100]!r}: pass the name of a queue, or several separated by commas"
        raise InvalidInput(message)
    for each in names:
        check_name(each.replace("*", "x"))
    return names


def queue_text(names: Iterable[str]) -> str:
    """The text that `queue_names` reads as these names."""
    return msgspec.json.encode(list(names)).decode()


def message_ids(name: str, given: str) -> tuple[str, ...]:
    """The ids of messages, separated by commas, or as a JSON array; empty: none is chosen."""
    if not given.strip():
        return ()
    try:
        ids = _listed(given, in_json=given.lstrip().startswith("["))
        for each in ids:
            check_id(each)
    except (msgspec.MsgspecError, InvalidMessage) as error:
        raise _unusable(name, given, f"a list of ids, separated by commas or in JSON ({error})") from None
    return tuple(dict.fromkeys(ids))


def _listed(given: str, *, in_json: bool) -> list[str]:
    return (
        msgspec.json.decode(given, type=list[str]) if in_json else [one.strip() for one in given.split(",")]
    )


def _unusable(name: str, value: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"option {name}: {value[:100]!r} is not {wanted}")
