"""What was lost and what came twice: the ids that were sent, beside those in the sink and in the queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable

    import rq_dlq


@dataclass(frozen=True, slots=True)
class Tally:
    """How it ended.

    Attributes:
        sent: how many messages.
        lost: of them, those that are nowhere.
        duplicated: of them, those that are there more than once.
    """

    sent: int
    lost: int
    duplicated: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sent + other.sent, self.lost + other.lost, self.duplicated + other.duplicated)


NOTHING = Tally(0, 0, 0)


def tally(sent: Iterable[str], output: Iterable[str], kept: Iterable[str] = ()) -> Tally:
    """Count them; kept: what is not in the output, but not lost either."""
    wanted, seen = set(sent), Counter(output)
    lost = wanted - seen.keys() - set(kept)
    return Tally(len(wanted), len(lost), sum(seen[each] > 1 for each in wanted))


def written(sink: Path, column: str = "id") -> list[str]:
    """What the batches have left in a sink, in `epoch=N/part-….parquet`."""
    return [
        value
        for part in sorted(sink.glob("epoch=*/part-*.parquet"))
        for value in pq.read_table(part, columns=[column], partitioning=None)[column].to_pylist()
    ]


def kept(queue: rq_dlq.Queue[Any]) -> list[str]:
    """What is in the queue: waiting, leased, dead or expired."""
    places: Any = ["ready", "scheduled", "leased", "dead", "expired"]
    return [message.id for message in queue.select(places=places).browse()]


def sizes(sink: Path) -> list[int]:
    """How many rows each of the batches has left there, in the order in which they were written."""
    epochs = sorted(sink.glob("epoch=*"), key=lambda epoch: epoch.stat().st_mtime)
    return [sum(pq.read_metadata(part).num_rows for part in epoch.glob("part-*.parquet")) for epoch in epochs]
