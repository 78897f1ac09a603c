"""Which errors count against a dependency: by class or name, with what is behind them; and what did not."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

import pytest

from rq_dlq import Breaker, Poison, PolicyError, Redeliver
from rq_dlq.core.queues.blocked import Blocked
from rq_dlq.values.counted import Counted
from tests.tables import each_row

THREE = Breaker(distinct=3, errors=Breaker.UNREACHABLE)
REACHED = Counted.of(Breaker.UNREACHABLE)


def made(name: str, *bases: type) -> type[Exception]:
    """A stand-in for a client's class of errors, with this name."""
    module, _, own = name.rpartition(".")
    return type(own, bases or (Exception,), {"__module__": module})


RAISED = {
    "requests refused": made("requests.exceptions.ConnectionError", OSError),
    "requests slow": made("requests.exceptions.ReadTimeout", made("requests.exceptions.Timeout", OSError)),
    "httpx refused": made("httpx.ConnectError", made("httpx.NetworkError")),
    "httpx slow": made("httpx.ReadTimeout", made("httpx.TimeoutException")),
    "aiohttp refused": made(
        "aiohttp.client_exceptions.ClientConnectorError",
        made("aiohttp.client_exceptions.ClientConnectionError"),
    ),
    "aiohttp cut off": made("aiohttp.client_exceptions.ClientPayloadError"),
    "redis refused": made("redis.exceptions.ConnectionError"),
    "redis slow": made("redis.exceptions.TimeoutError"),
    "botocore refused": made(
        "botocore.exceptions.EndpointConnectionError", made("botocore.exceptions.ConnectionError")
    ),
    "botocore slow": made(
        "botocore.exceptions.ReadTimeoutError", made("botocore.exceptions.HTTPClientError")
    ),
    "grpc": made("grpc._channel._InactiveRpcError", made("grpc.RpcError")),
    "grpc.aio": made("grpc.aio._call.AioRpcError", made("grpc.RpcError")),
    "urllib3 gave up": made("urllib3.exceptions.MaxRetryError"),
    "urllib3 slow": made("urllib3.exceptions.ReadTimeoutError", made("urllib3.exceptions.TimeoutError")),
    "smtplib cut off": made("smtplib.SMTPServerDisconnected", OSError),
    "smtplib refused": made("smtplib.SMTPConnectError", OSError),
    "psycopg": made("psycopg.errors.AdminShutdown", made("psycopg.OperationalError")),
    "sqlalchemy": made("sqlalchemy.exc.OperationalError"),
    "name": made("socket.gaierror", OSError),
    "refused": ConnectionRefusedError,
    "slow": TimeoutError,
}


def after(error: BaseException, before: BaseException, *, hidden: bool = False) -> BaseException:
    """An error that was raised while another one was handled; hidden: `from None`."""
    error.__context__, error.__suppress_context__ = before, hidden
    return error


@each_row("name", RAISED)
def test_what_common_clients_raise_is_unreachable(name: str) -> None:
    assert REACHED.has(RAISED[name]("x"))


def test_causes_count() -> None:
    caused = LookupError()
    caused.__cause__ = TimeoutError()
    assert REACHED.has(caused)
    assert REACHED.has(after(LookupError(), TimeoutError()))
    assert REACHED.has(after(LookupError(), after(KeyError(), TimeoutError())))
    assert REACHED.has(ExceptionGroup("two", [KeyError(), ExceptionGroup("one", [TimeoutError()])]))
    assert REACHED.has(after(Redeliver(after="1s"), TimeoutError()))
    assert not REACHED.has(after(LookupError(), KeyError()))
    assert not REACHED.has(after(LookupError(), TimeoutError(), hidden=True)), "its author says: no cause"
    assert not REACHED.has(Poison("no"))


def test_what_does_not_count() -> None:
    for error in (KeyError("x"), OSError("disk full"), made("shop.ConnectionError")(), "a text", None):
        assert not REACHED.has(error)
    assert all(map(Counted().has, (KeyError("x"), "a text", None)))


def test_classes_and_names() -> None:
    """Base classes by their names; a module that was imported may have a class under another name."""
    mine = Counted.of((OSError, "shop.errors.Closed", "shop.Away"))
    base = made("shop.errors.Closed")
    assert mine.has(FileNotFoundError())
    assert mine.has(made("shop.errors.Tired", base)())
    away = made("shop._errors.Away")
    assert not mine.has(away())
    sys.modules["shop"] = ModuleType("shop")
    try:
        sys.modules["shop"].Away = away  # type: ignore[attr-defined]
        assert mine.has(away())
    finally:
        del sys.modules["shop"]


@each_row(
    "given", ["ConnectionError", ("ConectionError",), ("httpx.",), (b"OSError",), (OSError, 1), 7, ("int",)]
)
def test_what_is_no_error(given: Any) -> None:
    with pytest.raises(PolicyError, match=r"breaker\.errors is .* Breaker.UNREACHABLE"):
        Breaker(errors=given)


def test_a_generator_will_do() -> None:
    assert Breaker(errors=(one for one in Breaker.UNREACHABLE)).errors == Breaker.UNREACHABLE


async def fail(queue: Any, error: Any, count: int = 3, **how: Any) -> None:
    await queue.send_many(range(count), **how)
    for one in await queue.claim(count):
        await one.nack(error, delay="1h")


async def test_a_failure_by_name_opens_it(broker: Any) -> None:
    queue = broker.queue("a", breaker=THREE)
    await fail(queue, RAISED["requests refused"]("refused"), dependency="payments")
    assert (await queue.dependency("payments").stats()).open


async def test_what_did_not_count_is_logged_once_a_class(broker: Any, caplog: Any) -> None:
    """Only of messages with a dependency, since nothing is missed with the others."""
    caplog.set_level(logging.WARNING, "rq_dlq")
    queue = broker.queue("a", breaker=THREE)
    await fail(queue, KeyError("x"))
    assert caplog.messages == []
    for error in (KeyError("x"), KeyError("y"), "in words", made("shop.Closed")()):
        await fail(queue, error, dependency="payments")
    assert not (await queue.dependency("payments").stats()).open
    assert [
        one.partition(" did not count against payments, since Breaker(errors=...)")[0]
        for one in caplog.messages
    ] == [
        "a: KeyError",
        "a: an error in words",
        "a: shop.Closed",
    ]
    assert queue._core.client.blocked.uncounted == {"a": {"KeyError", "", "shop.Closed"}}


async def test_without_errors_nothing_is_left_out(broker: Any, caplog: Any) -> None:
    queue = broker.queue("a", breaker=Breaker(distinct=50))
    await fail(queue, KeyError("x"), dependency="payments")
    await queue.nack(await queue.claim(1), KeyError("x"))
    assert caplog.messages == []


def test_a_class_is_looked_at_twenty_times() -> None:
    """A failure of a message without a dependency costs a read, which is no price for all."""
    known = Blocked()
    assert [known.may_be_uncounted("a", "KeyError") for _ in range(22)] == [True] * 20 + [False] * 2
    assert known.may_be_uncounted("b", "KeyError")
    known.note_uncounted("b", "KeyError")
    assert not known.may_be_uncounted("b", "KeyError")
