"""Ranges of indexes, divided for concurrent reading, and their pages; read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rq_dlq.core.pages import calls
from rq_dlq.core.pages.calls import START, Position
from rq_dlq.core.steps.step import CHUNK, Pipeline, Steps

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Index, Page, Readable
    from rq_dlq.core.steps.call import Command, Place
    from rq_dlq.values.wanted import Wanted

WORTH = 100_000  # messages that are worth a share of their own
TOKENS = 1_000  # in one read of the leases
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
    index: Readable
    after: Position
    upto: Position


def shares_of(messages: int, wanted: int, cores: int = 0) -> int:
    """The number of shares into which to divide this many messages.

    Args:
        wanted: the number of shares; 0: it depends on the number of messages.
        cores: the cores that read them; then there are no more shares than cores. 0: unknown.
    """
    return wanted or min(MOST_SHARES, cores or MOST_SHARES, max(1, messages // WORTH))


def divide(stretches: Sequence[Stretch], wanted: int, cores: int = 0) -> Steps[list[list[Range]]]:
    """Divide stretches into shares of about the same size, each a list of ranges.

    Messages that arrive later are in none of them, so reading them ends while producers keep sending.

    Args:
        wanted, cores: as in `shares_of`.
    """
    extents: list[tuple[int, int]] = []
    for stretch in stretches:
        extents.append((yield from _extent(stretch)))  # noqa: PERF401 - a step, for which no list waits
    total = sum(high - low for low, high in extents)
    step = max(1, -(-total // shares_of(total, wanted, cores)))
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
    """The ranks where a stretch begins and ends."""
    keys, index = stretch.keys, stretch.index
    low = 0 if stretch.since is None else (yield calls.rank(keys, index, stretch.since))
    high = yield calls.size(keys, index) if stretch.until is None else calls.rank(keys, index, stretch.until)
    return low, max(low, high)


def _cut(stretch: Stretch, ranks: Sequence[int], high: int) -> Steps[list[Range]]:
    """The ranges of a stretch, cut before the rows of these ranks."""
    keys, index = stretch.keys, stretch.index
    last = -1 if stretch.until is None else high - 1
    found: list[Position | None] = yield Pipeline(
        [calls.position(keys, index, rank) for rank in [*(rank - 1 for rank in ranks), last]]
    )
    first = START if stretch.since is None else Position(stretch.since)
    # If the queue shrinks in the meantime, there are fewer rows to cut at.
    rows = sorted((row for row in found if row is not None), key=lambda row: (float(row.score), row.member))
    return [Range(keys, index, after, upto) for after, upto in pairwise([first, *rows])]


def pages(
    part: Range,
    *,
    limit: int,
    wanted: Wanted,
    newest: bool = False,
    last: Command[Position | None] | None = None,
) -> Iterator[Steps[Page]]:
    """The pages of a range, each as steps that the caller runs before it takes the next.

    Args:
        newest: from the end of the range on.
        last: reads the last row that there is now, in the round trip of the first page; the range ends there.
    """
    after, upto, over = part.after, part.upto, False

    def page() -> Steps[Page]:
        nonlocal after, upto, over, last
        scan = calls.scan(
            part.keys, part.index, after=after, upto=upto, limit=limit, wanted=wanted, newest=newest
        )
        found: Page
        if last is None:
            found = yield scan
        else:
            end, found = yield Pipeline([last, scan])
            upto, last = end and min(end, upto, key=_order), None
        if found.next is None or upto is None:
            over = True
        elif newest:
            upto = found.next
        else:
            after = found.next
        return found

    while not over:  # pyright: ignore[reportUnnecessaryComparison] - page() says so
        yield page()


def _order(position: Position) -> tuple[float, bytes]:
    return float(position.score), position.member


def pages_of(keys: QueueKeys, ids: Sequence[str], *, place: Place, wanted: Wanted) -> Iterator[Steps[Page]]:
    """The pages of these messages, as far as they are in the place; like `pages`."""
    start = 0

    def page() -> Steps[Page]:
        nonlocal start
        found: Page = yield calls.browse(keys, place=place, ids=ids[start : start + CHUNK], wanted=wanted)
        start += found.looked
        return found

    while start < len(ids):
        yield page()


def leases(keys: QueueKeys) -> Steps[list[str]]:
    """The tokens that hold something, the first to lapse first."""
    found: dict[str, None] = {}  # a lease that is extended in the meantime moves, and appears twice
    position: Position | None = START
    while position is not None:
        tokens, position = yield calls.leases(keys, after=position, limit=TOKENS)
        found |= dict.fromkeys(tokens)
    return list(found)
