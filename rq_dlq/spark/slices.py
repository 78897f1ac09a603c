"""Slices of claims, and how they are divided among tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys

ROWS = 25_000  # messages that are worth another task: it costs as much as to read them


@dataclass(frozen=True, slots=True)
class Slice:
    """The places from `first` up to `end` in the list of one claim; some may be empty by now."""

    keys: QueueKeys
    shard: int
    token: str
    first: int
    end: int


def dealt(slices: Sequence[Slice], tasks: int) -> list[list[Slice]]:
    """Slices of about equal size for each task. Claims are cut if there are more tasks than claims.

    Args:
        slices: to divide.
        tasks: the most; 0: as many as the messages need.
    """
    places = sum(part.end - part.first for part in slices)
    size = math.ceil(places / (tasks or math.ceil(places / ROWS))) if places else 1
    shares: list[list[Slice]] = [[]]
    room = size
    for whole in slices:
        rest = whole
        while rest.end - rest.first > room:
            cut = rest.first + room
            shares[-1].append(replace(rest, end=cut))
            shares.append([])
            rest, room = replace(rest, first=cut), size
        shares[-1].append(rest)
        room -= rest.end - rest.first
        if room == 0:
            shares.append([])
            room = size
    return list(filter(None, shares))
