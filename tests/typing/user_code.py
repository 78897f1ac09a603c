"""What users write, as type checkers see it: an error is expected where it is ignored, and nowhere else.

Both checkers report an ignore that they do not need; pyright is told so in `pyrightconfig.json`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from rq_dlq import Broker, Delivery, RedeliveryPolicy, SentForResult
from rq_dlq.asyncio import Broker as AwaitingBroker
from rq_dlq.asyncio import Delivery as AwaitingDelivery
from rq_dlq.asyncio import SentForResult as AwaitingSentForResult


@dataclass
class Order:
    id: int


@dataclass
class Bill(Order):
    total: float


broker, awaiting = Broker(), AwaitingBroker()


# Handlers of the queue's body, with and without brackets, of both colours


@broker.queue("1", type=Order).handler
def bare(_: Order) -> None: ...


@broker.queue("2", type=Order).handler(concurrency=2, timeout="1m")
def brackets(order: Order, delivery: Delivery[Order]) -> int:
    return max(order.id, delivery.body.id)


@broker.queue("3", type=Order).handler
async def bare_async(_: Order, delivery: AwaitingDelivery[Order]) -> None:
    await delivery.ack()


@awaiting.queue("4", type=Order).handler()
async def brackets_async(_: Order) -> None: ...


@awaiting.queue("5", type=Bill).handler
def base_class(_: Order) -> None: ...


@awaiting.queue("6").handler
def of_any_queue(_: Order) -> None: ...


@awaiting.queue("7", type=Order).handler  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
async def another_body(_: str) -> None: ...


@broker.queue("8", type=Order).handler(concurrency=2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def another_body_in_brackets(_: Bill, __: Any) -> None: ...


@broker.queue("9", type=Order).handler  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def no_body() -> None: ...


assert_type(brackets(Order(1), broker.queue("2", type=Order).claim()[0]), int)


# Tasks have the parameters of their functions


@broker.task(queue="mail", concurrency=3)
def welcome(user_id: int, *, lang: str = "en") -> str:
    return lang * user_id


@broker.task(queue="reports", cron="0 7 * * mon-fri", timezone="Europe/Berlin", missed="all")
def report(day: str = "today") -> None:
    del day


@awaiting.task
async def invoice(order: Order, delivery: AwaitingDelivery[Any] | None = None) -> float:
    return 0.0 if delivery else float(order.id)


assert_type(welcome.send(7, lang="de"), SentForResult[str])
message_id: str = welcome.send(7)
assert_type(welcome.options(delay="1h", priority=9).send(7), SentForResult[str])
assert_type(welcome(7), str)

welcome.send()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
welcome.send("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
welcome.options(ttl="1h").send(7, lang=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
welcome.options(later="1h")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def send() -> None:
    assert_type(await invoice.send(Order(1)), AwaitingSentForResult[float])
    assert_type(await invoice.options(delay=5).send(order=Order(1)), AwaitingSentForResult[float])
    assert_type(await invoice(Order(1)), float)
    await invoice.send("order")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


# Lifespans


@broker.lifespan
def resources() -> Iterator[dict[str, int]]:
    yield {}


@awaiting.lifespan
async def resources_async() -> AsyncIterator[dict[str, int]]:
    yield {}


@broker.lifespan  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def not_a_lifespan(_: int) -> None: ...


# Names that other queues use

plain = broker.queue("10")
plain.enqueue("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
plain.send("x", countdown=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
plain.claim(max_messages=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
RedeliveryPolicy(max_retries=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
plain.send("x", delay="5m")


async def wrong_words(delivery: AwaitingDelivery[Any]) -> None:
    await awaiting.queue("22").send(1, eta=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await delivery.nack(requeue=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
