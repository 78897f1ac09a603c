"""The histories of messages as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from rq_dlq.spark.schemas import FAILURE, arrow_type
from rq_dlq.values.failure import FAILURES, Cause, Event, read_history

if TYPE_CHECKING:
    from collections.abc import Sequence

Stories = "Sequence[bytes | None]"


def last_failure(text: bytes | None) -> Cause | None:
    """The cause of the newest failure in a history; None: there is no failure."""
    for line in reversed((text or b"").split(b"\n")):
        for event in read_history(line):
            if event.event in FAILURES:
                return event.cause
    return None


def as_structs(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as lists of events."""
    offsets, events = [0], list[Event]()
    for text in texts:
        events += read_history(text or b"")
        offsets.append(len(events))
    cells = zip(*map(_cells, events), strict=True) if events else [()] * len(FAILURE)
    columns = [
        pa.array(column, arrow_type(field.dataType)) for column, field in zip(cells, FAILURE, strict=True)
    ]
    fields = [pa.field(field.name, column.type) for column, field in zip(columns, FAILURE, strict=True)]
    element = pa.field("element", arrow_type(FAILURE))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.StructArray.from_arrays(columns, fields=fields),
        type=pa.list_(element),
    )


def as_json(texts: Sequence[bytes | None]) -> pa.Array:
    """Histories as JSON: an array of objects with the fields of the struct; times in ISO format."""
    names = FAILURE.fieldNames()
    stories = (
        [dict(zip(names, _cells(event), strict=True)) for event in read_history(text or b"")]
        for text in texts
    )
    return pa.array([msgspec.json.encode(story) for story in stories], pa.string())


def _cells(event: Event) -> tuple[object, ...]:
    """An event in the order of the struct's fields."""
    cause = event.cause
    return (
        event.delivery, event.at, event.consumer or None, event.event,
        cause.type or None, cause.message or None, round(event.delay * 1000),
    )  # fmt: skip
