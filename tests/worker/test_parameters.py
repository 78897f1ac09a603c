"""What a handler's parameters take: the body, the delivery, or an option that nobody gives here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

import rq_dlq.asyncio
from rq_dlq import ConfigurationError, Delivery
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq import Delivery as LaterDelivery

seen: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def option(body: Any, dry_run: bool = False) -> None:
    seen.append((body, dry_run))


async def async_option(body: Any, dry_run: bool = False) -> None:
    seen.append((body, dry_run))


def by_name(body: Any, delivery: Any = None) -> None:
    seen.append((body, type(delivery)))


def by_annotation(body: Any, it: Delivery[Any] | None = None) -> None:
    seen.append((body, type(it)))


def for_checkers(body: Any, it: LaterDelivery[Any] | None = None) -> None:
    seen.append((body, type(it)))


def without_default(body: Any, it: Any) -> None:
    seen.append((body, type(it)))


class Methods:
    """A method is called as a function is."""

    def option(self, body: Any, dry_run: bool = False) -> None:
        seen.append((body, dry_run))


def run(broker: rq_dlq.Broker, function: Callable[..., Any]) -> list[Any]:
    queue = broker.queue("a")
    queue.handler(function)
    queue.send("x")
    broker.run(burst=True)
    return seen


@functools.wraps(option)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return option(*args, **kwargs)


@pytest.mark.parametrize("function", [
    option, async_option, Methods().option, functools.partial(option), wrapped,
])  # fmt: skip
def test_an_option_with_a_default_is_not_the_delivery(function: Any, broker: rq_dlq.Broker) -> None:
    assert run(broker, function) == [("x", False)]


@pytest.mark.parametrize("function", [by_name, by_annotation, for_checkers, without_default])
def test_the_delivery_is_known_by_name_annotation_or_place(function: Any, broker: rq_dlq.Broker) -> None:
    assert run(broker, function) == [("x", Delivery)]


def wrapper(*args: Any, **kwargs: Any) -> Any:
    """What a decorator without functools.wraps returns."""
    return option(*args, **kwargs)


async def async_wrapper(*args: Any) -> Any:
    return option(*args)


def rest(body: Any, *others: Any) -> None:
    seen.append((body, others))


@each_row("function", [wrapper, async_wrapper, rest, functools.partial(wrapper)])
def test_a_function_that_does_not_show_what_it_takes_is_refused(function: Any, broker: rq_dlq.Broker) -> None:
    with pytest.raises(
        ConfigurationError, match=r"write out its parameters, .* functools\.wraps\(function\)"
    ):
        broker.queue("a").handler(function)


def test_an_object_that_takes_anything_gets_both(broker: rq_dlq.Broker) -> None:
    handler = Mock(return_value=None)
    run(broker, handler)
    assert [type(one) for one in handler.call_args.args] == [str, Delivery]


def reversed_places(delivery: Delivery[Any], body: Any) -> None: ...


def alone(it: Delivery[Any]) -> None: ...


def of_asyncio(it: rq_dlq.asyncio.Delivery[Any], body: Any) -> None: ...


@each_row("function", [reversed_places, alone, of_asyncio])
def test_the_delivery_in_the_first_place_is_refused(function: Any, broker: rq_dlq.Broker) -> None:
    with pytest.raises(ConfigurationError, match="the delivery is the second parameter, after the body"):
        broker.queue("a").handler(function)
