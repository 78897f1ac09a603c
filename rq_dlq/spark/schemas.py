"""The columns of each view, for Spark and for Arrow. Every column may be null."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rq_dlq.errors import InvalidInput

_TEXT, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()


def _table(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


FAILURE = _table(
    ("attempt", _INT),
    ("at", _TIME),
    ("consumer", _TEXT),
    ("cause", _TEXT),
    ("error_class", _TEXT),
    ("error_message", _TEXT),
    ("delay_ms", _LONG),
)
"""One event of a dead letter's `history`."""

MESSAGE = _table(
    ("id", _TEXT),
    ("queue", _TEXT),
    ("body", BinaryType()),
    ("content_type", _TEXT),
    ("headers", MapType(_TEXT, _TEXT)),
    ("priority", _INT),
    ("enqueued_at", _TIME),
    ("visible_at", _TIME),
    ("expires_at", _TIME),
    ("delivery_count", _INT),
    ("last_error_class", _TEXT),
    ("last_error_message", _TEXT),
    ("batch", _TEXT),
    ("shard", _INT),
    ("corrupt", _TEXT),
)
"""A message: views `queue`, `scheduled`, `leased`, and streams of these."""

DEAD_LETTER = _table(
    *((field.name, field.dataType) for field in MESSAGE),
    ("dead_at", _TIME),
    ("reason", _TEXT),
    ("original_queue", _TEXT),
    ("error_class", _TEXT),
    ("error_message", _TEXT),
    ("fingerprint", _TEXT),
    ("history", ArrayType(FAILURE)),
)
"""A dead letter or an expired message: views `dlq` and `expired`."""

HISTORY = _table(
    ("event_id", _TEXT),
    ("at", _TIME),
    ("queue", _TEXT),
    ("id", _TEXT),
    ("event", _TEXT),
    ("attempt", _INT),
    ("consumer", _TEXT),
    ("delay_ms", _LONG),
    ("age_ms", _LONG),
    ("error_class", _TEXT),
    ("fingerprint", _TEXT),
    ("reason", _TEXT),
    ("cause", _TEXT),
)
"""An event of a queue's outcome history: view `history`."""

TOTALS = (
    "sent", "acked", "nacked", "lapsed", "released", "exhausted", "poison", "unprocessable",
    "redriven", "discarded", "moved", "purged", "expired_total",
)  # fmt: skip
COUNTS = ("ready", "scheduled", "leased", "dead", "expired")
METRICS = _table(
    ("queue", _TEXT),
    ("at", _TIME),
    *((name, _LONG) for name in COUNTS),
    ("oldest_ms", _LONG),
    ("next_due_ms", _LONG),
    ("paused", BooleanType()),
    *((name, _LONG) for name in TOTALS),
)
"""A queue's counts now, and its totals since it was created or reset: view `metrics`."""

VIEWS = {
    "queue": MESSAGE,
    "scheduled": MESSAGE,
    "leased": MESSAGE,
    "dlq": DEAD_LETTER,
    "expired": DEAD_LETTER,
    "history": HISTORY,
    "metrics": METRICS,
}

_ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
}


def schema_of(view: str, history: str = "struct") -> StructType:
    """The columns of a view.

    Args:
        view: its name.
        history: the form of a dead letter's history: struct, json, none.
    """
    schema = VIEWS[view]
    if history == "json" and schema is DEAD_LETTER:
        return StructType([*schema.fields[:-1], StructField("history", _TEXT)])
    return schema


def check_chosen(chosen: StructType, whole: StructType, view: str) -> None:
    """Check the chosen columns against those of the view.

    Raises:
        InvalidInput: there is no such column, it has another type, or no column is chosen.
    """
    if not chosen.fields:
        message = f"no column of view {view!r} is chosen: choose at least one, or leave out schema()"
        raise InvalidInput(message)
    known = {field.name: field.dataType.simpleString() for field in whole}
    for field in chosen:
        kind = field.dataType.simpleString()
        if field.name not in known:
            message = f"view {view!r} has no column {field.name!r}: choose from {', '.join(known)}"
            raise InvalidInput(message)
        if kind != known[field.name]:
            message = (
                f"column {field.name!r} of view {view!r} is {known[field.name]}, not {kind}: "
                "choose that type, and cast the column afterwards"
            )
            raise InvalidInput(message)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns for Arrow, exactly as Spark requires them."""
    return pa.schema([_arrow_field(field.name, field.dataType, field.nullable) for field in schema])


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a column's type.

    Raises:
        InvalidInput: there is none.
    """
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field.name, field.dataType, field.nullable) for field in kind])
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow_field("element", kind.elementType, kind.containsNull))
    if isinstance(kind, MapType):
        value = _arrow_field("value", kind.valueType, kind.valueContainsNull)
        return pa.map_(arrow_type(kind.keyType), value)
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if type(kind) not in _ARROW:
        message = f"columns of type {kind.simpleString()} are not supported: use another type"
        raise InvalidInput(message)
    return _ARROW[type(kind)]


def _arrow_field(name: str, kind: DataType, nullable: bool) -> pa.Field:  # noqa: FBT001
    return pa.field(name, arrow_type(kind), nullable)
