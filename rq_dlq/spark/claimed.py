"""The messages that a claim still holds, page by page, as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._work import batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rq_dlq.client.broker import Broker
    from rq_dlq.spark.columns import MessageColumns
    from rq_dlq.spark.slices import Slice


def claimed(
    broker: Broker, part: Slice, columns: MessageColumns, fetch_size: int
) -> Iterator[pa.RecordBatch]:
    """The messages of a slice that its claim still holds. It runs in executors; each try yields the same."""
    for first in range(part.first, part.end, fetch_size):
        size = min(fetch_size, part.end - first)
        rows = broker._run(batches.read_claim(part.keys, part.token, first, size))
        if rows:
            yield columns.batch(rows, part.keys.home, part.shard, part.token)
