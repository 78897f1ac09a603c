"""Logs as JSON, one object per line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.values.observer import Observer
from rq_dlq.values.visible import visible_json

if TYPE_CHECKING:
    from rq_dlq.client.base import BrokerBase
    from rq_dlq.values.leased import Leased

Fields = Mapping[str, object]

NO_FIELDS: Fields = {}
USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
"""The standard attributes of a record; others were passed as `extra`."""
_encoder = msgspec.json.Encoder(enc_hook=str)
_of_message: ContextVar[Fields] = ContextVar("rq_dlq.telemetry.json_logs", default=NO_FIELDS)


class JSONFormatter(logging.Formatter):
    """Writes a record as one line: an object with `time` (UTC), `level`, `logger` and `message`.

    If available, it also has `queue`, `message_id`, `attempt` and `delivery_count` (see `instrument`),
    `trace_id` and `span_id` of OpenTelemetry, the values passed as `extra`, and `exception`, with the
    traceback. No text in a message can break a line or control a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        first: Fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        last: dict[str, object] = {}
        if record.exc_info:
            last["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            last["stack"] = self.formatStack(record.stack_info)
        extra = {name: value for name, value in vars(record).items() if name not in USUAL}
        return visible_json(_encoded({**first, **_of_message.get(), **_of_span(), **extra, **first, **last}))


def instrument(broker: BrokerBase) -> None:
    """Add a message's `queue`, `message_id`, `attempt` and `delivery_count` to the lines of its handler.

    `rq-dlq worker --log-format json` does this.

    Args:
        broker: a blocking or an async broker; its workers and `with` blocks in this process are covered.
    """
    broker.observe(_MessageContext())


class _MessageContext(Observer):
    @contextmanager
    def handling(self, delivery: Leased[Any]) -> Generator[None]:
        token = _of_message.set(
            {
                "queue": delivery.queue,
                "message_id": delivery.id,
                "attempt": delivery.attempt,
                "delivery_count": delivery.delivery_count,
            }
        )
        try:
            yield
        finally:
            _of_message.reset(token)


def _of_span() -> Fields:
    """The ids of the current span; empty: there is none."""
    trace: Any = sys.modules.get("opentelemetry.trace")  # already imported if tracing is in use
    context = trace and trace.get_current_span().get_span_context()
    if not context or not context.is_valid:
        return NO_FIELDS
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _encoded(fields: Fields) -> str:
    try:
        return _encoder.encode(fields).decode()
    except Exception:  # noqa: BLE001 - `extra` may be anything, and text may have lone surrogates
        return _encoder.encode({_text(name): _encodable(value) for name, value in fields.items()}).decode()


def _encodable(value: object) -> object:
    try:
        _encoder.encode(value)
    except Exception:  # noqa: BLE001 - likewise
        return _text(value)
    return value


def _text(value: object) -> str:
    r"""The value as text; characters that UTF-8 cannot encode are escaped, as in \udc80."""
    return str(value).encode(errors="backslashreplace").decode()
