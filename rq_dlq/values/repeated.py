"""Repeated names in a JSON object: a reader keeps only the last one."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from rq_dlq.values.durations import shown

_TOO_DEEP = (ValueError, RecursionError)


def repeated_name(body: Any, data: bytes, encoder: msgspec.json.Encoder) -> str | None:
    """A name that an object in a body would have twice, as from the keys 1 and "1"; None: there is none.

    Args:
        body: the encoded body.
        data: its JSON.
        encoder: the encoder.
    """
    if data.count(b"{") == 1 and _has_texts(body):
        return None
    try:  # in C; without repeated names it is shorter
        if len(encoder.encode(msgspec.json.decode(data))) == len(data):
            return None
        json.loads(data, object_pairs_hook=_checked)
    except _Repeated as found:
        return found.name
    except _TOO_DEEP:
        return None
    return None


def _has_texts(body: Any) -> bool:
    """Whether this is a struct, or a dict whose keys are all text."""
    if type(body) is not dict:
        return isinstance(body, msgspec.Struct)
    try:
        "".join(cast("dict[str, Any]", body))
    except TypeError:
        return False
    return True


class _Repeated(Exception):  # noqa: N818 - a search result, not an error
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def _checked(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise _Repeated(shown(name))
        names.add(name)
