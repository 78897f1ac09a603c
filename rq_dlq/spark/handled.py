"""The option `handler` of a stream: a function that runs in the task that reads the messages.

With `mapInArrow` each row goes from Python to the JVM as a message, back to Python, and to the JVM again as
the handler's output. Here it goes once. Options are texts, so the function is named; each task imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, cast

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.arrow import arrow_schema
from rq_dlq.spark.columns import MessageColumns
from rq_dlq.spark.schemas import WHOSE, chosen_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.spark.split import Handler


def columns_to_read(options: StreamOptions, schema: StructType) -> MessageColumns:
    """The columns that a task reads: the handler's input, or those of the stream.

    Raises:
        InvalidInput: the view has no such column.
    """
    if not options.handler:
        return MessageColumns(schema)
    names = dict.fromkeys((*WHOSE, *options.handler_columns))
    return MessageColumns(chosen_of(names, schema_of(options.view), options.view))


def handled(name: str, batches: Iterable[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The output of the handler with this name.

    Raises:
        InvalidInput: it cannot be imported, or its output has other columns than the stream.
    """
    wanted = arrow_schema(schema)
    for batch in handler_of(name)(batches):
        if not batch.schema.equals(wanted):
            message = (
                f"option handler: {name} returned the columns {_said(batch.schema)}, and the stream has "
                f"{_said(wanted)}: pass the same schema to by_row() or by_batch() and to schema()"
            )
            raise InvalidInput(message)
        yield batch


def handler_of(name: str) -> Handler:
    """Import a handler.

    Args:
        name: module:function.

    Raises:
        InvalidInput: it cannot be imported, or is not a function.
    """
    module, _, attribute = name.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        message = (
            f"option handler: a task cannot import {name} ({error}): install its module where the tasks run, "
            "or pass it with --py-files"
        )
        raise InvalidInput(message) from error
    if not callable(found):
        message = f"option handler: {name} is not a function: name what by_row() or by_batch() returned"
        raise InvalidInput(message)
    return cast("Handler", found)


def _said(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
