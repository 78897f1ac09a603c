"""Counts what waits behind a dependency by key: a parked message keeps the seat of its ordered key."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rq_dlq.core.keyed import calls
from rq_dlq.core.steps.step import Pipeline, Steps, chunks
from rq_dlq.values.key import lane_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.dependency import DependencyStats

LOOKED_AT: Final = 1_000  # parked messages whose keys are looked at; from there on their share is taken


def with_behind(
    keys: QueueKeys, found: Iterable[DependencyStats], blocked: int
) -> Steps[list[DependencyStats]]:
    """The dependencies, with how many messages wait behind their parked ones, for the same keys.

    Args:
        blocked: how many messages of the queue are blocked, parked ones included.
    """
    known = [*found]
    left = max(0, blocked - sum(one.waiting for one in known))  # the two were not read at once
    counted: list[DependencyStats] = []
    for one in known:
        behind = (yield from _behind(keys, one)) if left > 0 and one.waiting else 0
        counted.append(replace(one, behind=min(left, behind)))
        left -= counted[-1].behind
    return counted


def _behind(keys: QueueKeys, found: DependencyStats) -> Steps[int]:
    lane = lane_of(found.dependency, "dependency")
    parked: list[str] = yield calls.parked(keys, lane, LOOKED_AT)
    if not parked:
        return 0
    seats: list[int | None] = yield calls.lanes_of(keys, parked)
    lanes = Counter(seat for seat in seats if seat is not None)
    behind = 0
    for part in chunks([*lanes]):
        behind += sum((yield Pipeline([calls.blocked(keys, seat) for seat in part])))
    return round(behind * max(1.0, found.waiting / len(parked)))
