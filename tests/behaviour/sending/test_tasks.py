"""What a task sends, and what it refuses to send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
import pytest

from rq_dlq import Broker, ConfigurationError, Delivery, InvalidInput, InvalidMessage
from rq_dlq.client.task_function import TaskFunction
from tests.call_counts import calls
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh

MAIL = "rq:{mail}:messages"


@dataclass
class User:
    id: int
    since: datetime


def welcome(user_id: int, *, lang: str = "en") -> str:
    """Welcome a user."""
    return f"{user_id} {lang}"


def everything(first: int, /, *others: float, user: User | None = None, **more: list[str]) -> None:
    """It has each kind of parameter."""


def with_delivery(user_id: int, delivery: Delivery[Any] | None = None, times: int = 1) -> None:
    """It takes the delivery."""


def positive(n: Annotated[int, msgspec.Meta(gt=0)]) -> None:
    """Its annotation says more than the type."""


async def test_a_call_is_a_message_by_hand(broker: Any) -> None:
    """The wire form that rq_dlq/asyncio/task.py describes."""
    task = broker.task(queue="mail")(welcome)
    sent = await task.send(7, lang="de")
    (delivery,) = await broker.queue("mail").claim()
    assert (delivery.id, delivery.headers) == (sent, {"task": "welcome"})
    assert delivery.data == b'{"user_id":7,"lang":"de"}'


def of_each_kind(a: int, b: int = 2, *, c: int, d: int = 4) -> None:
    """It has parameters with and without defaults, and some by name alone."""


@each_row(
    "function, args, kwargs",
    [
        (of_each_kind, args, dict.fromkeys(names, 9))
        for args in ((), (1,), (1, 2), (1, 2, 3))
        for names in ("", "c", "dc", "cba", "ac", "ad", "cx", "abcd")
    ]
    + [(everything, (1, 2.0), {"more": ["x"]}), (everything, (), {}), (with_delivery, (1, 2), {})]
    + [(with_delivery, (1,), {"delivery": None}), (welcome, (1,), {1: 2}), (welcome, (1,), {"": 2})]
    + [(with_delivery, args, {}) for args in ((), (1,), (1, 2, 3))]
    + [(welcome, (), kwargs) for kwargs in ({}, {"lang": "x"}, {"lang": "x", "user_id": 1}, {"user": 1})],
)
def test_a_call_is_bound_as_python_does(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Most calls are bound without `inspect`, which would take ten times as long; one of many likewise."""
    task = TaskFunction(function, None)

    def body() -> bytes:
        return task.call(args, kwargs).body.data

    if not (args and kwargs):
        assert _said(lambda: task.binding.encode(kwargs or args)) == _said(body)
    try:
        expected: Any = task._sent.bind(*args, **kwargs).arguments
    except TypeError:
        with pytest.raises(InvalidMessage, match="cannot be called like this"):
            body()
        return
    assert list(json.loads(body()).items()) == [
        (name, [*value] if isinstance(value, tuple) else value) for name, value in expected.items()
    ]


def _said(body: Callable[[], bytes]) -> str:
    """The body of a call, or its error."""
    try:
        return str(body())
    except InvalidMessage as error:
        return str(error)


@pytest.mark.parametrize("call", [lambda n: (n,), lambda n: {"user_id": n}], ids=["tuple", "mapping"])
async def test_a_call_of_many_costs_what_a_body_does(sync_broker: Broker, call: Callable[[int], Any]) -> None:
    """About: the calls of functions for one message more. `inspect` alone made fifty."""
    queue, task = sync_broker.queue("a"), sync_broker.task(queue="b")(welcome)
    bodies, many = [{"user_id": n} for n in range(3_000)], [call(n) for n in range(3_000)]
    for count in (1_000, 3_000):
        queue.send_many(bodies[:count])
        task.send_many(many[:count])
    plain = calls(lambda: queue.send_many(bodies)) - calls(lambda: queue.send_many(bodies[:1_000]))
    tasks = calls(lambda: task.send_many(many)) - calls(lambda: task.send_many(many[:1_000]))
    assert (tasks - plain) / 2_000 < 1


async def test_without_brackets_the_queue_has_its_name(broker: Any) -> None:
    await broker.task(welcome).send(7)
    assert await broker.queues() == ["welcome"]


async def test_a_name_of_its_own(broker: Any) -> None:
    await broker.task(name="users.welcome", queue="mail")(welcome).send(7)
    (delivery,) = await broker.queue("mail").claim()
    assert delivery.headers == {"task": "users.welcome"}


async def test_a_queue_with_settings_of_its_own(broker: Any) -> None:
    queue = broker.queue("mail", lease="7m", max_in_flight=3)
    task = broker.task(queue=queue)(welcome)
    await task.send(7)
    assert getattr(task, "inner", task)._queue._core.lease == 420_000
    assert (await queue.settings()).max_in_flight == 3


