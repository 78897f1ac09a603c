"""Traces with OpenTelemetry; the extra `otel`.

They follow the semantic conventions for messaging of OpenTelemetry 1.44.0, whose status is "development".

- `send QUEUE`, of the kind producer: a call that sends. Its context travels in headers of the message, under
  the names of the global propagator: `traceparent`, `tracestate`. In a session it is `create QUEUE`.
- `process QUEUE`, of the kind consumer: one delivery of one message, while its handler or its `with` block
  runs. It has a link to the context in the message. It ends when the message is settled, with the time at
  which the handler ended. If the message is never settled, it ends at the next traced call.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider

from rq_dlq.errors import ConfigurationError, Redeliver
from rq_dlq.values.failure import Cause
from rq_dlq.values.observer import Observer
from rq_dlq.values.settlement import FAILED
from rq_dlq.values.version import __version__

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from rq_dlq.client.base import BrokerBase
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.observer import Sending, Settled

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "rq_dlq"
OWN = f"messaging.{SYSTEM}"
"""The prefix of attributes outside the conventions."""
REDIS_PORT = 6379


def instrument(
    broker: BrokerBase, *, tracer_provider: TracerProvider | None = None, as_child: bool = False
) -> None:
    """Trace a broker's sends, and the messages that its workers and `with` blocks handle in this process.

    Args:
        broker: a blocking or an async broker.
        tracer_provider: None: the global one.
        as_child: True: a process span is a child of the span that sent the message, in the same trace. By
            default it begins a new trace, or is a child of the current span, and has a link to the sending
            span: a message may be delivered several times, and long after that trace has ended.

    Raises:
        ConfigurationError: the broker is already traced.
    """
    if any(isinstance(one, _Tracing) for one in broker._client.observers):
        raise ConfigurationError(
            f"{broker!r} is already traced: each span would be recorded twice. Call this once"
        )
    tracer = trace.get_tracer("rq_dlq", __version__, tracer_provider, SCHEMA)
    broker.observe(_Tracing(tracer, _server(broker.url), as_child=as_child))


class _Tracing(Observer):
    def __init__(self, tracer: trace.Tracer, server: Mapping[str, str | int], *, as_child: bool) -> None:
        self._tracer = tracer
        self._server = server
        self._as_child = as_child
        self._handled: WeakKeyDictionary[Leased[Any], _Handled] = WeakKeyDictionary()
        # Spans of unsettled deliveries. The garbage collector runs at any time, even while this thread holds
        # a lock of the exporter, so it only puts the spans here.
        self._forgotten: SimpleQueue[_Handled] = SimpleQueue()
        finalize(self, _end, self._forgotten)  # when the process ends, after the finalizers of the deliveries

    @contextmanager
    def sending(self, sending: Sending) -> Generator[None]:
        _end(self._forgotten)
        creator = _remote(propagate.extract(sending.headers, context.Context()))
        span = self._start(
            "create" if sending.staged else "send",
            sending.queue,
            SpanKind.CLIENT if creator else SpanKind.PRODUCER,  # then the caller created the context
            sending.id,
            links=creator,
        )
        if not creator:
            propagate.inject(sending.carried, trace.set_span_in_context(span))
        try:
            yield
        except BaseException as error:
            _fail(span, Cause.of(error), error)
            raise
        else:
            if sending.id is None:
                span.set_attribute("messaging.batch.message_count", sending.count)
        finally:
            span.end()

    def handling(self, delivery: Leased[Any]) -> _Handled:
        _end(self._forgotten)
        received = propagate.extract(delivery.headers)  # includes the baggage
        creator = _remote(propagate.extract(delivery.headers, context.Context()))
        around = trace.get_current_span().get_span_context()
        as_child = self._as_child and bool(creator)
        span = self._start(
            "process",
            delivery.queue,
            SpanKind.CONSUMER,
            delivery.id,
            links=[*creator, *([Link(around)] if as_child and around.is_valid else ())],
            parent=received if as_child else None,
            attributes={
                f"{OWN}.attempt": delivery.attempt,
                f"{OWN}.delivery_count": delivery.delivery_count,
            },
        )
        handled = self._handled[delivery] = _Handled(span, trace.set_span_in_context(span, received))
        finalize(delivery, self._forgotten.put, handled)
        return handled

    def settled(self, settled: Settled) -> None:
        if settled.delivery is not None and settled.delivery in self._handled:
            self._handled[settled.delivery].settle(settled)

    def _start(
        self,
        operation: str,
        queue: str,
        kind: SpanKind,
        message_id: str | None,
        *,
        links: list[Link],
        parent: Context | None = None,
        attributes: Mapping[str, int] | None = None,
    ) -> Span:
        named = {} if message_id is None else {"messaging.message.id": message_id}
        return self._tracer.start_span(
            f"{operation} {queue}",
            parent,
            kind,
            {
                "messaging.system": SYSTEM,
                "messaging.destination.name": queue,
                "messaging.operation.name": operation,
                "messaging.operation.type": operation,
                **named,
                **self._server,
                **(attributes or {}),
            },
            links,
        )


class _Handled:
    """The span of one delivery: it ends when the handler has ended and the message is settled."""

    def __init__(self, span: Span, inside: Context) -> None:
        self._span = span
        self._inside = inside
        self._token: Token[Context]
        self._left: int | None = None  # when the handler ended
        self._settled = self._failed = self._ended = False

    def __enter__(self) -> None:
        self._token = context.attach(self._inside)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._left = time.time_ns()  # noqa: TID251 - spans use the clock of their process
        context.detach(self._token)
        if isinstance(error, Exception) and not isinstance(error, Redeliver):
            self._fail(Cause.of(error), error)
        if self._settled:
            self.end()

    def settle(self, settled: Settled) -> None:
        self._settled = True
        self._span.set_attribute(f"{OWN}.outcome", settled.outcome)
        if settled.delay is not None:
            self._span.set_attribute(f"{OWN}.redelivery_delay", settled.delay)
        if settled.cause.fingerprint:
            self._span.set_attribute(f"{OWN}.fingerprint", settled.cause.fingerprint)
        wanted = isinstance(settled.error, Redeliver)
        if settled.outcome in FAILED and not self._failed and not wanted:  # it was settled manually
            self._fail(settled.cause, settled.error)
        if self._left is not None:
            self.end()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._span.end(self._left)

    def _fail(self, cause: Cause, error: BaseException | str | None) -> None:
        self._failed = True
        _fail(self._span, cause, error)


def _end(forgotten: SimpleQueue[_Handled]) -> None:
    while not forgotten.empty():
        with suppress(Empty):  # another thread took it
            forgotten.get_nowait().end()


def _fail(span: Span, cause: Cause, error: BaseException | str | None) -> None:
    span.set_status(StatusCode.ERROR, str(cause))
    span.set_attribute("error.type", cause.type or "_OTHER")
    if isinstance(error, BaseException):
        span.record_exception(error)


def _remote(received: Context) -> list[Link]:
    """A link to the span that sent a message; empty: its headers have no context."""
    span = trace.get_current_span(received).get_span_context()
    return [Link(span)] if span.is_valid else []


def _server(url: str) -> dict[str, str | int]:
    """The attributes of the server; empty: it does not have a single address."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return {"server.address": parts.path}
    if parts.scheme in {"redis", "rediss"} and parts.hostname:
        return {"server.address": parts.hostname, "server.port": parts.port or REDIS_PORT}
    return {}
