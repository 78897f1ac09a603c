"""Durations as text: parsing and formatting; `values/durations` checks arguments.

This is a separate module, since `Redeliver` also has a duration.
"""

from __future__ import annotations

import math
import re
import reprlib
from datetime import timedelta
from fractions import Fraction
from typing import Final, TypeAlias

Duration: TypeAlias = float | str | timedelta
"""Seconds, a timedelta, or text such as "1m30s"."""

TEN_YEARS: Final = 315_360_000_000
"""In milliseconds. No duration is longer, so every due time is exact in a double."""

_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_BARE: Final = re.compile(_NUMBER)
_TEXT: Final = re.compile(r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in _UNITS))


def read_duration(value: Duration, name: str, minimum: int = 0) -> int:
    """See `values.durations.milliseconds`.

    Raises:
        ValueError: the value is not a duration, or is out of range; the text says what to pass.
    """
    exact = _exact(value)
    if exact is None:
        # A command line passes only text.
        seconds = "seconds" if isinstance(value, str) else "seconds, a timedelta,"
        raise ValueError(
            f"{name}: {shown(value)} is not a duration. "
            f'Pass {seconds} or text such as "1m30s", "500ms", "2h", "1d", "2w"'
        )
    if not minimum <= exact <= TEN_YEARS:
        message = f"{name}: {shown(value)} is out of range. Pass {human(minimum)} to {human(TEN_YEARS)}"
        raise ValueError(message)
    # Nothing is another setting than a little: a wait of 0 never grows, a pause of 0 is none.
    return round(exact) or math.ceil(exact)


def human(ms: int) -> str:
    """Milliseconds as text that `read_duration` can parse: "1m30s", "250ms", "2h"."""
    if 0 < ms < _UNITS["s"]:
        return f"{ms}ms"
    text = ""
    for unit in ("d", "h", "m"):
        count, ms = divmod(ms, _UNITS[unit])
        text += f"{count}{unit}" if count else ""
    seconds, rest = divmod(ms, _UNITS["s"])
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{text}{seconds}{fraction}s" if ms or not text else text


def shown(value: object) -> str:
    """A value as shown in errors: always short."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "a number with thousands of digits"


def _exact(value: object) -> Fraction | None:
    """The exact milliseconds; None if the value is not a duration."""
    if isinstance(value, timedelta):
        return Fraction(value // timedelta.resolution, 1000)
    if isinstance(value, str):
        return _read(value.strip())
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return Fraction(value) * _UNITS["s"] if isinstance(value, int | float) else None


def _read(text: str) -> Fraction | None:
    if _BARE.fullmatch(text):
        return Fraction(text) * _UNITS["s"]
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        return None
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    return sum((Fraction(number) * unit for number, unit in parts if number), Fraction())
