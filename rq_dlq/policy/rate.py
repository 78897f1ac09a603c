"""The rate of a queue: how many messages it hands out in a time."""

from __future__ import annotations

import re

from rq_dlq.errors import PolicyError
from rq_dlq.values.durations import shown

_TEXT = re.compile(r"([1-9]\d{0,6})/([1-9]\d{0,4})?(ms|s|m|h|d)")


def given(value: object, name: str) -> str | None:
    """A rate as it stands in Redis (lua/lib/pace), from what a user passes; None: there is no limit.

    It is text as "100/s" or "5/10m", or a whole number, which is one a second.

    Raises:
        PolicyError: it is no rate.
    """
    if value is None:
        return None
    text = f"{value}/s" if type(value) is int else value
    if isinstance(text, str) and _TEXT.fullmatch(text):
        return text
    known = '"100/s" or "5/10m" (ms, s, m, h, d)'
    raise PolicyError(f"{name} is {shown(value)}. Pass text as {known}, or None for no limit")
