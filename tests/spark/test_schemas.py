"""The columns of the views, without a session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.arrow import arrow_schema
from rq_dlq.spark.schemas import (
    DEAD_LETTER,
    MESSAGE,
    TOTALS,
    VIEWS,
    check_chosen,
    columns_of,
    schema_of,
)
from rq_dlq.values.counts import QueueStats
from tests.spark.versions import since
from tests.tables import each_row


@since(4, 2)  # where the function that Spark itself uses took on this form
@each_row("view", VIEWS)
def test_arrow_is_as_spark_wants_it(view: str) -> None:
    """Spark compares them to the letter; its own function is private, and changes."""
    assert arrow_schema(VIEWS[view]).equals(to_arrow_schema(VIEWS[view], timezone="UTC"))


@each_row(
    "ddl",
    [
        "a int, b bigint,c  STRING NOT NULL, `d` double",
        "a: array<map<string, array<int>>>, b: timestamp_ntz, c long, d boolean",
        "a decimal(10, 2), b struct<c: int, d: string>, e map<string,string> COMMENT 'x, y'",
    ],
)
def test_ddl_is_read_as_spark_reads_it(spark: SparkSession, ddl: str) -> None:
    del spark  # reads the same text
    assert columns_of(ddl) == StructType.fromDDL(ddl)


@each_row("view", VIEWS)
def test_every_column_may_be_null(view: str) -> None:
    assert all(field.nullable for field in VIEWS[view])


def test_a_dead_letter_is_a_message_and_more() -> None:
    assert DEAD_LETTER.fields[: len(MESSAGE)] == MESSAGE.fields


def test_how_a_history_is_told() -> None:
    assert isinstance(schema_of("dlq")["history"].dataType, ArrayType)
    assert schema_of("dlq", "json")["history"].dataType == StringType()
    assert schema_of("dlq", "none") == schema_of("dlq")
    assert schema_of("queue", "json") == MESSAGE


def test_metrics_have_every_total() -> None:
    """But for their names: `expired` is how many there are, `expired_total` how many ever were."""
    said = (
        (QueueStats.__doc__ or "")
        .split("since the queue was created, or since the last reset: ")[1]
        .split("\n\n")[0]
    )
    names = said.split(". ")[0].replace("\n", " ").replace(".", "").split(",")
    totals = {name.strip() for name in names}
    assert {"expired" if name == "expired_total" else name for name in TOTALS} == totals


def test_chosen_columns() -> None:
    check_chosen(StructType([MESSAGE["body"], MESSAGE["id"]]), MESSAGE, "queue")
    check_chosen(StructType([StructField("id", StringType(), nullable=False)]), MESSAGE, "queue")


@each_row(
    ("chosen", "said"),
    [
        (
            StructType([StructField("ID", StringType())]),
            "view 'queue' has no column 'ID': choose from id, queue",
        ),
        (StructType([StructField("dead_at", StringType())]), "has no column 'dead_at'"),
        (StructType([StructField("id", IntegerType())]), "column 'id' of view 'queue' is string, not int"),
        (StructType([]), "no column of view"),
        (StructType([MESSAGE["id"], MESSAGE["id"]]), "a column is chosen twice: id, id"),
        (
            StructType([StructField("expires_at", TimestampType(), nullable=False)]),
            "column 'expires_at' of view 'queue' may be null: drop NOT NULL",
        ),
        (StructType([StructField("expires_at", TimestampNTZType())]), "choose the type TIMESTAMP_LTZ"),
    ],
)
def test_bad_choice(chosen: StructType, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check_chosen(chosen, MESSAGE, "queue")
