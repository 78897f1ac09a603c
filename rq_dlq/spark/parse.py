"""JSON bodies as columns, by Spark's own functions: no row goes through Python.

`from_json` stops after the first object, and would take `{…}{…}` for one. So `parsed` reads a body within a
list: within `[…]` the rest does not fit, and a second element is counted. The corrupt record is a column of
the outermost struct, so the list is in one.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.schemas import ERROR, WHOSE, columns_of
from rq_dlq.spark.settle import POISON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

READ, CORRUPT = "_read", "_corrupt"


def parsed(df: DataFrame, schema: StructType | str, *, into: str = "") -> DataFrame:
    """Read JSON bodies into columns. A body that does not fit fails its row, as with `by_row`.

        with split(parsed(batch, "n int, t double")) as done:

    A body fits if it is one JSON object whose values have the types of the columns, and which has at least
    one of them. Other values are ignored; a column that it lacks is null, unless the schema says NOT NULL.

    Args:
        df: has the columns id, batch and body, and others, which stay.
        schema: the columns of the bodies.
        into: the name of a struct for them, since a body may have a value "id", too; empty: columns of df.

    Returns:
        df with the columns of the schema in place of body, and with error_class and error_message: null, or
        those of `Poison`, since no retry helps: a nack makes such a message a dead letter at once.

    Raises:
        InvalidInput: df lacks a column, or has one of the new ones already.
    """
    columns = schema if isinstance(schema, StructType) else columns_of(schema)
    if missing := [name for name in (*WHOSE, "body") if name not in df.columns]:
        raise InvalidInput(f"parsed() needs the column {', '.join(map(repr, missing))}: select it, too")
    if twice := {*([into] if into else columns.names), *ERROR}.intersection(df.columns):
        raise InvalidInput(
            f"parsed() makes a column {', '.join(map(repr, sorted(twice)))}, which the messages have: select "
            "only their columns that you need, or have those of the bodies in a struct: parsed(…, into='row')"
        )
    value = sql.get(sql.col(READ)["body"], sql.lit(0))
    good = sql.when(sql.col(ERROR[1]).isNull(), value)
    made = [good.alias(into)] if into else [good[name].alias(name) for name in columns.names]
    failed = sql.when(sql.col(ERROR[1]).isNotNull(), POISON).alias(ERROR[0])
    kept = [sql.col(f"`{name}`") for name in df.columns if name != "body"]
    rows = df.withColumn(READ, _read(columns)).withColumn(ERROR[1], _wrong(columns, value))
    return rows.select(*kept, failed, ERROR[1], *made)


def _read(columns: StructType) -> Column:
    """The body, in a list: what follows an object does not fit then, where Spark would not look at it."""
    nullable = StructType([StructField(each.name, each.dataType) for each in columns])
    form = StructType([StructField("body", ArrayType(nullable)), StructField(CORRUPT, StringType())])
    text = sql.concat(sql.lit('{"body":['), _body(), sql.lit("]}"))
    return sql.from_json(text, form, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})


def _wrong(columns: StructType, value: Column) -> Column:
    """Why the body that was read does not fit; null: it does."""
    read, has_one = sql.col(READ), reduce(or_, (value[name].isNotNull() for name in columns.names))
    fits = read[CORRUPT].isNull() & (sql.size(read["body"]) == 1) & has_one
    wanted = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in columns)
    strict = [each.name for each in columns if not each.nullable]
    return sql.coalesce(
        sql.when(_body().isNull(), "the message has no body"),
        sql.when(~sql.is_valid_utf8(_body()), "the body is not UTF-8"),
        sql.when(fits, None).otherwise(f"the body is not one JSON object that fits {wanted}"),
        *(sql.when(value[name].isNull(), f"the body has no {name!r}, which is NOT NULL") for name in strict),
    )


def _body() -> Column:
    return sql.col("body").cast("string")
