"""Handlers that fail by row."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

import rq_dlq
from rq_dlq import InvalidInput, LeaseLost, Poison
from rq_dlq.core.batches.calls import note_held, note_settled
from rq_dlq.core.settling import settle
from rq_dlq.spark import by_batch, by_row, check_held, split
from rq_dlq.spark import settle as settling
from rq_dlq.spark.schemas import columns_of
from rq_dlq.spark.sinks import is_whole
from rq_dlq.spark.write import operation_of
from tests.spark.test_sinks import claimed
from tests.spark.versions import since
from tests.tables import each_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOUR = [StructField(name, StringType()) for name in ("id", "batch", "error_class", "error_message")]
OUT = StructType([*FOUR, StructField("total", LongType())])
DDL = "id string, batch string, error_class string, error_message string"


def made(function: Any, *bodies: Any) -> list[dict[str, Any]]:
    """What becomes of rows, without Spark; without what is null."""
    rows = [{"id": f"m{number}", "batch": "b@q", "body": body} for number, body in enumerate(bodies)]
    (out,) = by_row(function, OUT)([pa.RecordBatch.from_pylist(rows)])
    assert out.schema.names == OUT.names
    return [{name: value for name, value in row.items() if value is not None} for row in out.to_pylist()]


def error(number: int, kind: str, message: str) -> dict[str, Any]:
    return {"id": f"m{number}", "batch": "b@q", "error_class": kind, "error_message": message}


def test_a_row_that_fails_takes_no_other_along() -> None:
    assert made(lambda row: {"total": 6 // row["body"]}, 3, 0, 2) == [
        {"id": "m0", "batch": "b@q", "total": 2},
        error(1, "ZeroDivisionError", "integer division or modulo by zero"),
        {"id": "m2", "batch": "b@q", "total": 3},
    ]


def test_headers_are_a_dict() -> None:
    schema = pa.schema(
        [("id", pa.string()), ("batch", pa.string()), ("headers", pa.map_(pa.string(), pa.string()))]
    )
    rows = [{"id": "m0", "batch": "b@q", "headers": [("size", "7")]}, {"id": "m1", "batch": "b@q"}]
    handle = by_row(lambda row: {"total": int((row["headers"] or {"size": "0"})["size"])}, OUT)
    (out,) = handle([pa.RecordBatch.from_pylist(rows, schema)])
    assert out.column("total").to_pylist() == [7, 0]


def test_a_row_that_python_cannot_read_fails_alone() -> None:
    text = pa.array([b"one", b"\xff", b"three", b"four"], pa.binary()).view(pa.string())
    late = pa.array([0, 0, 0, 1 << 60], pa.timestamp("us", tz="UTC"))  # after the year 9999
    names = pa.array(["m0", "m1", "m2", "m3"])
    batch = pa.RecordBatch.from_arrays(
        [names, pa.repeat("b@q", 4), text, late], ["id", "batch", "text", "at"]
    )
    (out,) = by_row(lambda row: {"total": len(row["text"])}, OUT)([batch])
    assert out.column("total").to_pylist() == [3, None, 5, None]
    assert out.column("error_class").to_pylist()[:3] == [None, "UnicodeDecodeError", None]
    assert out.column("error_class").to_pylist()[3] is not None
    assert out.column("id").to_pylist() == names.to_pylist()


def test_poison_has_the_class_that_a_workers_history_names() -> None:
    def refuse(row: dict[str, Any]) -> dict[str, Any]:
        raise Poison(row["body"])

    assert made(refuse, "no such city") == [error(0, "rq_dlq.errors.Poison", "no such city")]


def test_what_does_not_fit_the_schema_is_the_error_of_its_row() -> None:
    returned = [{"total": 1}, {"total": "x"}, {"sum": 1}, None]
    first, second, third, fourth = made(lambda row: returned[row["body"]], 0, 1, 2, 3)
    assert first == {"id": "m0", "batch": "b@q", "total": 1}
    assert second["error_class"].startswith("pyarrow.lib.Arrow")
    assert third == error(
        2, "rq_dlq.errors.InvalidInput", "the function returned 'sum', which the schema lacks"
    )
    assert fourth["error_class"] == "TypeError"


@each_row(
    ("kind", "value", "fits"),
    [
        ("bigint", 19.90 * 100, False),  # 1989.9999999999998
        ("bigint", 2.0, True),
        ("bigint", Decimal("1.5"), False),
        ("bigint", np.float32(1.5), False),
        ("bigint", float("nan"), False),
        ("bigint", float("inf"), False),
        ("bigint", None, True),
        ("date", 1.5, False),
        ("timestamp", 1_763_000_000.5, False),
        ("double", 1.5, True),
        ("decimal(9, 2)", Decimal("1.25"), True),
        ("decimal(9, 2)", Decimal("1.255"), False),
        ("array<bigint>", [1, 1.5], False),
        ("array<bigint>", np.array([1.0, 2.0]), True),
        ("array<double>", [1.5], True),
        ("map<string, int>", {"a": 1.5}, False),
        ("map<string, int>", [("a", 1), ("b", 1.5)], False),
        ("map<string, int>", {"a": 1}, True),
        ("struct<a: array<struct<b: tinyint, c: double>>>", {"a": [{"b": 1.5}]}, False),
        ("struct<a: array<struct<b: tinyint, c: double>>>", {"a": [(1, 1.5)]}, True),
        ("struct<a: int, b: int>", (1, 1.5), False),
        ("struct<a: int, b: int>", {"b": 1.0}, True),
    ],
)
def test_no_fraction_is_cut_off(kind: str, value: Any, fits: bool, spark: SparkSession) -> None:
    del spark  # reads what only Spark can
    batch = pa.RecordBatch.from_pylist([{"id": "m0", "batch": "b@q"}, {"id": "m1", "batch": "b@q"}])
    returned = {"m0": {"total": value}, "m1": {}}
    (out,) = by_row(lambda row: returned[row["id"]], f"{DDL}, total {kind}")([batch])
    assert [text is None for text in out.column("error_class").to_pylist()] == [fits, True]
    assert (out.column("total")[0].as_py() is not None) == (fits and value is not None)


def test_the_error_of_a_fraction_names_column_and_number() -> None:
    assert made(lambda row: {"total": row["body"]}, 1.5) == [
        error(
            0,
            "rq_dlq.errors.InvalidInput",
            "column 'total': 1.5 does not fit into int64: its fraction would be lost",
        )
    ]


def test_long_messages_are_cut() -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(row["body"])

    (row,) = made(fail, "x" * 5_000)
    assert row["error_message"] == "x" * 500


def test_id_and_batch_cannot_be_changed_and_errors_may_be_returned() -> None:
    returned = {"id": "other", "error_class": "Late", "error_message": "by an hour"}
    assert made(lambda _: returned, 1) == [error(0, "Late", "by an hour")]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("id string", "needs a column 'batch' of type string"),
        (DDL.replace("id string", "id int"), "needs a column 'id' of type string"),
        (f"{DDL}, total bigint not null", "column 'total': drop NOT NULL"),
        (f"{DDL}, span interval day to second", "columns of type interval day to second are not supported"),
        ("int", "pass columns, as for mapInArrow"),
    ],
)
def test_a_schema_that_cannot_do(schema: str, says: str, spark: SparkSession) -> None:
    del spark  # reads what only Spark can
    with pytest.raises(InvalidInput, match=says):
        by_row(dict, schema)


def test_columns_as_text_need_no_session() -> None:
    handle = by_row(lambda row: {"n": row["n"] + 1}, f"{DDL}, n bigint")
    (out,) = handle([pa.RecordBatch.from_pylist([{"id": "m", "batch": "b@q", "n": 1}])])
    assert out.to_pylist()[0]["n"] == 2


def test_input_without_a_batch_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a handler needs the column 'batch' in its input"):
        next(by_row(dict, OUT)([pa.RecordBatch.from_pylist([{"id": "m"}])]))


# Handlers of many rows


def batch_of(*bodies: Any) -> pa.RecordBatch:
    rows = [(f"m{number}", "b@q", body) for number, body in enumerate(bodies)]
    ids, tokens, cells = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.string()), pa.array(tokens, pa.string()), pa.array(cells)], ["id", "batch", "body"]
    )


def computed(function: Any, *bodies: Any, schema: str = f"{DDL}, total bigint") -> list[dict[str, Any]]:
    (out,) = by_batch(function, schema)([batch_of(*bodies)])
    return [{name: value for name, value in row.items() if value is not None} for row in out.to_pylist()]


def test_many_rows_are_handled_at_once_and_those_that_fail_alone() -> None:
    calls: list[int] = []

    def handle(batch: pa.RecordBatch) -> dict[str, Any]:
        calls.append(len(batch))
        return {"total": batch["body"].cast("string").cast("int64")}

    bodies = [str(number).encode() for number in range(64)]
    rows = [{"id": f"m{number}", "batch": "b@q", "total": number} for number in range(64)]
    assert computed(handle, *bodies) == rows
    assert calls == [64]
    bodies[40] = b"x"
    found = computed(handle, *bodies)
    assert found.pop(40)["error_class"] == "pyarrow.lib.ArrowInvalid"
    assert found == rows[:40] + rows[41:]
    assert len(calls) <= 2 + 2 * 6
    assert computed(handle) == []


@each_row(
    ("kind", "column", "fits"),
    [
        ("bigint", [1, None], True),
        ("bigint", [1, 1.5], False),
        ("bigint", np.array([1.0, 2.0]), True),
        ("bigint", np.array([1.0, 2.5]), False),
        ("bigint", pa.chunked_array([[1], [2]]), True),
        ("bigint", pd.Series([1, 2]), True),
        ("bigint", pa.array(["1", "x"]), False),
        ("array<bigint>", pa.array([[1.0], [2.5]]), False),
        ("map<string, int>", pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), True),
        ("map<string, int>", pa.array([[], [("a", 1.5)]], pa.map_(pa.string(), pa.float64())), False),
        ("struct<a: int>", [{"a": 1}, {"a": 1.5}], False),
        ("timestamp", pa.array([1, 2], pa.timestamp("ns")), False),
        ("decimal(9, 2)", [Decimal("1.25"), Decimal("1.255")], False),
    ],
)
def test_a_column_fits_or_its_rows_fail(kind: str, column: Any, fits: bool, spark: SparkSession) -> None:
    del spark  # reads what only Spark can
    (out,) = by_batch(lambda batch: {"n": column} if len(batch) > 1 else {}, f"{DDL}, n {kind}")(
        [batch_of(0, 1)]
    )
    assert (out.column("n").null_count < 2) == fits
    columns = {"n": column[1:2] if isinstance(column, list | pa.Array) else column}
    if not fits and len(columns["n"]) == 1:
        (out,) = by_batch(lambda _: columns, f"{DDL}, n {kind}")([batch_of(0)])
        assert out.column("error_class")[0].as_py() is not None


def test_what_a_function_of_many_rows_may_return() -> None:
    assert computed(lambda _: {"id": ["x"], "error_class": ["Late"]}, 1) == [
        {"id": "m0", "batch": "b@q", "error_class": "Late"}
    ]
    (row,) = computed(lambda _: {"sum": [1]}, 1)
    assert row["error_message"] == "the function returned 'sum', which the schema lacks"
    for row in computed(lambda _: {"total": [1]}, 1, 2):  # though it would fit one row alone
        assert row["error_message"] == "the function returned 1 values of 'total' for 2 rows"
    with pytest.raises(InvalidInput, match="a handler needs the column 'batch' in its input"):
        next(by_batch(dict, OUT)([pa.RecordBatch.from_pylist([{"id": "m"}])]))


def messages(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(sql.col("id").cast("string"), sql.lit("b@q").alias("batch"))


def toss(row: dict[str, Any]) -> dict[str, Any]:
    """Each row fails by chance, so a second run would fail others."""
    del row
    if random.random() < 0.5:
        message = "tails"
        raise ValueError(message)
    return {"price": Decimal("1.50"), "tags": ["a"]}


TOSSED = f"{DDL}, price decimal(9, 2), tags array<string>"


def test_a_handler_runs_once_for_all_that_is_done_with_its_output(spark: SparkSession) -> None:
    handled = messages(spark, 400).mapInArrow(by_row(toss, TOSSED), TOSSED)
    kept_before = len(kept(spark))
    with split(handled) as done:
        ok, bad = done
        good, failed = ok.collect(), bad.collect()
        assert (ok.count(), bad.count()) == (len(good), len(failed))
        assert done.failed == len(failed)
        assert len(kept(spark)) == kept_before + 1
    assert len(kept(spark)) == kept_before
    assert sorted(int(row.id) for row in [*good, *failed]) == list(range(400))
    assert good[0].asDict() == {"id": good[0].id, "batch": "b@q", "price": Decimal("1.50"), "tags": ["a"]}
    assert failed[0].asDict() == error(0, "ValueError", "tails") | {"id": failed[0].id}


def kept(spark: SparkSession) -> Any:
    """What the session keeps of outputs."""
    return spark.sparkContext._jsc.getPersistentRDDs()


def test_an_output_that_went_is_not_computed_again(spark: SparkSession) -> None:
    """As when an executor goes between the two writes: nothing is better than half."""
    handled = messages(spark, 400).mapInArrow(by_row(toss, TOSSED), TOSSED)
    with split(handled) as done:
        done.ok.collect()
        done.unpersist()
        with pytest.raises(Exception, match=r"Checkpoint block .* not found"):
            done.bad.collect()


def test_the_messages_have_to_be_held(spark: SparkSession, broker: rq_dlq.Broker, raw: Any) -> None:
    """By the counters of the claims; where they differ, by the rows."""
    queue = broker.queue("orders")
    ids, token = claimed(broker, "orders")
    keys = queue._core.keys
    broker._run(broker._step(note_held(keys, "query", len(ids))))
    columns = "id string, batch string, error_class string, error_message string"
    rows = spark.createDataFrame([(name, token, None, None) for name in ids], columns)
    with split(rows.limit(0)) as done:
        check_held(done)
        assert (done.failed, done.ok.count()) == (0, 0)
    with split(rows) as done:
        check_held(done)
        assert (done.failed, done.ok.count()) == (0, 4)
    assert broker._run(is_whole(keys, [token]))
    broker._run(settle.nack(queue._core, [(ids[0], token)], "x"))
    broker._run(broker._step(note_settled(keys, "query", 1)))
    assert broker._run(is_whole(keys, [token]))
    raw.zadd(keys["leases"], {token: 1})  # its lease is over
    queue.maintain()
    assert not broker._run(is_whole(keys, [token]))
    before = len(kept(spark))
    for checked in (None, "ok"):
        with (
            pytest.raises(LeaseLost, match="4 messages of this epoch are no longer held"),
            split(rows) as done,
        ):
            check_held(done if checked is None else done.ok)
    assert len(kept(spark)) == before


def test_without_a_failure_nothing_is_nacked(spark: SparkSession) -> None:
    rows = messages(spark, 3).selectExpr("*", "NULL AS error_class", "NULL AS error_message")
    with split(rows) as done:
        assert (done.failed, done.ok.count()) == (0, 3)
        done.nack(url="redis://localhost:1")  # where nobody listens


@pytest.mark.parametrize("used", [None, "bad", "rows", "both", "nack", "error"])
def test_failed_rows_have_to_be_used(used: str | None, spark: SparkSession) -> None:
    """Otherwise they would be acked, and be nowhere."""
    before = len(kept(spark))
    rows = messages(spark, 3).selectExpr("*", "'E' AS error_class", "'no' AS error_message")
    wanted = {
        None: pytest.raises(InvalidInput, match=r"3 rows failed, .* call done.nack\(\), or write done.bad"),
        "nack": pytest.raises(Exception, match="nowhere"),  # no such server: it was tried
        "error": pytest.raises(ZeroDivisionError),
    }
    with wanted.get(used, nullcontext()), split(rows) as done:
        if used == "both":
            _, bad = done
            assert bad.count() == 3
        elif used == "nack":
            done.nack(url="unix:///nowhere/redis.sock")
        elif used == "error":
            raise ZeroDivisionError
        elif used:
            assert getattr(done, used).count() == 3
    assert len(kept(spark)) == before


ONCE = StructType([StructField("follows", BooleanType())])


def follows(rows: DataFrame) -> bool:
    """What a write of these rows finds in its task."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([{"follows": settling._follows()}] * len(batch))

    (found,) = {row.follows for row in rows.mapInArrow(look, ONCE).collect()}
    return bool(found)


