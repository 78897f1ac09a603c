"""Checks of the settings of a policy. A check returns the value, or raises PolicyError."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from msgspec import UNSET, UnsetType

from rq_dlq.errors import InvalidDuration, InvalidName, PolicyError
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.values.durations import human, milliseconds, shown
from rq_dlq.values.flags import check_flag
from rq_dlq.values.names import check_name

if TYPE_CHECKING:
    from rq_dlq.values.durations import Duration

T = TypeVar("T")

JSON: TypeAlias = int | float | str | list[int] | list[str] | None
"""A setting in Redis; durations are whole milliseconds."""

Check: TypeAlias = Callable[[object, str], Any]
"""Converts a value (with its name, for the error) to its form in Redis, or raises a `PolicyError`."""

DEFAULT_MAX_DELAY: Final = timedelta(minutes=10)
"""The default, compared by identity: no maximum was passed. None means that there is no maximum."""

CLASSES: Final = {
    "redelivery": "a RedeliveryPolicy",
    "dead_letter": "a strategy, such as IndividualDeadLetterStrategy()",
    "expiry": "an ExpiryPolicy",
}
"""The values that a part of an entry accepts, besides a mapping."""

LARGEST_WHOLE: Final = 2**53
"""The largest whole number that Lua counts exactly: it has only doubles."""


def duration(value: object, name: str, minimum: int = 0) -> int:
    """A duration in milliseconds, like the minimum."""
    try:
        return milliseconds(value, name=name, minimum=minimum)  # type: ignore[arg-type]
    except InvalidDuration as error:
        raise PolicyError(str(error)) from None


def durations(values: Iterable[Duration], name: str) -> tuple[int, ...]:
    """A non-empty list of durations, in milliseconds."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise PolicyError(f"{name} is {shown(values)}. Pass a list of durations")
    checked = tuple(duration(value, f"{name}[{i}]") for i, value in enumerate(values))
    if not checked:
        raise PolicyError(f"{name} is empty. Pass at least one duration, or leave it out")
    return checked


def number(value: object, name: str, low: float, high: float = sys.float_info.max) -> float:
    """A number within bounds; never infinite or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        bounds = f"{low:g} or more" if high == sys.float_info.max else f"{low:g} to {high:g}"
        raise PolicyError(f"{name} is {shown(value)}. Pass a number, {bounds}")
    return float(value)


def growth(value: object, name: str) -> float:
    """A factor by which waits grow; 1: they stay the same."""
    return number(value, name, 1)


def part(value: object, name: str) -> float:
    """The fraction of a wait by which it is randomized."""
    return number(value, name, 0, 1)


def whole(value: object, name: str, low: int, high: int, hint: str = "") -> int:
    """A whole number within bounds; the error ends with the hint."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PolicyError(f"{name} is {shown(value)}. Pass a whole number, {low} to {high}{hint}")
    return value


def flag(value: object, name: str) -> bool:
    """True or False."""
    return check_flag(value, name, PolicyError)


def redeliveries(value: object, name: str) -> int | None:
    """A limit on redeliveries; None and -1: no limit."""
    if value is None or (value == -1 and not isinstance(value, bool)):
        return None
    return whole(value, name, 0, LARGEST_WHOLE, ", or None (or -1) for no limit")


def within(low: int, high: int | None, lower: str, upper: str) -> None:
    """Check that a duration is not longer than its limit; both in milliseconds."""
    if high is not None and low > high:
        longer = f"{lower} ({human(low)}) is longer than {upper} ({human(high)})"
        raise PolicyError(f"{longer}. Lower it, or raise {upper}")


def exceptions(values: Iterable[object], name: str) -> tuple[type[BaseException], ...]:
    """A tuple of exception classes, for isinstance()."""
    given: tuple[object, ...] = tuple(values) if isinstance(values, Iterable) else (None,)
    classes = tuple(v for v in given if isinstance(v, type) and issubclass(v, BaseException))
    if len(classes) < len(given):
        raise PolicyError(f"{name} is {shown(values)}. Pass a tuple of exception classes: (ValueError,)")
    return classes


