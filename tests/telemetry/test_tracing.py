"""The spans of sends and handlings, by OpenTelemetry."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import ConfigurationError, KnownId, LeaseLost, Message, Poison, Redeliver
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.worker.test_handlers import COLOURS, register

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from rq_dlq.telemetry import tracing
from rq_dlq.telemetry.tracing import instrument
from tests.tables import each_row

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ORDERS = {"messaging.system": "rq_dlq", "messaging.destination.name": "orders"}


class Spans:
    """Keeps what ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def of(self, broker: Any, **options: Any) -> Spans:
        """Trace a broker."""
        instrument(getattr(broker, "inner", broker), tracer_provider=self.provider, **options)
        return self

    def all(self) -> tuple[ReadableSpan, ...]:
        """Those that ended."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of a name."""
        (span,) = self.named(name)
        return span

    def attributes(self, name: str) -> dict[str, Any]:
        """Of the only one of a name, without the server's address."""
        attributes = attributes_of(self.one(name))
        return {key: value for key, value in attributes.items() if not key.startswith("server.")}


@pytest.fixture
def spans() -> Spans:
    return Spans()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def in_header(span: SpanContext | None) -> str:
    """A context as a `traceparent`."""
    assert span is not None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def traceparent(span: ReadableSpan) -> str:
    return in_header(span.context)


def links(span: ReadableSpan) -> list[str]:
    return [in_header(link.context) for link in span.links]


@pytest.fixture
def real_broker(redis_socket: str) -> Iterator[rq_dlq.Broker]:
    with redis.Redis(unix_socket_path=redis_socket) as client:
        client.flushall()
    with rq_dlq.Broker(f"unix://{redis_socket}") as broker:
        yield broker


# Sending


