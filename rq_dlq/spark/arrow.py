"""Columns for Arrow, exactly as Spark requires them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructType

from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

pc: Any = compute  # its functions are made at run time
LAST_MOMENT = 253_402_300_799_999  # milliseconds: the year 9999, beyond which Python has no datetime
_TIME = pa.timestamp("us", tz="UTC")
ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.DateType: pa.date32(),
    types.TimestampType: _TIME,
    types.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns for Arrow, exactly as Spark requires them."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType), field.nullable) for field in schema])


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a column's type.

    Raises:
        InvalidInput: there is none.
    """
    if isinstance(kind, StructType):
        return pa.struct(arrow_schema(kind))
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, MapType):
        value = pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull)
        return pa.map_(arrow_type(kind.keyType), value)
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if type(kind) not in ARROW:
        raise InvalidInput(f"columns of type {kind.simpleString()} are not supported: use another type")
    return ARROW[type(kind)]


def has_whole(kind: pa.DataType) -> bool:
    """Whether it has whole numbers or times, maybe in a struct, a list or a map."""
    if kind.num_fields:
        return any(has_whole(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def check_whole(name: str, value: Any, kind: pa.DataType) -> None:
    """Check that no number of a value has a fraction where Arrow would cut it off without an error.

    Raises:
        InvalidInput: one has.
        ValueError, OverflowError: one is not finite.
    """
    if value is None or value.__class__ is int:
        return
    if pa.types.is_struct(kind):
        parts = value if isinstance(value, tuple) else map(dict(value).get, (part.name for part in kind))
        for part, field in zip(parts, kind, strict=False):
            check_whole(name, part, field.type)
    elif kind.num_fields:  # a list; or a map, which is a list of pairs
        for part in value.items() if isinstance(value, dict) else value:
            check_whole(name, part, kind.field(0).type)
    elif isinstance(value, Number) and has_whole(kind) and value != int(value):  # type: ignore[call-overload]
        raise InvalidInput(f"column {name!r}: {value} does not fit into {kind}: its fraction would be lost")


def texts(cells: Sequence[bytes | None]) -> pa.Array:
    """Text from Redis; bytes that are not UTF-8 become replacement characters."""
    try:
        return pa.array(cells, pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell and cell.decode(errors="replace") for cell in cells], pa.string())


def times(milliseconds: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> pa.Array:
    """Times for Spark; null if they are unknown, or beyond the calendar."""
    known = known & (milliseconds <= LAST_MOMENT)
    return pa.array(milliseconds * 1000, mask=~known).view(_TIME)
