"""JSON bodies as columns, without Python for a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rq_dlq import InvalidInput
from rq_dlq.spark import parsed, split
from tests.tables import each_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N_AND_T = "not one JSON object that fits n int, t double"
BODIES: dict[bytes | None, str | tuple[int | None, float | None]] = {
    b'{"n": 1, "t": 1.5}': (1, 1.5),
    b' {"n": 2, "t": 2, "more": [1]}\n': (2, 2.0),
    b'{"n": 3}': (3, None),
    b'{"t": 4.5, "n": null}': (None, 4.5),
    b'{"n": "x", "t": 1}': N_AND_T,
    b'{"n": "5", "t": 1}': N_AND_T,
    b'{"n": 1.5, "t": 1}': N_AND_T,
    b'{"n": 99999999999, "t": 1}': N_AND_T,
    b'{"n": 1, "t": {"a": 1}}': N_AND_T,
    b'{"n": 1, "t": 1}{"n": 2, "t": 2}': N_AND_T,
    b'{"n": 1, "t": 1}\n{"n": 2, "t": 2}': N_AND_T,
    b'{"n": 1, "t": 1}, {"n": 2, "t": 2}': N_AND_T,
    b'{"n": 1, "t": 1} more': N_AND_T,
    b'[{"n": 1, "t": 1}]': N_AND_T,
    b'{"n": 1, "t": 1': N_AND_T,
    b"no JSON": N_AND_T,
    b"null": N_AND_T,
    b"5": N_AND_T,
    b"{}": N_AND_T,
    b'{"N": 1}': N_AND_T,
    b"": N_AND_T,
    b'{"n": 1, "more": "\xff"}': "not UTF-8",
    None: "no body",
}


def rows(spark: SparkSession, *bodies: bytes | None) -> DataFrame:
    """Messages with these bodies, as a query reads them."""
    return spark.createDataFrame(
        [(str(number), "b@q", body) for number, body in enumerate(bodies)],
        "id string, batch string, body binary",
    )


def test_a_body_fits_or_fails_its_row(spark: SparkSession) -> None:
    for row in parsed(rows(spark, *BODIES), "n int, t double").collect():
        body = [*BODIES][int(row.id)]
        wanted = BODIES[body]
        if isinstance(wanted, str):
            assert (row.n, row.t, row.error_class) == (None, None, "rq_dlq.errors.Poison"), body
            assert wanted in row.error_message, body
        else:
            assert (row.n, row.t, row.error_class, row.error_message) == (*wanted, None, None), body


def test_its_plan_has_no_python(spark: SparkSession) -> None:
    frame = parsed(rows(spark, *BODIES), "n int, t double")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert "Arrow" not in plan
    assert plan.count("from_json") == 1  # a body is read once


def test_a_column_may_have_to_be_there_and_all_may_be_one_struct(spark: SparkSession) -> None:
    bodies = b'{"id": 7, "at": {"a b": [1]}}', b'{"at": null, "id": 7}'
    frame = parsed(rows(spark, *bodies), "id bigint not null, at struct<`a b`:array<int>>", into="order")
    assert frame.columns == ["id", "batch", "error_class", "error_message", "order"]
    with split(frame) as done:
        (ok,) = [row for row in done.ok.collect() if row.order.at]
        assert (ok.id, ok.order.id, ok.order.at["a b"], done.failed) == ("0", 7, [1], 0)
    (row, other) = parsed(rows(spark, b'{"n": 1}', b'{"n": 1, "t": 2}'), "n int, t double NOT NULL").collect()
    assert (row.n, row.error_message) == (None, "the body has no 't', which is NOT NULL")
    assert (other.n, other.t, other.error_message) == (1, 2.0, None)


@each_row(
    ("columns", "schema", "says"),
    [
        ("id, batch", "n int", "parsed\\(\\) needs the column 'body': select it, too"),
        ("body", "n int", "needs the column 'id', 'batch'"),
        ("*", "n int, id int", "a column 'id', which the messages have: .* into='row'"),
        ("*, 'E' AS error_class", "n int", "a column 'error_class', which the messages have"),
    ],
)
def test_columns_that_cannot_do(columns: str, schema: str, says: str, spark: SparkSession) -> None:
    frame = rows(spark, b"{}").selectExpr(*columns.split(", "))
    with pytest.raises(InvalidInput, match=says):
        parsed(frame, schema)