@since(4, 2)
def test_a_task_knows_whether_its_epoch_had_another_action_and_no_split(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: list[list[bool]] = []

    def sink(frame: DataFrame, _: int) -> None:
        rows = frame.selectExpr("'m' id", "'b@q' batch", "value error_class", "value error_message")
        found.append([follows(rows), follows(rows)])
        with split(rows) as done:
            found[-1].append(follows(done.bad))

    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / str(number)).write_text("x\n")
    stream = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    writer = stream.writeStream.foreachBatch(sink).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert found == [[False, True, False]] * 2
    assert not follows(spark.range(1))


@pytest.mark.parametrize(
    ("columns", "follows", "warns"),
    [
        (DDL, True, True),
        (DDL, False, False),
        (DDL.replace("error_class string", "error_class string not null"), True, False),
        ("id string, batch string, error_message string", True, False),
    ],
)
def test_a_nack_of_what_a_handler_may_have_answered_twice_is_warned_of(  # noqa: PLR0917 - fixtures
    columns: str,
    follows: bool,
    warns: bool,
    broker: rq_dlq.Broker,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids, token = claimed(broker, "orders")
    monkeypatch.setattr(settling, "_follows", lambda: follows)
    nack: Any = operation_of({"operation": "nack", "url": redis_url}, columns_of(columns), overwrite=False)
    row = {"id": ids[0], "batch": token, "error_class": "E", "error_message": "no"}
    nack.commit([nack.write(iter([]))])
    assert not caplog.text
    nack.commit([nack.write(iter([pa.RecordBatch.from_pylist([row])]))])
    assert ("1 rows failed, and split() was not called" in caplog.text) == warns
    assert broker.queue("orders").stats().totals["nacked"] == 1


def test_what_cannot_be_split(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="needs the column 'error_class', 'error_message': pass id and"):
        split(messages(spark, 1))
    columns = ["'m' AS id", "'b' AS batch", "'' AS error_class", "'' AS error_message"]
    stream = spark.readStream.format("rate").load().selectExpr(*columns)
    with pytest.raises(InvalidInput, match="use it in the function of foreachBatch"):
        split(stream)
