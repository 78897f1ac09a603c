"""What the settings of a policy may be. A check returns the value, or says what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rq_dlq.durations import human, milliseconds, shown
from rq_dlq.errors import InvalidDuration, PolicyError

if TYPE_CHECKING:
    from rq_dlq.durations import Duration

DEFAULT_MAX_DELAY: Final = timedelta(minutes=10)
"""That very object, as a default, says that nothing was said: None already means no maximum."""

MOST_REDELIVERIES: Final = 2**53
"""Beyond it Lua, which has only doubles, cannot count."""


def duration(value: object, name: str) -> int:
    """A duration, in milliseconds."""
    try:
        return milliseconds(value, name=name)  # type: ignore[arg-type]
    except InvalidDuration as error:
        raise PolicyError(str(error)) from None


def durations(values: Iterable[Duration], name: str) -> tuple[int, ...]:
    """A list of durations that is not empty, in milliseconds."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        message = f"{name} is {shown(values)}. Pass a list of durations"
        raise PolicyError(message)
    checked = tuple(duration(value, f"{name}[{i}]") for i, value in enumerate(values))
    if not checked:
        message = f"{name} is empty. Pass at least one duration, or leave it out"
        raise PolicyError(message)
    return checked


def number(value: object, name: str, low: float, high: float = sys.float_info.max) -> float:
    """A number within bounds, so neither infinite nor NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        bounds = f"{low:g} or more" if high == sys.float_info.max else f"{low:g} to {high:g}"
        message = f"{name} is {shown(value)}. Pass a number, {bounds}"
        raise PolicyError(message)
    return float(value)


def whole(value: object, name: str, low: int, high: int) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        message = f"{name} is {shown(value)}. Pass a whole number, {low} to {high}"
        raise PolicyError(message)
    return value


def flag(value: object, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        message = f"{name} is {shown(value)}. Pass True or False"
        raise PolicyError(message)
    return value


def redeliveries(value: object, name: str) -> int | None:
    """A limit; None: no limit, which -1 says too."""
    if value is None or (value == -1 and not isinstance(value, bool)):
        return None
    try:
        return whole(value, name, 0, MOST_REDELIVERIES)
    except PolicyError as error:
        message = f"{error}, or None (or -1) for no limit"
        raise PolicyError(message) from None


def within(low: int, high: int | None, lower: str, upper: str) -> None:
    """Check that a duration is no longer than the one that bounds it; both in milliseconds."""
    if high is not None and low > high:
        longer = f"{lower} ({human(low)}) is longer than {upper} ({human(high)})"
        message = f"{longer}. Lower it, or raise {upper}"
        raise PolicyError(message)


def exceptions(values: Iterable[object], name: str) -> tuple[type[BaseException], ...]:
    """Exception classes, as isinstance() takes them."""
    given: tuple[object, ...] = tuple(values) if isinstance(values, Iterable) else (None,)
    classes = tuple(v for v in given if isinstance(v, type) and issubclass(v, BaseException))
    if len(classes) < len(given):
        message = f"{name} is {shown(values)}. Pass a tuple of exception classes: (ValueError,)"
        raise PolicyError(message)
    return classes


def growing(
    initial_delay: Duration | None, multiplier: float | None, max_delay: Duration | None
) -> tuple[int, float, int | None]:
    """The first wait, its growth and the longest wait, in milliseconds."""
    initial = duration(1 if initial_delay is None else initial_delay, "initial_delay")
    limit = None if max_delay is None else duration(max_delay, "max_delay")
    within(initial, limit, "initial_delay", "max_delay")
    return initial, number(2 if multiplier is None else multiplier, "multiplier", 1), limit


def listed(
    waits: tuple[int, ...],
    initial_delay: Duration | None,
    multiplier: float | None,
    max_delay: Duration | None,
) -> tuple[int, float, int | None]:
    """The same, settled by a list of waits. To say it again, as replace() does, is no error."""
    settled = waits[0], 1.0, max(waits)
    limit = settled[2] / 1000 if max_delay is None or max_delay is DEFAULT_MAX_DELAY else max_delay
    said = growing(
        settled[0] / 1000 if initial_delay is None else initial_delay,
        settled[1] if multiplier is None else multiplier,
        limit,
    )
    if said != settled:
        message = "delays settles initial_delay, multiplier and max_delay. Give either delays or those"
        raise PolicyError(message)
    return settled