def exceptions_or_names(values: Iterable[object], name: str) -> tuple[type[BaseException] | str, ...]:
    """A tuple of exception classes, or of their names."""
    given: tuple[object, ...] = (None,)
    if isinstance(values, Iterable) and not isinstance(values, str):
        given = tuple(values)
    if not all(map(_is_error, given)):
        raise PolicyError(
            f"{name} is {shown(values)}. Pass a tuple of exception classes, or of their names with the "
            'module: Breaker.UNREACHABLE, or (OSError, "httpx.TransportError")'
        )
    return cast("tuple[type[BaseException] | str, ...]", given)


def _is_error(value: object) -> bool:
    """Whether a value is an exception class, or may be the name of one; without a module it is built in."""
    if isinstance(value, str) and "." in value:
        return all(part.isidentifier() for part in value.split("."))
    found = vars(builtins).get(value) if isinstance(value, str) else value
    return isinstance(found, type) and issubclass(found, BaseException)


def fields(given: object, known: Collection[str], what: str) -> dict[str, Any]:
    """The fields of a mapping, with their names checked."""
    if not isinstance(given, Mapping):
        one = CLASSES.get(what, "an Entry")
        message = f"{what} is {shown(given)}. Pass {one}, or a mapping of {', '.join(known)}"
        raise PolicyError(message)
    pairs = cast("Mapping[object, object]", given).items()
    for name, _ in pairs:
        if name not in known:
            usual = sentence_for([name], what)
            hint = f": {usual}" if usual else f". {closest(str(name), {one: one for one in known})}"
            raise PolicyError(f"{what} has no field {shown(name)}{hint}")
    return {str(name): value for name, value in pairs if value is not UNSET}


def closest(name: str, known: Mapping[str, str]) -> str:
    """A hint: the most similar known name, or all of them if none is similar.

    Args:
        known: the names to show, by the spellings to compare.
    """
    found = get_close_matches(name, known, n=1)
    return f"The closest is {known[found[0]]!r}" if found else f"Possible are {', '.join(known.values())}"


def queue_name(value: object, name: str) -> str:
    """The name of a queue."""
    try:
        check_name(value)
    except InvalidName as error:
        raise PolicyError(f"{name}: {error}") from None
    return str(value)


def queue_names(value: object, name: str) -> str | None:
    """Queue names joined by spaces, from a list or from text with spaces; None: no names."""
    given: object = value.split() if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list | tuple):
        raise PolicyError(f"{name} is {shown(value)}. Pass a list of names, or text with spaces between them")
    return " ".join(dict.fromkeys(queue_name(one, name) for one in cast("list[object]", given))) or None


def affix(value: object, name: str) -> str:
    """A prefix or suffix of a queue's name; it may be empty."""
    if value != "":
        queue_name(value, name)
    return str(value)


def apart(prefix: str | UnsetType, suffix: str | UnsetType) -> None:
    """Check that a queue's dead-letter or expiry queue does not get the queue's own name."""
    if prefix == "" and not suffix:
        message = "without a prefix or a suffix the name would be the queue's own. Pass one of them"
        raise PolicyError(message)


def store(value: object, **fields: object) -> None:
    """Set the fields of a frozen value that is being made."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)


def or_none(checked: Check) -> Check:
    """A check that also accepts None."""
    return lambda value, name: None if value is None else checked(value, name)


def count(low: int, nothing: str) -> Check:
    """A check for a whole number; None (and 0, where it is allowed) means `nothing`."""

    def checked(value: object, name: str) -> int | None:
        return whole(value, name, low, LARGEST_WHOLE, f", or None for {nothing}") or None

    return or_none(checked)


def size(value: object, name: str) -> int | None:
    """Bytes, as a whole number or text such as "64MB"; None: the default."""
    found = re.fullmatch(r"([1-9]\d{0,11}) ?(k|M|G)?B", value) if isinstance(value, str) else None
    if found:
        return int(found[1]) << 10 * " kMG".index(found[2] or " ")
    if value is None or type(value) is int:
        return None if value is None else whole(value, name, 1, LARGEST_WHOLE)
    raise PolicyError(f'{name} is {shown(value)}. Pass text such as "64MB" (kB, MB, GB), or bytes')


def one_of(words: tuple[str, ...]) -> Check:
    """A check for one of these words."""

    def checked(value: object, name: str) -> str:
        if value not in words:
            message = f"{name} is {shown(value)}. Pass one of {', '.join(words)}"
            raise PolicyError(message)
        return str(value)

    return checked
