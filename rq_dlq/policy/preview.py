"""A table of a policy's waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import human

if TYPE_CHECKING:
    from rq_dlq.policy.arithmetic import Arithmetic

WITHOUT_LIMIT: Final = 12
"""How many rows to show if there is no limit, or a very high one."""
MOST: Final = 10_000
"""The most redeliveries that are computed individually; it takes about ten milliseconds."""


class Row(NamedTuple):
    """One redelivery; the times are seconds."""

    n: int
    earliest: float
    nominal: float
    latest: float
    elapsed: float
    """The sum of the nominal waits so far."""


class Span(NamedTuple):
    """The range of a time, due to the spread; in seconds."""

    earliest: float
    nominal: float
    latest: float


@dataclass(frozen=True, slots=True)
class Preview:
    """The waits of a policy. `str()` is a table; `rows` is ready for JSON.

    Attributes:
        rows: the redeliveries, in order.
        max_redeliveries: the policy's limit.
        dead_after: the sum of the waits from the first failure to the dead-letter queue, without the time
            that handlers take; None: never. Waits after the 10,000th redelivery count as equal to that one:
            nearly every policy has reached its longest wait before.
    """

    rows: tuple[Row, ...]
    max_redeliveries: int | None
    dead_after: Span | None

    @classmethod
    def of(cls, arithmetic: Arithmetic, limit: int | None, n: int | None) -> Preview:
        """The preview of a policy with this limit of redeliveries; `n` as in `RedeliveryPolicy.preview`.

        Raises:
            InvalidInput: n is not from 0 to 10,000.
        """
        if n is not None and not 0 <= n <= MOST:
            raise InvalidInput(f"n is {n}. Pass how many redeliveries to show, 0 to {MOST:,}")
        usual = WITHOUT_LIMIT if limit is None or limit > MOST else limit
        shown = usual if n is None else n
        waits = [*_waits(arithmetic, shown if limit is None else min(limit, MOST))]
        elapsed = accumulate(nominal for _, nominal, _ in waits)
        rows = [
            Row(k, *(ms / 1000 for ms in (*wait, total)))
            for k, (wait, total) in enumerate(zip(waits[:shown], elapsed, strict=False), start=1)
        ]
        return cls(tuple(rows), limit, None if limit is None else _sum(waits, limit))

    def __str__(self) -> str:
        header = ("n", "earliest", "nominal", "latest", "elapsed")
        lines = [header, *((str(row.n), *map(_text, row[1:])) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ("  ".join(map(str.rjust, line, widths)) for line in lines)
        return "\n".join((*table, self._ending()))

    def _ending(self) -> str:
        if self.dead_after is None:
            return "never dead-lettered: there is no limit on redeliveries"
        times = "1 redelivery" if self.max_redeliveries == 1 else f"{self.max_redeliveries} redeliveries"
        earliest, nominal, latest = map(_text, self.dead_after)
        between = "" if earliest == latest else f" ({earliest} to {latest})"
        return f"dead-lettered after {times}, {nominal}{between}"


def _waits(arithmetic: Arithmetic, n: int) -> Iterator[tuple[int, int, int]]:
    """The shortest, the nominal and the longest of each wait, in milliseconds."""
    low = mid = high = None
    for k in range(1, n + 1):
        low, mid = arithmetic.wait(k, -1, low), arithmetic.wait(k, 0, mid)
        high = arithmetic.longest(k, high)
        yield low, mid, high


def _sum(waits: Sequence[tuple[int, int, int]], limit: int) -> Span:
    """The sum of the waits, repeating the last one for the remaining redeliveries."""
    last, left = waits[-1] if waits else (0, 0, 0), limit - len(waits)
    return Span(*((sum(wait[i] for wait in waits) + left * last[i]) / 1000 for i in range(3)))


def _text(seconds: float) -> str:
    return human(round(seconds * 1000))
