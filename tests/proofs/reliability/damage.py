"""The table of what a stranger may write over a queue's keys, and how it is written there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parent / "data" / "damaged.yaml"
BIRTH, FLAGS, REST = slice(0, 7), slice(7, 8), slice(8, None)  # of a record, lua/record.lua
EXPIRES, HEADERS = 0x10, 0x20
Change = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Damage:
    """One row.

    Attributes:
        field: what is overwritten, a list of the table.
        value: what stands there then.
    """

    field: str
    value: bytes | int | str

    def __str__(self) -> str:
        shown = f"{self.value[:40]!r} ({len(self.value)})" if isinstance(self.value, bytes) else self.value
        return f"{self.field} {shown}"

    def do(self, raw: Any, keys: dict[str, str], message_id: str, token: str) -> bool:
        """Write it; whether there was something to write over."""
        if self.field == "type":
            return _of_another_type(raw, keys[str(self.value)])
        name, field = {
            "state": ("states", message_id),
            "history": ("history", message_id),
            "claim": ("claims", token),
            "claim_held": ("claims", f"{token}:held"),
        }.get(self.field, ("messages", message_id))
        before = raw.hget(keys[name], field)
        if before is None and name == "claims":
            return False
        raw.hset(keys[name], field, self._changed(before or b""))
        return True

    def undo(self, raw: Any, keys: dict[str, str]) -> None:
        """Give a key of another type back what it held: nobody can go on without."""
        if self.field == "type":
            key = keys[str(self.value)]
            raw.delete(key)
            if raw.exists(f"{key}:aside"):
                raw.rename(f"{key}:aside", key)

    def _changed(self, record: bytes) -> bytes:
        value: Any = self.value
        head, flags = record[BIRTH], record[FLAGS]
        changes: dict[str, Callable[[], bytes]] = {
            "cut": lambda: record[:value],
            "flags": lambda: head + bytes((value,)) + record[REST],
            "birth": lambda: value + flags + record[REST],
            "expiry": lambda: head + bytes((EXPIRES | 4,)) + value + b"1",
            "headers": lambda: head + bytes((HEADERS | 4,)) + len(value).to_bytes(2, "big") + value + b"1",
            "headers_length": lambda: head + bytes((HEADERS | 4,)) + value.to_bytes(2, "big") + b'{"a":"b"}1',
            "body": lambda: head + b"\x04" + value,
        }
        change = changes.get(self.field)
        return change() if change else value


def _of_another_type(raw: Any, key: str) -> bool:
    kind = raw.type(key)
    if kind != b"none":
        raw.rename(key, f"{key}:aside")
    if kind == b"string":
        raw.rpush(key, "a stranger's")
    else:
        raw.set(key, "a stranger's")
    return True


@cache
def damages() -> tuple[Damage, ...]:
    """All rows of the table."""
    table: dict[str, list[Any]] = yaml.safe_load(TABLE.read_text())
    names = [Damage("type", name) for name in table.pop("type")]
    return (*names, *(Damage(field, _read(value)) for field, values in table.items() for value in values))


def _read(value: Any) -> bytes | int | str:
    if isinstance(value, dict):
        return value["text"].encode("latin-1") * int(value["times"])  # type: ignore[no-any-return]
    return value.encode("latin-1") if isinstance(value, str) else value
