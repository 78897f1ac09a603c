"""Handlers that fail by row: `by_row` and `by_batch` catch errors, `split` separates the rows.

- *A handler may run where messages are read.* With `mapInArrow` Spark's JVM takes each row twice from Python,
  and gives it once: 4 of the 19 µs that it spends on a row of the recipe. As the option `handler` of a
  stream, the handler's output is what the reader yields. Options are texts, so it is named, and each task
  imports it. It carries its columns, which the driver and each task compare before there is a row: a handler
  that does not fit fails before a batch begins, or, where only tasks can import it, also in a batch without
  rows. Reading in a `mapInArrow` of a stream of claims would save the same, but the source could then not
  check the columns, nor hand out a share of a claim.
- *The handler's output is kept, not computed again.* A handler may return something else the second time, and
  Spark runs it again for the rows that a lost executor kept. So `split` makes a local checkpoint, which has
  no lineage: lost rows make the epoch fail, and all of it is processed again. A checksum of the ids in both
  writes would notice the same, and let an epoch pass whose handler answered alike. But it sees only the first
  action on each part, so a second sink could still differ, and it costs more: µs of CPU a row, for 50,000
  rows by `by_row` into Parquet on two cores, 19.9 with `persist` and two writes, 26.4 with the checksum, 16.4
  with the checkpoint, whose pass also counts the failures, so that without any the second write is left out.
- *Rows without a use end the epoch.* The end of the block of `split` raises an error if rows failed, and
  neither `nack`, `bad` nor `rows` was used, or if rows succeeded, and neither `ok` nor `rows` was. Whether
  the messages are settled it could ask Redis, but a program may also keep failed rows in a table of its own,
  and let their messages be acked. So it only notes the use, without a call.
- *`split` counts, and sees no plan* (`whole`). An output after the block's `ok` may filter as it likes: a sum
  has other rows, too. Counting what an action reads of `ok` would need an observation, and Spark fills it by
  the first action alone: a `show()` before the write would fail a right program. The work begins in the
  block, so that a program that forgets `with` has done nothing yet.
- *A nack of a handler's output without `split` is warned of, not refused.* The writer has the options and
  columns, and its tasks the numbers of the epoch and of the action; none of them sees the plan. So it is a
  guess: errors that may be null are computed by rows, and an action before in the epoch may have run the
  handler, too. A program that only nacks, or reads its output back from a file, is right, and would be
  refused. A mark in the rows would tell for certain, but the handler's columns are the program's, and one in
  `batch` would break its joins; `split` notes the epoch as a property of the thread, which its tasks inherit.
  A mark in the metadata of `bad` is lost in `dropDuplicates`.
- *`by_batch` finds bad rows by halves.* If a function of many rows fails, the row is unknown, so the function
  is called again with each half, down to single rows: 2 log2(n) calls for one. So it must only compute.
  `by_row` calls its function once for each row, and halves only what Arrow does with the results. It looks
  for fractions itself: Arrow cuts them off without an error where it converts values of Python to whole
  numbers or times, also inside lists, maps and structs. The check costs up to a microsecond a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.arrow import arrow_schema, check_whole, has_whole
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.spark.columns import MessageColumns
from rq_dlq.spark.schemas import BAD, ERROR, WHOSE, check_output, chosen_of, columns_of, schema_of
from rq_dlq.spark.send import ROOT, SPLIT
from rq_dlq.spark.whole import given_to
from rq_dlq.values.failure import Cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rq_dlq.spark.options import StreamOptions

    Row: TypeAlias = dict[str, Any]

R = TypeVar("R")
Rows = TypeVar("Rows", pa.RecordBatch, list[dict[str, Any]])


@dataclass(slots=True)
class Split:
    """A handler's output, computed once and kept in the block of `with`; unpacks as `ok, bad`; see `split`.

    Attributes:
        url, namespace: where the messages are.
        failed: how many rows failed.
        tokens: the tokens of the claims of all rows.
    """

    url: str | None
    namespace: str
    _df: DataFrame = field(repr=False)
    _dropped: bool = field(repr=False)
    failed: int = field(init=False, repr=False)
    tokens: list[str] = field(init=False, repr=False)
    _count: int = field(init=False, repr=False)
    _rows: DataFrame = field(init=False, repr=False)
    _unused: set[str] = field(default_factory=lambda: {"failed", "succeeded"}, init=False, repr=False)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise the error of an attribute that there is not, or not yet."""
        if name not in self.__slots__:
            raise AttributeError(name)
        raise InvalidInput(
            "split() was not entered, so it has done nothing, and nothing is acked: write "
            "`with split(…) as done:`, and use done in its block"
        )

    @property
    def ok(self) -> DataFrame:
        """The rows without an error, without the columns error_class and error_message."""
        self._unused.discard("succeeded")
        return self._rows.where(~_has_failed()).drop(*ERROR)

    @property
    def bad(self) -> DataFrame:
        """The rows that failed: id, batch, error_class, error_message, as nack and discard take them."""
        self._unused.discard("failed")
        return self._rows.where(_has_failed()).select(*BAD.fieldNames())

    @property
    def rows(self) -> DataFrame:
        """All rows, with error_class and error_message."""
        self._unused.clear()
        return self._rows

    def nack(self, *, url: str | None = None, namespace: str | None = None) -> None:
        """Nack the rows that failed. Without failed rows it does nothing.

        Args:
            url, namespace: as for the stream; None: as for `split`.

        Raises:
            InvalidInput: the rows are from another server.
            BrokerUnavailable: Redis cannot be reached.
        """
        if self.failed:
            url = self.url if url is None else url
            source = {"namespace": namespace or self.namespace} | ({} if url is None else {"url": url})
            written = self.bad.write.format("rq_dlq").options(operation="nack", **source)
            written.mode("append").save()

    def unpersist(self) -> None:
        """Free the output."""
        if (frame := getattr(self._rows, "_jdf", None)) is not None:  # Connect has none, and frees it later
            frame.queryExecution().logical().rdd().unpersist(False)  # noqa: FBT003 - Java has no names

    def __iter__(self) -> Iterator[DataFrame]:
        return iter((self.ok, self.bad))

    def __enter__(self) -> Self:
        if context := getattr(self._df.sparkSession, "sparkContext", None):  # Connect has none
            context.setLocalProperty(SPLIT, context.getLocalProperty(ROOT))
        facts = (
            sql.count(sql.lit(1)).alias("count"),
            sql.count_if(_has_failed()).alias("failed"),
            sql.array_join(sql.collect_set("batch"), "\n").alias("tokens"),  # Spark 4.0 observes no arrays
        )
        self._rows = self._df.observe(seen := Observation(), *facts).localCheckpoint()
        found = seen.get or self._rows.agg(*facts).collect()[0].asDict()  # Connect observes no checkpoint
        self._count, self.failed = found["count"], found["failed"]
        self.tokens = [token for token in found["tokens"].split("\n") if token]
        try:
            self._check_whole()
        except BaseException:
            self.unpersist()
            raise
        return self

    def _check_whole(self) -> None:
        given = 0 if self._dropped else given_to(self._df, self.tokens, self.url, self.namespace)
        count = self._count
        if given and count != given:  # a handler may make several rows of a message
            count = self._rows.select("id").distinct().count()
        if count < given:
            raise InvalidInput(
                f"{given - count:,} of {given:,} messages are not among the rows of split(), so they would "
                "be acked and lost: let them fail, by error_class and error_message, in place of leaving "
                "them out, or write split(…, dropped=True); if their lease has ended, start the query again"
            )

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.unpersist()
        counts = {"failed": self.failed, "succeeded": self._count - self.failed}
        lost = [f"{count:,} rows {part}" for part, count in counts.items() if count and part in self._unused]
        if kind is None and lost and not self._dropped:
            raise InvalidInput(
                f"{' and '.join(lost)}, and the block of split() did nothing with them, so they would be "
                "acked and lost: write done.ok, and call done.nack(), or write done.bad; or say that they "
                "may be lost: split(…, dropped=True)"
            )


