"""The histories of messages as columns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.types import ArrayType

from rq_dlq.spark.schemas import FAILURE, arrow_type
from rq_dlq.values.failure import read_history


def as_structs(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as lists of events."""
    return pa.array([_story(text) for text in texts], arrow_type(ArrayType(FAILURE)))


def as_json(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as JSON: an array of objects with the fields of the struct; times in ISO format."""
    names = FAILURE.fieldNames()
    stories = ([dict(zip(names, event, strict=True)) for event in _story(text)] for text in texts)
    return pa.array([msgspec.json.encode(story) for story in stories], pa.string())


def _story(text: bytes | None) -> list[tuple[object, ...]]:
    """The events of a history, each in the order of the struct's fields."""
    return [
        (
            event.delivery, event.at, event.consumer or None, event.event,
            event.cause.type or None, event.cause.message or None, round(event.delay * 1000),
        )
        for event in read_history(text or b"")
    ]  # fmt: skip
