"""What a worker does with the messages of tasks."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import Broker, ConfigurationError, Poison
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after
from tests.behaviour.sending.test_tasks import User
from tests.worker.test_handlers import traced

if TYPE_CHECKING:
    from tests.worker.conftest import Working as Unknown

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
CALLS = list[Any]()
elsewhere = Broker("redis://127.0.0.1:1/0")


@elsewhere.task(queue="mail")
def importable(user_id: int) -> int:
    """A task of a module, as tasks are."""
    return user_id


@pytest.fixture(autouse=True)
def _none_called() -> None:
    CALLS.clear()


def everything(first: int, /, *others: Decimal, user: User | None = None, **more: list[str]) -> None:
    CALLS.append((first, others, user, more))


async def everything_meanwhile(
    first: int, /, *others: Decimal, user: User | None = None, **more: list[str]
) -> None:
    await asyncio.sleep(0)
    CALLS.append((first, others, user, more))


@pytest.mark.parametrize("function", [everything, everything_meanwhile])
def test_arguments_arrive_as_their_annotations_say(function: Any, broker: Broker) -> None:
    task = broker.task(queue="a", concurrency=1)(function)
    calls: list[Any] = [
        ((1,), {}),
        ((1, Decimal("2.50")), {"user": User(7, NOON)}),
        ((1,), {"colours": ["red"], "sizes": []}),
    ]
    for args, kwargs in calls:
        task.send(*args, **kwargs)
    broker.run(burst=True)
    assert [
        (1, (), None, {}),
        (1, (Decimal("2.50"),), User(7, NOON), {}),
        (1, (), None, {"colours": ["red"], "sizes": []}),
    ] == CALLS
    assert broker.queue("a").stats().totals["acked"] == 3


def test_tasks_share_a_queue(broker: Broker) -> None:
    def one(n: int) -> None:
        CALLS.append(("one", n))

    def two(n: int = 5, *, m: int = 6) -> None:
        CALLS.append(("two", n, m))

    first, second = broker.task(queue="a")(one), broker.task(queue="a")(two)
    first.send(1)
    second.send(m=7)
    first.send(n=2)
    broker.run(burst=True)
    assert CALLS == [("one", 1), ("two", 5, 7), ("one", 2)]


def test_a_task_that_fails_is_redelivered_by_the_policy_of_its_queue(broker: Broker) -> None:
    queue = broker.queue("a", redelivery=after("0s", most=1))

    @broker.task(queue=queue)
    def fail(how: str) -> None:
        CALLS.append(how)
        raise Poison(how) if how == "poison" else ValueError(how)

    fail.send("poison")
    fail.send("error")
    broker.run(burst=True)
    assert sorted(CALLS) == ["error", "error", "poison"]
    assert sorted(letter.reason for letter in queue.dlq.browse()) == ["exhausted", "poison"]


def test_a_task_of_which_nothing_has_run_is_not_done(broker: Broker) -> None:
    """As one whose decorator is a `def` around the `async def`."""
    task = broker.task(queue="a")(traced(everything_meanwhile))
    task.send(1)
    broker.run(burst=True)
    (message,) = broker.queue("a").select(places=["scheduled"]).browse()
    assert "returned a coroutine, which is never awaited" in message.history[-1].cause.message
    assert CALLS == []


def test_a_parameter_takes_the_delivery(broker: Broker) -> None:
    @broker.lifespan
    def resources() -> Iterator[str]:
        yield "a pool"

    @broker.task(queue="a")
    def plain(n: int, delivery: rq_dlq.Delivery[Any] | None = None, m: int = 2) -> None:
        assert delivery is not None
        CALLS.append((n, m, delivery.id, delivery.state))

    plain.options(id="x").send(1, m=3)
    broker.run(burst=True)
    assert CALLS == [(1, 3, "x", "a pool")]


def test_an_async_task_takes_an_awaiting_delivery(broker: Broker) -> None:
    @broker.task(queue="a")
    async def meanwhile(n: int, *, delivery: rq_dlq.asyncio.Delivery[Any] | None = None) -> None:
        assert delivery is not None
        await delivery.extend()
        CALLS.append(n)

    meanwhile.send(1)
    broker.run(burst=True)
    assert CALLS == [1]


async def test_tasks_of_an_awaiting_broker(server: str, raw: Any) -> None:
    del raw
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        task, plain = broker.task(queue="a")(everything_meanwhile), broker.task(queue="b")(everything)
        await task.send(1)
        await plain.send(2)
        await broker.run(burst=True)
        assert sorted(CALLS) == [(1, (), None, {}), (2, (), None, {})]
        await task(3)
        assert CALLS[-1] == (3, (), None, {})


UNFIT: dict[str, tuple[Any, dict[str, str] | None, str]] = {
    "unknown": ({"n": 1}, {"task": "tow"}, "there is no task 'tow': the tasks of 'a' are one, two"),
    "no header": ({"n": 1}, None, "the message has no header 'task': the tasks of 'a' are one, two"),
    "missing": ({}, {"task": "one"}, "do not fit one(n: int): Object missing required field `n`"),
    "another": (
        {"n": 1, "m": 2},
        {"task": "one"},
        "do not fit one(n: int): Object contains unknown field `m`",
    ),
    "type": ({"n": "1"}, {"task": "one"}, "Expected `int`, got `str` - at `$.n`"),
    "a list": ([1], {"task": "one"}, "Expected `object`, got `array`"),
    "bytes": (b"\xff", {"task": "one"}, "do not fit one(n: int): "),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_message_that_no_task_can_take_is_passed_on(what: str, broker: Broker) -> None:
    """It rests for another version of the program; what cannot be decoded at all is dead at once."""

    def one(n: int) -> None:
        CALLS.append(n)

    def two() -> None: ...

    for function in (one, two):
        broker.task(queue="a")(function)
    body, headers, said = UNFIT[what]
    broker.queue("a").send(body, headers=headers)
    broker.queue("a").send({"n": 5}, headers={"task": "one"})  # by hand
    broker.run(burst=True)
    if what == "bytes":
        (letter,) = broker.queue("a").dlq.browse()
        assert (letter.reason, letter.delivery_count, letter.attempt) == ("unprocessable", 1, 1)
        cause = letter.cause
    else:
        (message,) = broker.queue("a").select(all=True).browse()
        assert (message.delivery_count, message.attempt, message.charged) == (1, 0, 0)
        (event,) = message.history
        assert (event.event, event.delay) == ("passed_on", 1)
        cause = event.cause
    assert said in cause.message
    assert CALLS == [5]


def test_bytes_that_are_json_fit_too(broker: Broker) -> None:
    """As another producer may send them."""
    broker.task(queue="a")(everything)
    broker.queue("a").send(b'{"first": 1}', headers={"task": "everything"})
    broker.run(burst=True)
    assert CALLS == [(1, (), None, {})]


def test_a_type_that_is_not_there_is_named_before_the_first_message(broker: Broker) -> None:
    def late(what: Unknown) -> None:
        CALLS.append(what)

    task = broker.task(late)
    said = (
        "an annotation of task 'late': name 'Unknown' is not defined; define it at the top level of the "
        "module, and import it outside of `if TYPE_CHECKING`"
    )
    with pytest.raises(ConfigurationError, match=said):
        Worker(broker)
    with pytest.raises(ConfigurationError, match=said):
        task.send(1)  # type: ignore[arg-type]


def test_a_task_pickles_as_its_name() -> None:
    assert pickle.loads(pickle.dumps(importable)) is importable  # noqa: S301 - our own
    delayed = importable.options(delay="1h", headers={"tenant": "a"})
    again = pickle.loads(pickle.dumps(delayed))  # noqa: S301 - our own
    assert (again._plain, again._options) == (importable, delayed._options)
    assert again(7) == 7