def _has_failed() -> Column:
    return sql.coalesce(*(sql.col(name).cast("string") for name in ERROR)).isNotNull()


def split(
    df: DataFrame, *, dropped: bool = False, url: str | None = None, namespace: str = USUAL_NAMESPACE
) -> Split:
    """Run a handler, and separate its output into rows that succeeded and rows that failed.

        with split(batch.mapInArrow(by_row(handle, OUT), OUT)) as done:
            check_held(done)
            done.ok.write.mode("overwrite").parquet(f"out/epoch={epoch_key(batch, epoch)}")
            done.nack()

    The handler runs as the block begins, once for each row, and its output is kept until the end of the
    block. It is not computed again: a handler might return a different result, and its row would be written
    twice or be in neither part. So if an executor is lost in the block, the epoch fails and is repeated.

    The epoch also fails, before anything is acked, if messages would be acked and be in no output: the block
    was not entered; messages of the batch are not among the rows, since something has left them out; rows
    succeeded and the block did not use `ok`, or rows failed and it used neither `nack` nor `bad`. (`rows` has
    both.)

    Args:
        df: has the columns id, batch, error_class and error_message (strings; both null for a success)
            and others.
        dropped: messages may be in no output. Pass it also if several blocks share the rows of an epoch.
        url, namespace: as for the stream; None: $RQ_DLQ_URL, or the embedded server if that is unset.

    Raises:
        InvalidInput: a column is missing, or it is a stream outside of `foreachBatch`; and, from the block,
            messages would be lost, or the rows are from another server.
        BrokerUnavailable: Redis cannot be reached.
    """
    if missing := [name for name in BAD.fieldNames() if name not in df.columns]:
        raise InvalidInput(
            f"split() needs the column {', '.join(map(repr, missing))}: pass id and batch through, and "
            "put errors into error_class and error_message, as by_row() does"
        )
    if df.isStreaming:
        raise InvalidInput("split() takes a batch, not a stream: use it in the function of foreachBatch")
    return Split(url, namespace, df, dropped)


