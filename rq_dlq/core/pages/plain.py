"""Pages of waiting messages by plain commands, which take Redis a third of the time of the verb `scan`.

Plain commands are not atomic together. So they read only pages that are beyond doubt; the verb reads the
others:

- The rows of a page, and the last row of the page before, are in one reply, so none between them is missed.
- The states are read after the rows, and show that all messages are waiting and not leased. The records are
  read last, and all are there.
- No record is long, and few messages have a history.
- It is neither the first page nor the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from rq_dlq.core.pages import calls
from rq_dlq.core.pages.calls import Page, Position
from rq_dlq.core.steps.step import CHANGED, Pipeline, Steps, chunks
from rq_dlq.values.record import HEAD

if TYPE_CHECKING:
    from rq_dlq.core.pages.ranges import Range
    from rq_dlq.values.wanted import Wanted

Cells = list[bytes | None]


def plain_pages(part: Range, *, limit: int, wanted: Wanted) -> Iterator[Steps[Page]]:
    """As `ranges.pages`, for ranges of `ready` and `scheduled` that have many pages."""
    reader = _RangeReader(part, limit, wanted)
    while reader.after is not None:
        yield reader.page(reader.after)


class _RangeReader:
    """Reads a range page by page.

    Attributes:
        after: where the next page begins; None: the range is complete.
    """

    def __init__(self, part: Range, limit: int, wanted: Wanted) -> None:
        self.after: Position | None = part.after
        self._part, self._limit, self._wanted = part, limit, wanted
        self._rows: list[bytes] = []  # read ahead
        self._rank = 0  # of the first of them

    def page(self, after: Position) -> Steps[Page]:
        """The page after this position."""
        part = self._part
        found = None if after is part.after else (yield from self._plain_page(after))
        if found is None:
            found = yield calls.scan(
                part.keys, part.index, after=after, upto=part.upto, limit=self._limit, wanted=self._wanted
            )
        self.after = found.next
        return found

    def _plain_page(self, after: Position) -> Steps[Page | None]:
        """The page by plain commands; None: there is a doubt."""
        keys, index, wanted = self._part.keys, self._part.index, self._wanted
        rows = yield from self._rows_after(after)
        if not rows:
            return None
        ids = [calls.id_of(row) for row in rows]
        states: Cells = yield calls.cells(keys, "states", ids)
        if not all(map(_waits, filter(None, states))):
            return None
        histories: Cells = []
        if wanted.history:
            histories = [None] * len(ids)
            told = [n for n, state in enumerate(states) if state is not None] if any(states) else []
            if len(told) > CHANGED:
                return None
            if told:
                stories: Cells = yield calls.cells(keys, "history", [ids[n] for n in told])
                for n, story in zip(told, stories, strict=True):
                    histories[n] = story
        self._rank += len(self._rows) - 1
        last, self._rows, *found = yield Pipeline(
            [
                calls.position_of(keys, index, rows[-1]),
                calls.rows(keys, index, self._rank, self._limit + 1),
                *(calls.cells(keys, "messages", chunk) for chunk in chunks(ids)),
            ]
        )
        records = [*chain.from_iterable(found)]
        if last is None or None in records or not _is_before(last, self._part.upto):
            return None
        if wanted.record != "whole":
            records = [record[:HEAD] for record in records] if wanted.record == "head" else []
        return Page(ids, records, states if wanted.state else [], histories, last)

    def _rows_after(self, after: Position) -> Steps[list[bytes]]:
        """The rows after this position; empty if its own row is gone, or the index ends."""
        keys, index = self._part.keys, self._part.index
        if after.member not in self._rows:
            self._rank = yield calls.rank(keys, index, after.score)
            self._rows = yield calls.rows(keys, index, self._rank, self._limit + 1)
        if after.member not in self._rows or len(self._rows) <= self._limit:
            return []
        return self._rows[self._rows.index(after.member) + 1 :]


def _waits(state: bytes) -> bool:
    """Whether the message waits and is not held, and its record is short."""
    return state.startswith(b"live -") and b" head=" not in state


def _is_before(one: Position, other: Position) -> bool:
    return (float(one.score), one.member) < (float(other.score), other.member)
