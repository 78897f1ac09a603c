"""Durations in arguments, converted to the whole milliseconds that Redis stores."""

from __future__ import annotations

from rq_dlq.errors import InvalidDuration
from rq_dlq.errors.durations import TEN_YEARS, Duration, human, read_duration, shown

__all__ = ["TEN_YEARS", "Duration", "human", "milliseconds", "shown"]


def milliseconds(value: Duration, *, name: str, minimum: int = 0) -> int:
    """A duration in whole milliseconds, rounded to the nearest; only 0 is 0, and less than one is one.

    Args:
        value: seconds (a number, or a number as text), a timedelta, or text of numbers and units
            from the largest to the smallest: "1m30s", "500ms", "2h", "1d", "2w", "1.5s".
        name: the argument's name, for the error.
        minimum: the shortest duration allowed, in milliseconds.

    Raises:
        InvalidDuration: the value is not a duration, is below the minimum, not finite, or over ten years.
    """
    try:
        return read_duration(value, name, minimum)
    except ValueError as error:
        raise InvalidDuration(str(error)) from None
