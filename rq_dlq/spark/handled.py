"""The option `handler` of a stream: a function that runs in the task that reads the messages.

With `mapInArrow` each row goes from Python to the JVM as a message, back to Python, and to the JVM again as
the handler's output. Here it goes once. Options are texts, so the function is named; each task imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.columns import MessageColumns
from rq_dlq.spark.schemas import WHOSE, chosen_of, schema_of
from rq_dlq.spark.split import Handler

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rq_dlq.spark.options import StreamOptions


def columns_to_read(options: StreamOptions, schema: StructType) -> MessageColumns:
    """The columns that a task reads: the handler's input, or those of the stream.

    Raises:
        InvalidInput: the view has no such column.
    """
    if not options.handler:
        return MessageColumns(schema)
    names = dict.fromkeys((*WHOSE, *options.handler_columns))
    return MessageColumns(chosen_of(names, schema_of(options.view), options.view))


def check_handler(name: str, schema: StructType) -> None:
    """Check a handler on the driver, before a batch begins. What only tasks can import is left to them.

    Raises:
        InvalidInput: as `handler_of`.
    """
    try:
        import_module(name.partition(":")[0])
    except Exception:  # noqa: BLE001 - Spark sends --py-files to tasks alone
        return
    handler_of(name, schema)


def handler_of(name: str, schema: StructType) -> Handler:
    """Import a handler. Its columns are compared before it gets a row: a batch without rows fails, too.

    Args:
        name: module:function.
        schema: the stream's.

    Raises:
        InvalidInput: it cannot be imported, `by_row` or `by_batch` did not make it, or its output has other
            columns than the stream.
    """
    module, _, attribute = name.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        message = (
            f"option handler: cannot import {name} ({error}): install its module where the tasks run, "
            "or pass it with --py-files"
        )
        raise InvalidInput(message) from error
    if not isinstance(found, Handler):
        message = f"option handler: {name} is not a handler: name what by_row() or by_batch() returned"
        raise InvalidInput(message)
    if found.columns != (wanted := schema.simpleString()):
        raise InvalidInput(
            f"option handler: {name} returns {found.columns}, and the stream has {wanted}: pass the same "
            "schema to by_row() or by_batch() and to schema()"
        )
    return found