async def test_a_send(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    sent = await broker.queue("orders").send("body", headers={"tenant": "acme"})
    span = spans.one("send orders")
    assert span.kind == SpanKind.PRODUCER
    assert spans.attributes("send orders") == ORDERS | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": sent,
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"
    delivery = await one(broker.queue("orders"))
    assert delivery.headers == {"tenant": "acme", "traceparent": traceparent(span)}


async def test_a_batch_is_one_span(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    own = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    bodies = ["a", Message(body="b", headers={"tenant": "x"}), Message(body="c", headers=own)]
    await broker.queue("orders").send_many(bodies)
    span = spans.one("send orders")
    assert spans.attributes("send orders")["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in spans.attributes("send orders")
    mine = {"traceparent": traceparent(span)}
    a, b, c = [delivery.headers for delivery in await broker.queue("orders").claim(3)]
    assert (a, b, c) == (mine, {"tenant": "x", **mine}, own)


async def test_a_context_of_the_caller_is_left_alone(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    await broker.queue("orders").send("body", headers={"traceparent": TRACEPARENT})
    span = spans.one("send orders")
    assert span.kind == SpanKind.CLIENT
    assert links(span) == [TRACEPARENT]
    assert (await one(broker.queue("orders"))).headers == {"traceparent": TRACEPARENT}


async def test_a_send_is_a_child_of_the_span_around_it(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    with spans.provider.get_tracer("app").start_as_current_span("request"):
        await broker.queue("orders").send("body")
    request, sent = spans.one("request"), spans.one("send orders")
    assert sent.parent == request.context


async def test_a_send_that_fails(broker: Any, spans: Spans) -> None:
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    spans.of(broker)
    with pytest.raises(KnownId):
        await queue.send("body", id="m", on_duplicate="raise")
    span = spans.one("send orders")
    assert span.status.status_code == StatusCode.ERROR
    assert spans.attributes("send orders")["error.type"] == "rq_dlq.errors.KnownId"
    assert [event.name for event in span.events] == ["exception"]


async def test_a_session_creates(broker: Any, spans: Spans) -> None:
    orders, invoices = broker.queue("orders"), broker.queue("invoices")
    await orders.send("body")
    spans.of(broker)
    async with orders.session() as session:
        await session.claim()
        await session.send(invoices, "bill")
    span = spans.one("create invoices")
    assert span.kind == SpanKind.PRODUCER
    assert spans.attributes("create invoices")["messaging.operation.type"] == "create"
    assert (await one(invoices)).headers == {"traceparent": traceparent(span)}


# Handling


async def test_a_with_block(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    delivery = await one(queue)
    async with delivery:
        with spans.provider.get_tracer("app").start_as_current_span("inside"):
            pass
    assert not trace.get_current_span().get_span_context().is_valid
    sent, span, inside = spans.one("send orders"), spans.one("process orders"), spans.one("inside")
    assert span.kind == SpanKind.CONSUMER
    assert (span.parent, links(span)) == (None, [traceparent(sent)])
    assert inside.parent == span.context
    assert span.status.status_code == StatusCode.UNSET
    assert spans.attributes("process orders") == ORDERS | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "m",
        "messaging.rq_dlq.attempt": 1,
        "messaging.rq_dlq.delivery_count": 1,
        "messaging.rq_dlq.outcome": "acked",
    }


async def test_as_a_child(broker: Any, spans: Spans) -> None:
    spans.of(broker, as_child=True)
    queue = broker.queue("orders")
    await queue.send("body")
    with spans.provider.get_tracer("app").start_as_current_span("around"):
        async with await one(queue):
            pass
    sent, span, around = spans.one("send orders"), spans.one("process orders"), spans.one("around")
    assert span.parent is not None
    assert sent.context is not None
    assert span.parent.span_id == sent.context.span_id
    assert links(span) == [traceparent(sent), traceparent(around)]


async def test_a_message_without_a_context(broker: Any, spans: Spans) -> None:
    await broker.queue("orders").send("body")
    spans.of(broker, as_child=True)
    async with await one(broker.queue("orders")):
        pass
    span = spans.one("process orders")
    assert (span.parent, span.links) == (None, ())


async def test_baggage_arrives(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    await queue.send("body")
    context.detach(token)
    assert baggage.get_baggage("tenant") is None
    async with await one(queue):
        assert baggage.get_baggage("tenant") == "acme"
    assert baggage.get_baggage("tenant") is None


async def test_a_loop_has_a_span_for_each_message(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    async for delivery in queue.consume(2):
        async with delivery:
            pass
    handled = spans.named("process orders")
    assert [span.parent for span in handled] == [None] * 3
    assert len({span.context.trace_id for span in handled if span.context}) == 3
    assert {attributes_of(span)["messaging.rq_dlq.outcome"] for span in handled} == {"acked"}


async def test_the_context_outlives_redelivery_death_and_redrive(
    broker: Any, spans: Spans, clock: Clock
) -> None:
    spans.of(broker)
    queue = broker.queue("orders", redelivery=after("1s", most=1))
    await queue.send("body", headers={"tenant": "acme"})
    headers = {"tenant": "acme", "traceparent": traceparent(spans.one("send orders"))}
    for _ in range(2):
        delivery = await one(queue)
        assert delivery.headers == headers
        await delivery.nack("later")
        clock.advance("2s")
    (letter,) = await queue.dlq.browse()
    assert letter.headers == headers
    await (await queue.dlq.redrive(all=True)).wait()
    async with await one(queue) as delivery:
        assert delivery.headers == headers
    assert len(spans.named("send orders")) == 1
    assert links(spans.one("process orders")) == [headers["traceparent"]]


async def test_failures(broker: Any, spans: Spans, clock: Clock) -> None:
    spans.of(broker)
    queue = broker.queue("orders", redelivery=after("1s", most=1))
    await queue.send("body")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            async with await one(queue):
                raise ValueError("no")
        clock.advance("2s")
    again, dead = spans.named("process orders")
    (group,) = await queue.dlq.groups()
    for span in (again, dead):
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError: no")
        assert attributes_of(span)["error.type"] == "ValueError"
        assert attributes_of(span)["messaging.rq_dlq.fingerprint"] == group.fingerprint
        assert [event.name for event in span.events] == ["exception"]
    assert attributes_of(again)["messaging.rq_dlq.outcome"] == "redelivered"
    assert attributes_of(again)["messaging.rq_dlq.redelivery_delay"] == 1
    assert attributes_of(dead)["messaging.rq_dlq.outcome"] == "dead"
    assert attributes_of(dead)["messaging.rq_dlq.delivery_count"] == 2


async def test_a_planned_redelivery_is_no_error(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send("body")

    def work() -> None:
        raise Redeliver(after="1s")

    async with await one(queue):
        work()
    span = spans.one("process orders")
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())
    assert spans.attributes("process orders")["messaging.rq_dlq.outcome"] == "redelivered"


async def test_settled_by_hand_inside(broker: Any, spans: Spans) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send("body")
    async with await one(queue) as delivery:
        await delivery.poison("no such order")
    span = spans.one("process orders")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such order")
    assert spans.attributes("process orders")["error.type"] == "_OTHER"


async def test_a_lost_lease(broker: Any, spans: Spans, clock: Clock) -> None:
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send("body")
    delivery = await one(queue, lease="1s")
    clock.advance("2s")
    await queue.claim()
    with pytest.raises(LeaseLost):
        async with delivery:
            pass
    assert spans.attributes("process orders")["messaging.rq_dlq.outcome"] == "lost"


class Locking(SpanProcessor):
    """Knows for each span that ended whether this thread held its lock then, which is not reentrant."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended: list[tuple[str, bool]] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append((span.name, self.lock.locked()))


async def test_what_is_never_settled_ends_too_but_not_in_the_garbage_collector(
    broker: Any, spans: Spans
) -> None:
    processor = Locking()
    spans.provider.add_span_processor(processor)
    spans.of(broker)
    queue = broker.queue("orders")
    await queue.send("body")
    delivery = await one(queue)
    await delivery.__aenter__()
    getattr(delivery, "inner", delivery)._handling.end(None)
    with processor.lock:
        del delivery
        gc.collect()
    assert spans.named("process orders") == []
    await queue.send("another")
    assert "messaging.rq_dlq.outcome" not in spans.attributes("process orders")
    assert ("process orders", False) in processor.ended


FORGETS = """
import sys
import rq_dlq
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from rq_dlq.telemetry.tracing import instrument

exporter = ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
broker = rq_dlq.Broker("unix://" + sys.argv[1])
instrument(broker, tracer_provider=provider)
queue = broker.queue("orders")
queue.send("body")
(delivery,) = queue.claim()
delivery.__enter__()
delivery._handling.end(None)
"""


@pytest.mark.usefixtures("real_broker")
def test_what_is_not_settled_when_the_process_ends(redis_socket: str) -> None:
    command = [sys.executable, "-c", FORGETS, redis_socket]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.split("\n") == ["send orders", "process orders", ""]


def test_a_broker_is_traced_once() -> None:
    broker = rq_dlq.Broker("redis://nowhere")
    instrument(broker)
    with pytest.raises(ConfigurationError, match="is already traced"):
        instrument(broker)


def test_without_an_sdk_nothing_is_added(real_broker: rq_dlq.Broker) -> None:
    instrument(real_broker)
    queue = real_broker.queue("orders")
    queue.send("body")
    (delivery,) = queue.claim()
    with delivery:
        assert delivery.headers == {}


@each_row(
    ("url", "server"),
    [
        ("redis://:secret@example.com/3", {"server.address": "example.com", "server.port": 6379}),
        ("rediss://example.com:1234", {"server.address": "example.com", "server.port": 1234}),
        ("unix:///run/redis.sock", {"server.address": "/run/redis.sock"}),
        ("redis+sentinel://a:1,b:2/main", {}),
    ],
)
def test_the_server(url: str, server: dict[str, Any]) -> None:
    assert tracing._server(rq_dlq.Broker(url).url) == server


# Workers


@COLOURS
def test_a_worker(colour: str, real_broker: rq_dlq.Broker, spans: Spans) -> None:
    spans.of(real_broker)
    queue = real_broker.queue("orders")
    tracer = spans.provider.get_tracer("app")

    def work(body: str, _: Any) -> None:
        with tracer.start_as_current_span(f"inside {body}"):
            if body == "dies":
                raise Poison(body)

    register(queue, colour, work, concurrency=3)
    sent = queue.send_many(["a", "b", "dies"])
    Worker(real_broker, until="empty").run()
    handled = {attributes_of(span)["messaging.message.id"]: span for span in spans.named("process orders")}
    assert sorted(handled) == sorted(sent)
    assert [handled[one].parent for one in sent] == [None] * 3
    inside = [spans.one(f"inside {body}").parent for body in ("a", "b", "dies")]
    assert inside == [handled[one].context for one in sent]
    outcomes = [attributes_of(handled[one])["messaging.rq_dlq.outcome"] for one in sent]
    assert outcomes == ["acked", "acked", "dead"]


def test_the_span_ends_with_its_handler(real_broker: rq_dlq.Broker, spans: Spans) -> None:
    """The ack waits for others, and is not part of it."""
    spans.of(real_broker)
    queue = real_broker.queue("orders")
    queue.handler(lambda _: None)
    queue.send_many(range(20))
    Worker(real_broker, until="empty").run()
    handled = spans.named("process orders")
    assert len(handled) == 20
    times = [time for span in handled for time in (span.start_time, span.end_time) if time is not None]
    assert times == sorted(times)
