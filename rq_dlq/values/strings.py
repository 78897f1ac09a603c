"""The strings in a body."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from rq_dlq.values.codec import NO_JSON

SEARCHED = 1 << 18  # the largest body that is searched, bytes


def strings_of(body: bytes) -> Iterator[str]:
    """The strings in a JSON body, outermost first; empty if it is not JSON, or too long to search."""
    try:
        level: list[Any] = [msgspec.json.decode(body if len(body) <= SEARCHED else b"")]
    except NO_JSON:
        return
    while level:
        yield from (value for value in level if isinstance(value, str))
        inner: list[Any] = [
            value.values() if isinstance(value, dict) else value
            for value in level
            if isinstance(value, dict | list)
        ]
        level = list(chain.from_iterable(inner))
