"""The rate of a queue: how many messages it delivers per time span."""

from __future__ import annotations

import re

from rq_dlq.errors import PolicyError
from rq_dlq.values.durations import shown

_TEXT = re.compile(r"([1-9]\d{0,6})/([1-9]\d{0,4})?(ms|s|m|h|d)")


def given(value: object, name: str, none: str = ", or None for no limit") -> str | None:
    """The argument `rate` as stored in Redis (lua/rates.lua, bucket); None: no limit.

    It is text such as "100/s" or "5/10m", or a whole number per second. The error ends with `none`.

    Raises:
        PolicyError: it is not a rate.
    """
    if value is None:
        return None
    text = f"{value}/s" if type(value) is int else value
    if isinstance(text, str) and _TEXT.fullmatch(text):
        return text
    known = '"100/s" or "5/10m" (ms, s, m, h, d)'
    raise PolicyError(f"{name} is {shown(value)}. Pass text such as {known}{none}")
