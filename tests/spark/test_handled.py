"""The option `handler` of a stream, without Spark; test_recipes runs it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.handled import columns_to_read, handled, handler_of
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.schemas import check_output, columns_of
from tests.each import each
from tests.spark.handlers import OUT

BATCH = pa.RecordBatch.from_pylist(
    [{"id": name, "batch": "b", "body": body} for name, body in (("1", b"19.90"), ("2", b"x"))]
)


@each("name", ["totals", "many_totals"])
def test_it_is_called_with_what_was_read(name: str) -> None:
    (made,) = handled(f"tests.spark.handlers:{name}", [BATCH], columns_of(OUT))
    rows = made.to_pylist()
    assert [(row["id"], row["batch"], row["total"]) for row in rows] == [("1", "b", 19.9), ("2", "b", None)]
    assert [row["error_class"] is None for row in rows] == [True, False]


@each(
    ("name", "said"),
    [
        ("no_jobs:totals", "a task cannot import no_jobs:totals .*--py-files"),
        ("tests.spark.handlers:none", "a task cannot import"),
        ("tests.spark.handlers:OUT", "is not a function: name what by_row"),
    ],
)
def test_it_has_to_be_there(name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        handler_of(name)


def test_its_columns_are_the_stream_s() -> None:
    schema = columns_of(OUT.replace("total double", "total int"))
    with pytest.raises(
        InvalidInput, match=r"returned the columns id string.*and the stream has .*total int32"
    ):
        next(handled("tests.spark.handlers:totals", [BATCH], schema))
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