async def test_options_are_those_of_send(broker: Any, clock: Clock) -> None:
    task = broker.task(queue="mail")(welcome).options(
        id="m", delay="1h", ttl="2h", priority=9, headers={"tenant": "a"}, on_duplicate="raise"
    )
    assert await task.send(7) == "m"
    assert await broker.queue("mail").claim() == []
    clock.advance("1h")
    (delivery,) = await broker.queue("mail").claim()
    assert (delivery.id, delivery.priority) == ("m", 9)
    assert delivery.headers == {"task": "welcome", "tenant": "a"}
    assert delivery.expires_at - delivery.enqueued_at == timedelta(hours=2)


async def test_options_are_merged_and_the_later_one_wins(broker: Any, clock: Clock) -> None:
    task = broker.task(queue="mail")(welcome).options(delay="1h", priority=2, headers={"tenant": "a"})
    await task.options(priority=9, id="late").send(7)
    assert await broker.queue("mail").claim() == []
    await task.options(delay=None, headers=None).send(8)
    (delivery,) = await broker.queue("mail").claim()
    assert (delivery.priority, delivery.headers) == (2, {"task": "welcome"})
    clock.advance("1h")
    (delivery,) = await broker.queue("mail").claim()
    assert (delivery.id, delivery.priority) == ("late", 9)
    assert delivery.headers == {"task": "welcome", "tenant": "a"}


async def test_options_leave_the_task_as_it_was(broker: Any) -> None:
    task = broker.task(queue="mail")(welcome)
    task.options(delay="1h").options(id="x")
    await task.send(7)
    assert len(await broker.queue("mail").claim()) == 1