def by_row(function: Callable[[Row], Mapping[str, Any]], schema: StructType | str) -> RowMapper:
    """Turn a function of one row into a function for `mapInArrow`. A failed row does not fail the task.

        OUT = "id string, batch string, origin string, error_class string, error_message string"
        df.mapInArrow(by_row(lambda row: {"origin": json.loads(row["body"])["origin"]}, OUT), OUT)

    A row fails if the function raises, or returns something that does not fit the schema (2.0 fits a column
    of whole numbers, 1.5 does not), or if the row has a string that is not UTF-8 or a time that Python does
    not have (after the year 9999). The error becomes the row's error_class (with its module, unless it is a
    built-in) and error_message (at most 500 characters), as in the history of a message; its other columns
    are null. `split` separates such rows: a nack leaves them to the queue's policy, except those with the
    class of `Poison`, `rq_dlq.errors.Poison`, which no retry helps: they die at once.

    Args:
        function: takes a row as a dict (body is bytes, headers a dict) and returns a dict with columns of the
            schema; a missing column is null. id and batch pass through automatically.
        schema: of the output, as for `mapInArrow`: id, batch, error_class, error_message (strings) and the
            function's own columns.

    Raises:
        InvalidInput: the schema lacks one of the four columns, or a column must not be null.
    """
    said, columns = _columns(schema)
    known = {*columns.names}
    whole = {field.name: field.type for field in columns if has_whole(field.type)}

    def outcome(row: Row) -> Row:
        try:
            made = dict(function(row))
            _check_known(made, known)
            for name, kind in whole.items():
                check_whole(name, made.get(name), kind)
        except Exception as error:  # noqa: BLE001 - the row fails, not the task
            return _failed(row, error)
        made["id"], made["batch"] = row["id"], row["batch"]
        return made

    def as_arrow(rows: list[Row]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, columns)

    def handle(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        read = _in_halves(batch, lambda part: [outcome(row) for row in _rows_of(part)], _all_failed)
        rows = [row for part in read for row in part]
        return _in_halves(rows, as_arrow, lambda one, error: as_arrow([_failed(one[0], error)]))

    return RowMapper(said, handle)


def by_batch(function: Callable[[pa.RecordBatch], Mapping[str, Any]], schema: StructType | str) -> RowMapper:
    """Like `by_row`, for a function that takes many rows at a time, which is several times as fast.

        def handle(batch):
            bodies = batch["body"].cast("string")
            return {"total": bodies.cast("double")}

        df.mapInArrow(by_batch(handle, OUT), OUT)

    If the function raises, or a value does not fit, the rows are tried in halves, down to the ones that
    fail alone. So the function is called again with the others: it must do nothing but compute.

    Args:
        function: takes an Arrow batch and returns a dict with columns of the schema, each an Arrow or numpy
            array, a Series of pandas or a list. Arrow casts them safely, also text to numbers. It may fill
            error_class and error_message for rows that fail.
        schema: as for `by_row`.

    Raises:
        InvalidInput: as `by_row`.
    """
    said, columns = _columns(schema)
    known = {*columns.names}

    def computed(part: pa.RecordBatch) -> pa.RecordBatch:
        made = dict(function(part))
        _check_known(made, known)
        for name, values in made.items():
            if len(values) != len(part):  # halves might fit by chance
                message = f"the function returned {len(values)} values of {name!r} for {len(part)} rows"
                return failed(part, InvalidInput(message))
        made |= {name: part[name] for name in WHOSE}
        nothing = pa.nulls(part.num_rows)
        cast = pa.table({name: made.get(name, nothing) for name in columns.names}).cast(columns)
        return pa.RecordBatch.from_arrays([cells.combine_chunks() for cells in cast.columns], schema=columns)

    def failed(one: pa.RecordBatch, error: Exception) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(_all_failed(one, error), columns)

    return RowMapper(said, lambda batch: _in_halves(batch, computed, failed))


def _columns(schema: StructType | str) -> tuple[str, pa.Schema]:
    """The columns of a handler's output, checked: as Spark shows them, and for Arrow."""
    read = schema if isinstance(schema, StructType) else columns_of(schema)
    check_output(read)
    return read.simpleString(), arrow_schema(read)


@dataclass(frozen=True, slots=True)
class RowMapper:
    """What `by_row` and `by_batch` return: a function for `mapInArrow`, and the columns of its output."""

    columns: str
    handle: Callable[[pa.RecordBatch], list[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle each batch; parts that were handled separately are joined again."""
        for batch in batches:
            if missing := [name for name in WHOSE if name not in batch.schema.names]:
                raise InvalidInput(
                    f"a handler needs the column {', '.join(map(repr, missing))} in its input: select it, too"
                )
            yield pa.concat_batches(self.handle(batch))


def _in_halves(rows: Rows, make: Callable[[Rows], R], fail: Callable[[Rows, Exception], R]) -> list[R]:
    """The result of rows. If some fail, the result has several parts, and the failing rows fail alone."""
    try:
        return [make(rows)]
    except Exception as error:  # noqa: BLE001 - rows fail, not the task
        if len(rows) <= 1:
            return [fail(rows, error)]
    middle = len(rows) // 2
    return [part for half in (rows[:middle], rows[middle:]) for part in _in_halves(half, make, fail)]


def _rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Its rows as dicts; so are maps, which Arrow returns as pairs."""
    maps = [field.name for field in batch.schema if pa.types.is_map(field.type)]
    rows: list[Row] = batch.to_pylist()
    for row in rows if maps else ():
        row |= {name: dict(row[name]) for name in maps if row[name] is not None}
    return rows


def _check_known(made: Mapping[str, Any], known: set[str]) -> None:
    if unknown := made.keys() - known:
        names = ", ".join(map(repr, sorted(unknown)))
        raise InvalidInput(f"the function returned {names}, which the schema lacks")


def _all_failed(rows: pa.RecordBatch, error: Exception) -> list[Row]:
    return [_failed(row, error) for row in rows.select(WHOSE).to_pylist()]


def _failed(row: Row, error: Exception) -> Row:
    cause = Cause.of(error)
    return {name: row[name] for name in WHOSE} | dict(zip(ERROR, (cause.type, cause.message), strict=True))


def columns_to_read(options: StreamOptions, schema: StructType) -> MessageColumns:
    """The columns that a task reads: the handler's input, or those of the stream."""
    if not options.handler:
        return MessageColumns(schema)
    names = dict.fromkeys((*WHOSE, *options.handler_columns))
    return MessageColumns(chosen_of(names, schema_of(options.view), options.view))


def check_handler(name: str, schema: StructType) -> None:
    """Check a handler on the driver, before a batch begins. What only tasks can import is left to them."""
    try:
        import_module(name.partition(":")[0])
    except Exception:  # noqa: BLE001 - Spark sends --py-files to tasks alone
        return
    handler_of(name, schema)


def handler_of(name: str, schema: StructType) -> RowMapper:
    """Import `module:function`. Its columns must be those of the stream: a batch without rows fails, too."""
    module, _, attribute = name.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"option handler: cannot import {name} ({error}): install its module where the tasks run, or "
            "pass it with --py-files"
        ) from error
    if not isinstance(found, RowMapper):
        message = f"option handler: {name} is not a handler: name what by_row() or by_batch() returned"
        raise InvalidInput(message)
    if found.columns != (wanted := schema.simpleString()):
        raise InvalidInput(
            f"option handler: {name} returns {found.columns}, and the stream has {wanted}: pass the same "
            "schema to by_row() or by_batch() and to schema()"
        )
    return found
