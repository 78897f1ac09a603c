"""The option `handler` of a stream, without Spark; test_recipes runs it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.offsets import Offset, QueueOffset
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.schemas import check_output, columns_of
from rq_dlq.spark.split import check_handler, columns_to_read, handler_of
from tests.spark.handlers import OUT
from tests.spark.versions import since
from tests.tables import each_row

BATCH = pa.RecordBatch.from_pylist(
    [{"id": name, "batch": "b", "body": body} for name, body in (("1", b"19.90"), ("2", b"x"))]
)


@each_row("name", ["totals", "many_totals"])
def test_it_is_called_with_what_was_read(name: str) -> None:
    (made,) = handler_of(f"tests.spark.handlers:{name}", columns_of(OUT))([BATCH])
    rows = made.to_pylist()
    assert [(row["id"], row["batch"], row["total"]) for row in rows] == [("1", "b", 19.9), ("2", "b", None)]
    assert [row["error_class"] is None for row in rows] == [True, False]


START = Offset("query", {"orders": QueueOffset()}).as_json()
OTHER = OUT.replace("total double", "total int")
FAULTS = [
    ("tests.spark.handlers:none", OUT, "cannot import"),
    ("tests.spark.handlers:OUT", OUT, "is not a handler: name what by_row"),
    ("tests.spark.handlers:handle", OUT, "is not a handler: name what by_row"),
    (
        "tests.spark.handlers:totals",
        OTHER,
        "returns struct<id:.*total:double,.*and the stream has .*total:int,",
    ),
]


@each_row(
    ("name", "out", "said"), [("no_jobs:totals", OUT, "cannot import no_jobs:totals .*--py-files"), *FAULTS]
)
def test_a_task_refuses_it_before_it_has_a_row(name: str, out: str, said: str) -> None:
    """So it refuses it in a batch without rows, and no message dies (`halving`)."""
    with pytest.raises(InvalidInput, match=said):
        handler_of(name, columns_of(out))


@since(4, 2)
@each_row(("name", "out", "said"), FAULTS)
@each_row("method", ["initialOffset", "prepareForTriggerAvailableNow", "partitions"])
def test_the_driver_refuses_it_before_a_batch_begins(name: str, out: str, said: str, method: str) -> None:
    """Else a batch would fail for it, and where each restart is later than the lease, a message would die."""
    from rq_dlq.spark.stream import StreamReader  # noqa: PLC0415 - an older Spark cannot

    options = StreamOptions.of({"queue": "orders", "handler": name, "url": "redis://nobody.invalid"})
    reader: Any = StreamReader(options, columns_of(out))
    with pytest.raises(InvalidInput, match=said):
        getattr(reader, method)(*[START] * (2 if method == "partitions" else 0))
    reader.stop()


def test_what_only_tasks_can_import_is_left_to_them() -> None:
    check_handler("no_jobs:totals", columns_of(OUT))


def test_the_stream_has_columns_of_errors() -> None:
    with pytest.raises(InvalidInput, match="needs a column 'error_class'"):
        check_output(columns_of("id string, batch string, total double"))


def test_its_input() -> None:
    given: dict[str, Any] = {"queue": "orders", "handler": "jobs:totals"}
    assert columns_to_read(StreamOptions.of(given), columns_of(OUT)).wanted.record == "whole"
    few = columns_to_read(
        StreamOptions.of(given | {"handlerColumns": "priority, enqueued_at"}), columns_of(OUT)
    )
    assert (few.wanted.record, few.wanted.state) == ("head", False)
    with pytest.raises(InvalidInput, match="view 'queue' has no column 'total'"):
        columns_to_read(StreamOptions.of(given | {"handlerColumns": "total"}), columns_of(OUT))