@pytest.mark.parametrize(
    ("function", "call", "said"),
    [
        (welcome, ((), {}), r"missing a required argument: 'user_id'; it was not sent"),
        (welcome, ((7, "de"), {}), "too many positional arguments"),
        (welcome, ((7,), {"language": "de"}), "unexpected keyword argument 'language'"),
        (
            welcome,
            (("7",), {}),
            r"do not fit .*Expected `int`, got `str` - at `\$\.user_id`; it was not sent",
        ),
        (welcome, ((7,), {"lang": None}), r"Expected `str`, got `null` - at `\$\.lang`"),
        (welcome, ((object(),), {}), "object is not supported; send JSON values, bytes, a dataclass"),
        (positive, ((-1,), {}), r"Expected `int` >= 1 - at `\$\.n`"),
        (everything, ((1, 2.5, "x"), {}), r"Expected `float`, got `str` - at `\$\.others\[1\]`"),
        (everything, ((1,), {"colour": "red"}), r"Expected `array`, got `str` - at `\$\.more"),
        (everything, ((1,), {"user": {"id": 1}}), "missing required field `since`"),
        (with_delivery, ((7,), {"delivery": 1}), "unexpected keyword argument 'delivery'"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_where_they_are_sent(
    function: Callable[..., Any], call: Any, said: str, broker: Any, raw: Any
) -> None:
    task = broker.task(function)
    args, kwargs = call
    with pytest.raises(InvalidMessage, match=said) as raised:
        await task.send(*args, **kwargs)
    if "supported" not in said:
        assert f"{function.__name__}(" in str(raised.value)
    assert raw.keys("rq:*") == []


async def test_the_error_shows_the_signature_that_is_sent(broker: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"with_delivery\(user_id: int, times: int = 1\) cannot"):
        await broker.task(with_delivery).send()


async def test_a_header_of_the_task_s_own_is_refused(broker: Any) -> None:
    with pytest.raises(InvalidInput, match="without 'task', the task's name"):
        broker.task(welcome).options(headers={"task": "other"})


async def test_a_message_that_is_too_large_says_so(broker: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"over the limit of 1,048,576"):
        await broker.task(welcome).send(7, lang="x" * 1_100_000)


def test_a_task_is_its_function(sync_broker: Broker) -> None:
    task = sync_broker.task(queue="mail")(welcome)
    assert task(7, lang="de") == "7 de"
    assert (task.name, task.__doc__) == ("welcome", "Welcome a user.")
    assert repr(task).startswith("<Task 'welcome' of <Queue 'mail' at")


async def counting(n: int) -> AsyncIterator[int]:
    for number in range(n):
        yield number


class Mailer:
    """Methods, of which only the last can be a task."""

    @classmethod
    def of_class(cls, n: int) -> None: ...

    def of_object(self, n: int) -> None: ...

    @staticmethod
    def of_none(n: int) -> int:
        return n


REFUSED: dict[str, tuple[Callable[[Broker], Any], str]] = {
    "no function": (lambda broker: broker.task(5), "5 cannot be a task: decorate a function"),  # type: ignore[call-overload]
    "a class": (lambda broker: broker.task(User), "cannot be a task: decorate a function"),
    "a class method": (lambda broker: broker.task(vars(Mailer)["of_class"]), "use a staticmethod"),
    "a method": (lambda broker: broker.task(Mailer.of_object), "no self or cls: use a staticmethod"),
    "a generator": (lambda broker: broker.task(counting), "cannot be a task: remove the `yield`"),
    "a lambda": (lambda broker: broker.task(lambda: 1), r"'<lambda>' cannot name a task: pass name='…'"),
    "no name": (lambda broker: broker.task(name="")(welcome), "'' cannot name a task"),
    "twice": (lambda broker: [broker.task(welcome) for _ in "ab"], "already has a task 'welcome': pass name"),
    "both colours": (lambda broker: [broker.task(queue="a")(one) for one in (welcome, meanwhile)],
        "must be all `def` or all `async def`: give 'meanwhile' another queue"),
    "two timeouts": (lambda broker: [
        broker.task(queue="a", name=name, timeout=name)(welcome) for name in ("1s", "2s")
    ], "queue 'a' share one timeout, which another task has already set: leave it out here"),
    "two concurrencies": (lambda broker: [
        broker.task(queue="a", name=str(n), concurrency=n)(welcome) for n in (1, 2)
    ], "share one concurrency"),
    "concurrency": (lambda broker: broker.task(concurrency=0)(welcome), "concurrency 0: use a whole number"),
    "two leases": (lambda broker: [
        broker.task(queue=broker.queue("a", lease=lease), name=lease)(welcome) for lease in ("1m", "2m")
    ], "two tasks of queue 'a' pass queue objects with different settings: make one queue object"),
    "two policies": (lambda broker: [
        broker.task(queue=broker.queue("a", max_in_flight=n), name=str(n))(welcome) for n in (1, 2)
    ], "different settings"),
    "a handler's queue": (lambda broker: [
        broker.queue("a").handler(print), broker.task(queue="a")(welcome)
    ], "queue 'a' already has a handler: give task 'welcome' another queue"),
    "a task's queue": (lambda broker: [
        broker.task(queue="a")(welcome), broker.queue("a").handler(print)
    ], "queue 'a' already has a handler"),
}  # fmt: skip


async def test_static_and_bound_methods_are_tasks(broker: Any) -> None:
    for method in (vars(Mailer)["of_none"], Mailer.of_none, Mailer().of_object):
        task = broker.task(queue=f"q{id(method)}")(method)
        assert await task.send(1)


async def meanwhile() -> None:
    """A task of the other colour."""


@each_row_afresh("what", REFUSED)
def test_what_cannot_be_a_task_is_refused(what: str) -> None:
    make, said = REFUSED[what]
    with pytest.raises(ConfigurationError, match=said):
        make(Broker("redis://localhost"))


def test_what_one_task_says_of_its_queue_holds_for_the_others(sync_broker: Broker) -> None:
    sync_broker.task(queue="a")(welcome)
    sync_broker.task(queue="a", concurrency=8, timeout="1m")(positive)
    sync_broker.task(queue="a", timeout=60)(everything)
    (handler,) = sync_broker._handlers
    assert (handler.concurrency, handler.timeout) == (8, 60)


@pytest.mark.parametrize("last", [False, True])
def test_a_queue_object_gives_its_settings_to_the_tasks_that_name_it(last: bool, sync_broker: Broker) -> None:
    queue = sync_broker.queue("a", lease="7m", max_in_flight=3)
    given: list[Any] = ["a", queue, queue] if last else [queue, "a", queue]
    for number, one in enumerate(given):
        sync_broker.task(queue=one, name=str(number))(welcome)
    (handler,) = sync_broker._handlers
    assert (handler.queue._core.lease, handler.queue._core.given) == (420_000, {"max_in_flight": 3})


async def test_many_calls_are_sent_together(broker: Any) -> None:
    """As fast as `send_many` of a queue: a thousand per round trip."""
    task = broker.task(queue="mail", key=lambda user_id, **_: f"user-{user_id}")(welcome)
    sent = await task.options(priority=7).send_many(
        [(1,), {"user_id": 2, "lang": "de"}, *((n,) for n in range(3, 900))]
    )
    assert len(sent) == 899
    assert all(one.new for one in sent)
    first, second, *_ = await broker.queue("mail").claim(3)
    assert [first.id, second.id] == sent[:2]
    assert (first.body, second.body) == ({"user_id": 1}, {"user_id": 2, "lang": "de"})
    assert (first.headers["task"], first.priority, second.key) == ("welcome", 7, "user-2")
    (one,) = await task.options(key="all").send_many([(1,)])
    assert one.new
    assert await broker.queue("mail").select(key="all").count() == 1


async def test_of_many_calls_one_does_not_fit(broker: Any) -> None:
    task = broker.task(queue="mail")(welcome)
    with pytest.raises(InvalidMessage, match="it was not sent") as error:
        await task.send_many([*((n,) for n in range(5_000)), ("x",)])
    (note, _) = error.value.__notes__
    count = int(note.split()[0].replace(",", ""))
    assert count == (await broker.queue("mail").stats()).ready > 0
    with pytest.raises(InvalidInput, match=r"7 is not a call.*\(7,\)"):
        await task.send_many([7])
    with pytest.raises(InvalidInput, match="is not a list of calls"):
        await task.send_many("x")
    with pytest.raises(InvalidInput, match="belongs to one call"):
        await task.options(id="m").send_many([(7,)])
