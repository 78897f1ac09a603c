"""The columns of each view. Every column may be null."""

from __future__ import annotations

import re
from collections.abc import Collection

from pyspark.sql import SparkSession, types
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.arrow import ARROW

_KINDS: dict[str, DataType] = {kind().simpleString(): kind() for kind in ARROW}
_ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_COLUMN = re.compile(r"\s*`?(\w+)`?[\s:]+(.+?)(\s+NOT\s+NULL)?\s*", re.IGNORECASE | re.DOTALL)
_COMMA = re.compile(r",(?=\s*`?\w+`?[\s:]+\w)")  # before a name and a type, so not within map<int, int>


def columns_of(ddl: str) -> StructType:
    """Columns from DDL. Spark's own reader needs a session, which tests and tasks do not have.

    Raises:
        InvalidInput: it has a type that only Spark can read, and there is no session; or no columns.
    """
    try:
        return StructType([_column(part) for part in _COMMA.split(ddl)])
    except KeyError:
        if SparkSession.getActiveSession() is None:
            message = f"Spark reads {ddl!r} only in a session: create one before, or pass a StructType"
            raise InvalidInput(message) from None
        read = StructType.fromDDL(ddl)
        if not isinstance(read, StructType):
            message = f"{ddl!r} is a type: pass columns, as for mapInArrow"
            raise InvalidInput(message) from None
        return read


def _column(text: str) -> StructField:
    found = _COLUMN.fullmatch(text)
    if found is None:
        raise KeyError(text)
    return StructField(found[1], _kind(found[2]), nullable=not found[3])


def _kind(text: str) -> DataType:
    name = text.lower().strip()
    if of := re.fullmatch(r"array<(.+)>", name):
        return ArrayType(_kind(of[1]))
    if of := re.fullmatch(r"map<(.+?),(.+)>", name):
        return MapType(_kind(of[1]), _kind(of[2]))
    return _KINDS[_ALIASES.get(name, name)]


FAILURE = columns_of(
    "attempt int, at timestamp, consumer string, cause string, error_class string, error_message string, "
    "delay_ms bigint"
)
"""One event of a dead letter's `history`."""

MESSAGE = columns_of(
    "id string, queue string, body binary, content_type string, headers map<string,string>, key string, "
    "priority int, enqueued_at timestamp, visible_at timestamp, expires_at timestamp, delivery_count int, "
    "attempt int, last_error_class string, last_error_message string, batch string, shard int, corrupt string"
)
"""A message: views `queue`, `scheduled`, `leased`, and streams of these."""

_DEATH = columns_of(
    "dead_at timestamp, reason string, original_queue string, error_class string, error_message string, "
    "fingerprint string, redrive_count int"
)
DEAD_LETTER = StructType([*MESSAGE, *_DEATH, StructField("history", ArrayType(FAILURE))])
"""A dead letter or an expired message: views `dlq` and `expired`."""

HISTORY = columns_of(
    "event_id string, at timestamp, queue string, id string, event string, attempt int, consumer string, "
    "delay_ms bigint, age_ms bigint, error_class string, fingerprint string, reason string, cause string"
)
"""An event of a queue's outcome history: view `history`."""

TOTALS = (
    "sent", "acked", "nacked", "lapsed", "released", "exhausted", "poison", "unprocessable",
    "redriven", "discarded", "moved", "purged", "cancelled", "passed_on", "expired_total", "known",
    "results_dropped", "replaced", "again",
)  # fmt: skip
COUNTS = ("ready", "scheduled", "leased", "dead", "expired")
METRICS = StructType(
    [
        *columns_of("queue string, at timestamp"),
        *(StructField(name, LongType()) for name in (*COUNTS, "oldest_ms", "next_due_ms")),
        StructField("paused", types.BooleanType()),
        *(StructField(name, LongType()) for name in TOTALS),
    ]
)
"""A queue's counts now, and its totals since it was created or reset: view `metrics`."""

_NEVER_NULL = {"queue", "id", "shard", "event_id"}

WHOSE = ("id", "batch")  # the columns that name a message and prove that it is held
ERROR = ("error_class", "error_message")
BAD = StructType([StructField(name, StringType()) for name in (*WHOSE, *ERROR)])
VIEWS = {
    "queue": MESSAGE,
    "scheduled": MESSAGE,
    "leased": MESSAGE,
    "dlq": DEAD_LETTER,
    "expired": DEAD_LETTER,
    "history": HISTORY,
    "metrics": METRICS,
}


def schema_of(view: str, history: str = "struct") -> StructType:
    """The columns of a view.

    Args:
        view: its name.
        history: the form of a dead letter's history: struct, json, none.
    """
    schema = VIEWS[view]
    if history == "json" and schema is DEAD_LETTER:
        return StructType([*schema.fields[:-1], StructField("history", StringType())])
    return schema


def chosen_of(names: Collection[str], whole: StructType, view: str) -> StructType:
    """These columns of the view, which has `whole`.

    Raises:
        InvalidInput: one does not exist.
    """
    if unknown := [name for name in names if name not in whole.names]:
        raise InvalidInput(
            f"view {view!r} has no column {unknown[0]!r}: choose from {', '.join(whole.names)}"
        )
    return StructType([whole[name] for name in names])


def check_output(schema: StructType) -> None:
    """Check the columns of a handler's output.

    Raises:
        InvalidInput: it lacks a column of `BAD`, or a column must not be null.
    """
    for name in BAD.names:
        if name not in schema.names or not isinstance(schema[name].dataType, StringType):
            raise InvalidInput(f"the schema of a handler needs a column {name!r} of type string")
    if strict := [field.name for field in schema if not field.nullable]:
        message = f"column {', '.join(map(repr, strict))}: drop NOT NULL, since it is null if the row fails"
        raise InvalidInput(message)


def check_chosen(chosen: StructType, whole: StructType, view: str) -> None:
    """Check the chosen columns against those of the view.

    Raises:
        InvalidInput: a column does not exist, has another type, or must not be null although it can be; a
            column is chosen twice, or none is.
    """
    if not chosen.fields:
        message = f"no column of view {view!r} is chosen: choose at least one, or leave out schema()"
        raise InvalidInput(message)
    if len(set(chosen.names)) < len(chosen):
        raise InvalidInput(f"a column is chosen twice: {', '.join(chosen.names)}. Choose each once")
    for field, own in zip(chosen, chosen_of(chosen.names, whole, view), strict=True):
        kind, known = field.dataType.simpleString(), own.dataType.simpleString()
        if kind != known:
            wanted = "that type" if kind != "timestamp_ntz" else "the type TIMESTAMP_LTZ"
            raise InvalidInput(
                f"column {field.name!r} of view {view!r} is {known}, not {kind}: "
                f"choose {wanted}, and cast the column afterwards"
            )
        if not field.nullable and field.name not in _NEVER_NULL:
            raise InvalidInput(f"column {field.name!r} of view {view!r} may be null: drop NOT NULL")
