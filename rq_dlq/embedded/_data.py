"""Who wrote the data in a directory, and which servers can read them.

A server reads what an older one of its kind wrote. Valkey and Redis parted after Redis 7.2: Valkey 9.0 and
Redis 7.4 do not read each other's files. So the process that starts one notes which. A file that a
server has rewritten begins with its version, too. That counts as well: rq_dlq 0.1.0 leaves no note.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Release", "found_in", "note"]

_NOTE: Final = "written-by"
_HEAD: Final = re.compile(rb"(?:REDIS|VALKEY)\d+\xfa.(redis|valkey)-ver.(\d+)\.(\d+)", re.DOTALL)
_HEAD_SIZE: Final = 64  # bytes


@dataclass(frozen=True)
class Release:
    """A server, as far as its files depend on it.

    Args:
        kind: "Redis" or "Valkey".
        number: the first two parts of its version.
    """

    kind: str
    number: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.kind} {self.number[0]}.{self.number[1]}"

    def reads(self, data: Release) -> bool:
        """Whether it reads the files that another one wrote."""
        if self.kind == data.kind:
            return self.number >= data.number
        if self.kind == "Valkey":
            return data.number <= _PARTED
        return data.number < (9, 0) and self.number >= _PARTED


_PARTED: Final = (7, 2)  # the last Redis whose files Valkey reads; those of Valkey 7.2 and 8 are like them
_MULTIPART: Final = Release("Redis", (7, 0))  # the first whose append-only file is a directory of files
_ANY: Final = Release("Redis", (6, 2))  # a file of commands: every server reads it


def found_in(home: Path) -> list[Release]:
    """Return who wrote the data in the directory; empty: there are none.

    Of several it returns the one that reads what the others wrote.
    """
    parts, single = home / "appendonlydir", home / "appendonly.aof"
    if parts.exists():
        found = {_MULTIPART, _noted(home), *map(_head, parts.glob("*.base.rdb"))}
    elif single.exists():
        found = {_ANY, _noted(home), _head(single)}
    else:
        return []
    writers = {writer for writer in found if writer is not None}
    return [one for one in writers if not any(other.reads(one) for other in writers - {one})]


def note(home: Path, writer: Release) -> None:
    """Note in the directory who writes its data from now on."""
    (home / _NOTE).write_text(f"{writer}\n", encoding="utf-8")


def _noted(home: Path) -> Release | None:
    """Who is in the note; None: there is none."""
    with suppress(OSError, UnicodeDecodeError):
        said = re.fullmatch(r"(Redis|Valkey) (\d+)\.(\d+)\n", (home / _NOTE).read_text(encoding="utf-8"))
        return Release(said[1], (int(said[2]), int(said[3]))) if said else None
    return None


def _head(file: Path) -> Release | None:
    """Who rewrote this file; None: it has only commands yet."""
    with file.open("rb") as data:
        said = _HEAD.match(data.read(_HEAD_SIZE))
    return Release(said[1].decode().capitalize(), (int(said[2]), int(said[3]))) if said else None
