"""Slices of claims, and how they are dealt out to tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = 25_000  # messages of a batch that are worth a task of their own: it costs as much as to read them


@dataclass(frozen=True, slots=True)
class Slice:
    """The places from `first` to `end` in the list of one claim."""

    home: str
    shard: int
    token: str
    first: int
    end: int


def dealt(slices: Sequence[tuple[int, Slice]], tasks: int) -> list[list[Slice]]:
    """Slices of about the same size for each task; claims are cut where there are more tasks than claims."""
    messages = sum(count for count, _ in slices)
    size = math.ceil(messages / (tasks or math.ceil(messages / ROWS))) if messages else 1
    shares: list[list[Slice]] = [[]]
    room = size
    for count, whole in slices:
        first = 0
        while count - first > room:
            shares[-1].append(replace(whole, first=first, end=first + room))
            shares.append([])
            first, room = first + room, size
        # To the end of the list, which may be longer than what is held.
        shares[-1].append(replace(whole, first=first))
        room -= count - first
        if room == 0:
            shares.append([])
            room = size
    return list(filter(None, shares))
