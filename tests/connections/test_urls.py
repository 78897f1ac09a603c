"""One URL says where Redis is."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest
import redis
import redis.asyncio

import rq_dlq
import rq_dlq.asyncio
from rq_dlq._redis.pools import AWAITING, BLOCKING, SOCKET_TIMEOUT, Colour, pool_at, pool_of
from rq_dlq.errors import ConfigurationError, InvalidName
from tests.tables import each_row

COLOURS = each_row("colour", [BLOCKING, AWAITING])


def settings(url: str, colour: Colour) -> dict[str, Any]:
    """What connections are made with, but for what they have in common."""
    pool = pool_of(url, colour)
    ours = {
        "socket_timeout", "socket_connect_timeout", "protocol", "health_check_interval", "decode_responses",
        "retry", "retry_on_error", "connection_pool",
    }  # fmt: skip
    return {name: value for name, value in pool.connection_kwargs.items() if name in _SAID - ours}


_SAID = {
    "host",
    "port",
    "db",
    "path",
    "username",
    "password",
    "ssl_ca_certs",
    "ssl_check_hostname",
    "client_name",
}


@COLOURS
@each_row(
    ("url", "said"),
    [
        ("redis://localhost", {"host": "localhost"}),
        ("redis://h:7/3", {"host": "h", "port": 7, "db": 3}),
        ("redis://me:p%40ss%3Aw%2Fo@h", {"host": "h", "username": "me", "password": "p@ss:w/o"}),
        ("redis://:secret@h?client_name=x", {"host": "h", "password": "secret", "client_name": "x"}),
        ("rediss://h?ssl_ca_certs=/ca.pem&ssl_check_hostname=false",
         {"host": "h", "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}),
        ("valkey://me:x@h:7/3", {"host": "h", "port": 7, "db": 3, "username": "me", "password": "x"}),
        ("valkeys://h?ssl_ca_certs=/ca.pem", {"host": "h", "ssl_ca_certs": "/ca.pem"}),
        ("unix:///tmp/r.sock?db=2", {"path": "/tmp/r.sock", "db": 2}),  # noqa: S108
        ("unix://me:secret@/tmp/r.sock", {"path": "/tmp/r.sock", "username": "me", "password": "secret"}),  # noqa: S108
    ],
)  # fmt: skip
def test_what_a_url_says(url: str, said: dict[str, Any], colour: Colour) -> None:
    assert settings(url, colour) == said


@COLOURS
@each_row(("scheme", "tls"), [("valkey", False), ("valkeys", True)])
def test_valkey_s_schemes_are_those_of_redis(scheme: str, tls: bool, colour: Colour) -> None:
    rq_dlq.Broker(f"{scheme}://h").close()
    assert pool_of(f"{scheme}+sentinel://one/orders", colour).service_name == "orders"
    kind = pool_of(f"{scheme}://h", colour).connection_class
    assert issubclass(kind, colour.connection.SSLConnection) is tls


@COLOURS
@each_row("account", ["", "me:s3cret@"])
@each_row(
    ("said", "why"),
    [
        ("ssl_cert_reqs=CERT_NONE", "(ssl_cert_reqs must be none, optional or required)"),
        ("socket_timeout=abc", "(socket_timeout must be seconds, from 0.001 to a day)"),
        ("db=x", "(db must be 0 or more)"),
        ("pwd=s3cret", "pwd=***' is not a Redis URL (connections do not accept one of its parameters)"),
    ],
)
def test_the_parameter_is_blamed_and_not_the_password(
    said: str, why: str, account: str, colour: Colour
) -> None:
    with pytest.raises(ConfigurationError) as told:
        pool_of(f"rediss://{account}h/0?{said}", colour)
    assert why in str(told.value)
    assert "s3cret" not in str(told.value)


@each_row("given", ["", " ", "\n"])
@each_row("by", ["the program", "RQ_DLQ_URL"])
@each_row("kind", [rq_dlq.Broker, rq_dlq.asyncio.Broker])
def test_an_empty_url_is_a_mistake(given: str, by: str, kind: Any) -> None:
    """A secret that was not filled in: each pod would have a private server."""
    with pytest.MonkeyPatch.context() as patch:
        if by == "RQ_DLQ_URL":
            patch.setenv(by, given)
        with pytest.raises(
            ConfigurationError, match="empty: set it to redis://host:6379/0, or leave it unset"
        ):
            _ = kind(*([given] if by == "the program" else [])).url


def test_an_empty_namespace_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_DLQ_NAMESPACE", "")
    with pytest.raises(InvalidName, match="a namespace's name must be text of at least one character"):
        rq_dlq.Broker("redis://h")


@COLOURS
def test_a_connection_does_not_look_up_the_version_of_redis_py(
    monkeypatch: pytest.MonkeyPatch, colour: Colour
) -> None:
    monkeypatch.setattr(metadata, "version", None)
    pool_of("redis://one", colour).make_connection()


@COLOURS
def test_through_sentinels(colour: Colour) -> None:
    url = (
        "redis+sentinel://me:p%40ss@one,two:1,[::1]:2/orders/3"
        "?sentinel_username=watch&sentinel_password=dog&client_name=x"
    )
    pool = pool_of(url, colour)
    assert pool.service_name == "orders"
    assert settings(url, colour) == {"db": 3, "username": "me", "password": "p@ss", "client_name": "x"}
    sentinels = [client.connection_pool.connection_kwargs for client in pool.sentinel_manager.sentinels]
    assert [(each["host"], each["port"]) for each in sentinels] == [("one", 26_379), ("two", 1), ("::1", 2)]
    assert {(each["username"], each["password"]) for each in sentinels} == {("watch", "dog")}


@COLOURS
def test_through_sentinels_with_tls(colour: Colour) -> None:
    """Both the sentinels and the servers, in the same way."""
    pool = pool_of("rediss+sentinel://one/orders?ssl_ca_certs=/ca.pem", colour)
    (sentinel,) = pool.sentinel_manager.sentinels
    for one in (pool, sentinel.connection_pool):
        assert issubclass(one.connection_class, colour.connection.SSLConnection)
        assert one.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
    assert sentinel.connection_pool.connection_kwargs["password"] is None


@COLOURS
def test_nothing_is_tried_twice_without_our_knowledge(colour: Colour) -> None:
    pool = pool_of("redis+sentinel://one/orders?retry_on_timeout=yes&retry_on_error=x", colour)
    for one in (pool, pool.sentinel_manager.sentinels[0].connection_pool):
        assert one.connection_kwargs["retry"]._retries == 0


@COLOURS
@each_row(("said", "meant"), [("", SOCKET_TIMEOUT), ("?socket_timeout=9", 9), ("?socket_timeout=0.1", 2)])
def test_what_blocks_on_purpose_is_no_dead_server(said: str, meant: float, colour: Colour) -> None:
    assert pool_of(f"redis://h{said}", colour).connection_kwargs["socket_timeout"] == meant


@COLOURS
@each_row(
    "url",
    [
        "http://h", "h:6379", "", "redis://h:port", "redis://h:99999", "redis://h?db=x", "redis://h?nonsense=1",
        "redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel:///orders", "redis+sentinel://h:x/orders",
        "redis+sentinel://h/orders?nonsense=1", "unix+sentinel://h/orders", "sentinel://h/orders",
    ],
)  # fmt: skip
def test_urls_that_say_nothing(url: str, colour: Colour) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a Redis URL.*redis\+sentinel://host1"):
        pool_of(url, colour)


@COLOURS
@each_row(
    "url",
    [
        "redis://h/abc", "redis://h/1/0", "rediss://h/-1", "redis://h//1", "redis://h/+1", "redis://h/%31",
        "redis+sentinel://h/orders/abc", "redis+sentinel://h/orders/1/0", "redis://me:secret@h/abc",
    ],
)  # fmt: skip
def test_a_database_is_a_number(url: str, colour: Colour) -> None:
    """redis-py reads the first as 0, and the second as 10."""
    with pytest.raises(ConfigurationError, match=r"the number of a database") as told:
        pool_of(url, colour)
    assert "secret" not in str(told.value)


@COLOURS
@each_row("host", ["a..b", ".redis.svc", "a" * 64, "\udcff"])
@each_row("url", ["redis://{}", "rediss://me:secret@{}:1/0", "redis+sentinel://h,{}:1/orders"])
def test_a_host_that_cannot_be_looked_up(url: str, host: str, colour: Colour) -> None:
    """As where a variable in its name was empty."""
    with pytest.raises(ConfigurationError, match="in its host a part between dots is empty") as told:
        pool_of(url.format(host), colour)
    assert "secret" not in str(told.value)


@COLOURS
@each_row("scheme", ["redis", "rediss", "redis+sentinel", "unix"])
@each_row("password", ["12{}34", "12/{}34", "se{}cret", "se{}", "{}cret", "a{}b=c&d"])
@each_row(("mark", "encoded"), [("?", "%3F"), ("#", "%23"), ("/", "%2F")])
def test_a_mark_in_a_password_does_not_end_it(
    mark: str, encoded: str, password: str, scheme: str, colour: Colour
) -> None:
    """redis-py would connect to port 12, without a password."""
    host = "/r.sock" if scheme == "unix" else "h/orders" if "+" in scheme else "h"
    account = f":{password.format(mark)}@"
    with pytest.raises(ConfigurationError, match="is not a Redis URL") as told:
        pool_of(f"{scheme}://{account}{host}", colour)
    assert encoded in str(told.value)
    assert not any(part in str(told.value) for part in ("34", "cret", "c&d"))
    quoted = password.replace("/", "%2F").format(encoded)
    kept = settings(f"{scheme}://:{quoted}@{host}", colour)["password"]
    assert kept == password.format(mark)


@COLOURS
@each_row("url", ["redis://h/0#x", "redis://h#", "unix:///r#1.sock", "redis://h?client_name=a#b"])
def test_nothing_is_dropped_in_silence(url: str, colour: Colour) -> None:
    with pytest.raises(ConfigurationError, match="write # as %23"):
        pool_of(url, colour)


@COLOURS
@each_row("url", ["redis://h?client_name=a@b", "redis://h/2?db=2&client_name=a?b@c", "unix:///a@b.sock"])
def test_an_at_elsewhere_is_no_password(url: str, colour: Colour) -> None:
    pool_of(url, colour)


@COLOURS
@each_row(
    ("url", "database"),
    [
        ("redis://h", None), ("redis://h/", None), ("redis://h/2", 2), ("redis://h/2/", 2),
        ("redis+sentinel://h/orders/", None), ("redis+sentinel://h/orders/2/", 2),
    ],
)  # fmt: skip
def test_databases(url: str, database: int | None, colour: Colour) -> None:
    assert pool_of(url, colour).connection_kwargs.get("db") == database


@COLOURS
@each_row(
    ("said", "allowed"),
    [
        ("socket_timeout=nan", "socket_timeout must be seconds, from 0.001 to a day"),
        ("socket_timeout=inf", "socket_timeout must be"),
        ("socket_timeout=1e30", "socket_timeout must be"),
        ("socket_timeout=-1", "socket_timeout must be"),
        ("socket_connect_timeout=nan", "socket_connect_timeout must be seconds, from 0.001 to a day"),
        ("socket_connect_timeout=inf", "socket_connect_timeout must be"),
        ("socket_connect_timeout=-1", "socket_connect_timeout must be"),
        ("socket_connect_timeout=0", "socket_connect_timeout must be"),
        ("health_check_interval=-1", "health_check_interval must be seconds, from 0"),
        ("protocol=9", "protocol must be 2 or 3"),
        ("protocol=two", "protocol"),
        ("max_connections=0", "max_connections must be 1 or more"),
        ("max_connections=-1", "max_connections must be 1 or more"),
        ("socket_read_size=0", "socket_read_size must be bytes, 1 or more"),
        ("db=-1", "db must be 0 or more"),
        ("socket_type=1", "socket_type cannot be in a URL"),
        ("socket_keepalive_options=x", "socket_keepalive_options cannot be in a URL"),
        ("parser_class=x", "parser_class cannot be in a URL"),
        ("redis_connect_func=x", "redis_connect_func cannot be in a URL"),
        ("credential_provider=x", "credential_provider cannot be in a URL"),
    ],
)
@each_row("url", ["redis://h/0", "redis+sentinel://h/orders"])
def test_options_that_no_connection_can_use(url: str, said: str, allowed: str, colour: Colour) -> None:
    with pytest.raises(ConfigurationError, match="is not a Redis URL") as told:
        pool_of(f"{url}?{said}", colour)
    assert allowed in str(told.value)


@COLOURS
def test_what_is_allowed_is_told_beside_a_password(colour: Colour) -> None:
    with pytest.raises(ConfigurationError, match="protocol must be 2 or 3") as told:
        pool_of("redis://:secret@h?protocol=9", colour)
    assert "secret" not in str(told.value)


@COLOURS
def test_another_node_is_reached_in_the_same_way(colour: Colour) -> None:
    url = "rediss://me:secret@one:7?ssl_ca_certs=/ca.pem&client_name=x"
    first = pool_of(url, colour)
    other = pool_at(first, "two", 8, colour)
    assert other.connection_class is first.connection_class
    assert other.connection_kwargs == {**first.connection_kwargs, "host": "two", "port": 8}
    assert first.connection_kwargs["host"] == "one"


def test_another_node_than_that_of_a_socket() -> None:
    for colour, plain in ((BLOCKING, redis.Connection), (AWAITING, redis.asyncio.Connection)):
        pool = pool_at(pool_of("unix://me:secret@/r.sock", colour), "two", 8, colour)
        assert pool.connection_class is plain
        assert pool.connection_kwargs["username"] == "me"
        assert "path" not in pool.connection_kwargs
