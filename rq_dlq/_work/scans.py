"""Dividing what stands in queues into ranges that can be read side by side; touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rq_dlq._calls import scans
from rq_dlq._calls.scans import START, Position
from rq_dlq._work.steps import Batch, Steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rq_dlq._calls.scans import Index, Page, Wanted
    from rq_dlq._keys import QueueKeys

WORTH = 100_000  # messages that are worth a share of their own
MOST_SHARES = 16  # unless more are asked for: one Redis serves them all


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of an index whose score is a time, or all of it.

    Attributes:
        since, until: milliseconds, inclusive and exclusive; None: no bound.
    """

    keys: QueueKeys
    index: Index
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of an index between two positions."""

    keys: QueueKeys
    index: Index
    after: Position
    upto: Position


def shares_of(messages: int, wanted: int) -> int:
    """Into how many shares to divide so many messages; `wanted`: 0 where nobody said."""
    return wanted or min(MOST_SHARES, max(1, messages // WORTH))


def divide(stretches: Sequence[Stretch], wanted: int) -> Steps[list[list[Range]]]:
    """Divide them into shares of about the same size, each some ranges; `wanted`: how many, 0: it depends.

    What comes later than this is in none of them, so reading them ends while producers go on.
    """
    extents: list[tuple[int, int]] = []
    for stretch in stretches:
        extents.append((yield from _extent(stretch)))  # noqa: PERF401 - a step, for which no list waits
    total = sum(high - low for low, high in extents)
    step = max(1, -(-total // shares_of(total, wanted)))
    shares: list[list[Range]] = [[] for _ in range(-(-total // step))]
    done = 0
    for stretch, (low, high) in zip(stretches, extents, strict=True):
        if low < high:
            ranges = yield from _cut(stretch, range(low + step - done % step, high, step), high)
            for number, part in enumerate(ranges, done // step):
                shares[number].append(part)
            done += high - low
    return shares


def _extent(stretch: Stretch) -> Steps[tuple[int, int]]:
    """From which rank to which."""
    keys, index = stretch.keys, stretch.index
    low = 0 if stretch.since is None else (yield scans.rank(keys, index, stretch.since))
    high = yield scans.size(keys, index) if stretch.until is None else scans.rank(keys, index, stretch.until)
    return low, max(low, high)


def _cut(stretch: Stretch, ranks: Sequence[int], high: int) -> Steps[list[Range]]:
    """The ranges of a stretch that is cut before the rows of these ranks."""
    keys, index = stretch.keys, stretch.index
    last = -1 if stretch.until is None else high - 1
    found: list[Position | None] = yield Batch(
        [scans.position(keys, index, rank) for rank in [*(rank - 1 for rank in ranks), last]]
    )
    first = START if stretch.since is None else Position(stretch.since)
    # Where the queue shrinks meanwhile, there are fewer rows to cut at.
    rows = sorted((row for row in found if row is not None), key=lambda row: (float(row.score), row.member))
    return [Range(keys, index, after, upto) for after, upto in pairwise([first, *rows])]


def pages(part: Range, *, limit: int, wanted: Wanted) -> Iterator[Steps[Page]]:
    """The pages of a range, one after the other, each as steps to run before the next one is asked for."""
    position: Position | None = part.after

    def page(after: Position) -> Steps[Page]:
        nonlocal position
        found: Page = yield scans.scan(
            part.keys, part.index, after=after, upto=part.upto, limit=limit, wanted=wanted
        )
        position = found.next
        return found

    while position is not None:  # pyright: ignore[reportUnnecessaryComparison] - page() moves it
        yield page(position)
