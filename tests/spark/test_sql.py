"""Queues in SQL: temporary views, which are read and written; tables, for which Spark drops the options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rq_dlq
from tests.spark.conftest import CONNECT


@pytest.fixture
def sql(spark: SparkSession, broker: rq_dlq.Broker) -> Iterator[Any]:
    """Runs SQL; drops what it made."""
    del broker
    yield spark.sql
    for table in spark.sql("SHOW TABLES").collect():  # the catalog's Python calls need compiled expressions
        kind = "VIEW" if table.isTemporary else "TABLE"
        spark.sql(f"DROP {kind} {table.tableName}")


def test_a_view_is_read(sql: Any, broker: rq_dlq.Broker) -> None:
    sent = broker.queue("orders").send_many(range(5))
    sql("CREATE TEMPORARY VIEW waiting USING rq_dlq OPTIONS (queue 'orders')")
    found = sql("SELECT id FROM waiting WHERE cast(body AS string) > '2' ORDER BY id").collect()
    assert [row.id for row in found] == sorted(sent[3:])


def test_a_view_with_the_columns_of_its_operation_is_written(sql: Any, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders")
    sql(
        "CREATE TEMPORARY VIEW outbox (body STRING) USING rq_dlq "
        "OPTIONS (queue 'orders', contentType 'application/json')"
    )
    sql("INSERT INTO outbox SELECT to_json(struct(id AS n)) FROM range(3)")
    assert sorted(message.body["n"] for message in queue.peek(10)) == [0, 1, 2]
    queue.poison(queue.claim(2), "bad")
    sql("CREATE TEMPORARY VIEW dead USING rq_dlq OPTIONS (queue 'orders', view 'dlq')")
    sql("CREATE TEMPORARY VIEW back (queue STRING, id STRING) USING rq_dlq OPTIONS (operation 'redrive')")
    sql("INSERT INTO back SELECT queue, id FROM dead")
    assert (queue.stats().ready, queue.stats().dead) == (3, 0)
    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        sql("INSERT OVERWRITE outbox VALUES ('{}')")


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE t USING rq_dlq OPTIONS (queue 'orders')"],
        ["CREATE TABLE t (body BINARY) USING rq_dlq OPTIONS (queue 'orders')", "SELECT * FROM t"],
        ["CREATE TABLE t (body STRING) USING rq_dlq OPTIONS (queue 'orders')", "INSERT INTO t VALUES ('x')"],
        ["CREATE TABLE t USING rq_dlq OPTIONS (queue 'orders') AS SELECT 'x' body"],
    ],
)
def test_a_table_says_what_to_write_instead(statements: list[str], sql: Any, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("there")
    *before, last = statements
    for statement in before:
        sql(statement)
    with pytest.raises(PySparkException, match="write CREATE TEMPORARY VIEW … USING rq_dlq OPTIONS"):
        sql(last).collect()
    assert broker.queue("orders").stats().ready == 1


def test_a_view_to_write_to_is_not_read_and_needs_columns(sql: Any) -> None:
    said = "option 'operation' is only for writing. A view to write to cannot be read, and needs columns"
    with pytest.raises(PySparkException, match=said):
        sql("CREATE TEMPORARY VIEW redriven USING rq_dlq OPTIONS (operation 'redrive')")
    sql("CREATE TEMPORARY VIEW redriven (id STRING) USING rq_dlq OPTIONS (queue 'a', operation 'redrive')")
    with pytest.raises(PySparkException, match=said):
        sql("SELECT * FROM redriven").collect()


def test_rows_that_would_make_a_table_are_refused(sql: Any, broker: rq_dlq.Broker) -> None:
    """Spark would make it of what is written here, and forget the options. Connect cannot tell."""
    rows = sql("SELECT 'x' AS body")
    save = rows.write.format("rq_dlq").option("queue", "orders")
    create = rows.writeTo("t").using("rq_dlq").option("queue", "orders")
    for makes in () if CONNECT in os.environ else (lambda: save.saveAsTable("t"), create.create):
        with pytest.raises(
            PySparkException, match=r"a queue is no table, and nothing was written: use save\(\)"
        ):
            makes()
    assert broker.queue("orders").stats().ready == 0
    assert rows.sparkSession.sql("SHOW TABLES").collect() == []
    save.mode("append").save()
    assert broker.queue("orders").stats().ready == 1
