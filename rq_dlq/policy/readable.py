"""Policies as readable text; `values/readable`, for messages and queues, stands below and knows no fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rq_dlq.policy.fields import FIELDS
from rq_dlq.values.durations import human


def as_read(where: str, value: Any) -> str:
    """A field's value in Redis, as readable text."""
    field = FIELDS.get(where)
    if value is None:
        return (field.none if field else "") or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(as_read(where, item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if field is not None and field.in_ms:
        return f"-{human(-value)}" if value < 0 else human(value)
    return f"{value:,g}" if isinstance(value, float) else str(value) or '""'


def in_a_line(fields: Mapping[str, Any]) -> str:
    """The fields of an entry in one line: `redelivery: initial_delay 5s, multiplier 3`."""
    parts: dict[str, list[str]] = {}
    for where, value in fields.items():
        part, _, name = where.rpartition(".")
        parts.setdefault(part, []).append(f"{name} {as_read(where, value)}")
    lines = {part: ", ".join(said) for part, said in parts.items()}
    return "; ".join(f"{part}: {line}" if part else line for part, line in lines.items())
