"""Makes redis-py's connection pools from a URL, for both colours.

redis://user:password@host:port/db, rediss://… (TLS, with redis-py's options as parameters),
unix://user:password@/path?db=0, and through Sentinel
redis+sentinel://user:password@host1,host2:26379/MASTER/db. valkey:// and valkeys:// mean the same as redis://
and rediss://.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - Python encodes host names with it
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis.asyncio.connection
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.connection
import redis.retry
import redis.sentinel
from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError as AsyncMasterNotFoundError
from redis.backoff import NoBackoff
from redis.sentinel import MasterNotFoundError

from rq_dlq._redis.urls import as_redis, check_host, check_marks, check_options, check_path, readable
from rq_dlq.core.steps.step import MAX_BLOCK

_DRIVER: dict[str, Any] = {}
with suppress(ImportError):  # redis-py 7.2 and later would read its own version from disk for each connection
    from redis.driver_info import DriverInfo

    _DRIVER["driver_info"] = DriverInfo()

# Do its lazy imports now: a child that is forked during an import would inherit the import lock.
resources.files("rq_dlq")  # for the Lua files

SOCKET_TIMEOUT = 5.0  # seconds
CONNECT_TIMEOUT = 2.0
HASTY = 1.0  # the timeout for the last calls of a program, seconds
NO_LIMIT = 1 << 20  # connections: a worker uses one for each thread; redis-py 8 has a limit of 100
SHORTEST_TIMEOUT = 2 * MAX_BLOCK / 1000  # a server in a blocking call must not look dead
SENTINEL_PORT = 26_379
SENTINEL_TIMEOUT = 1.0  # seconds until the next sentinel is asked


class _Sentinels(redis.sentinel.Sentinel):
    """The sentinels, which know the master. The errors are our own: redis-py 6 and 7 show passwords."""

    def discover_master(self, service_name: str) -> Any:
        """The master's host and port."""
        try:
            found: Any = super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except (MasterNotFoundError, exceptions.ResponseError) as error:
            raise _no_master(service_name, error) from None
        return found


class _AsyncSentinels(redis.asyncio.sentinel.Sentinel):
    """The same for asyncio."""

    async def discover_master(self, service_name: str) -> Any:
        """The master's host and port."""
        try:
            found: Any = await super().discover_master(service_name)  # pyright: ignore[reportUnknownVariableType]
        except (AsyncMasterNotFoundError, exceptions.ResponseError) as error:
            raise _no_master(service_name, error) from None
        return found


# READONLY remains a refusal. redis-py would turn it into a connection error: then it is unknown whether the
# command was carried out.
class _Connection(redis.sentinel.SentinelManagedConnection):
    read_response: Any = redis.Connection.read_response


class _TlsConnection(redis.sentinel.SentinelManagedSSLConnection):
    read_response: Any = redis.Connection.read_response


class _AsyncConnection(redis.asyncio.sentinel.SentinelManagedConnection):
    read_response: Any = redis.asyncio.Connection.read_response


class _AsyncTlsConnection(redis.asyncio.sentinel.SentinelManagedSSLConnection):
    read_response: Any = redis.asyncio.Connection.read_response


def _no_master(name: str, error: Exception) -> Exception:
    message = f"no sentinel knows a healthy master {name!r}"
    if re.search("NOAUTH|WRONGPASS|NOPERM|[Aa]uthentication", str(error)):
        message += ", because rights are missing: put sentinel_username and sentinel_password into the URL"
    return exceptions.ConnectionError(message)


@dataclass(frozen=True, slots=True)
class Colour:
    """The parts of redis-py that exist in both colours. The last field: classes without and with TLS."""

    connection: Any
    retry: Any
    sentinels: Any
    pool_behind: Any
    connections_behind: Any


BLOCKING = Colour(
    redis.connection,
    redis.retry.Retry,
    _Sentinels,
    redis.sentinel.SentinelConnectionPool,
    (_Connection, _TlsConnection),
)
AWAITING = Colour(
    redis.asyncio.connection,
    redis.asyncio.retry.Retry,
    _AsyncSentinels,
    redis.asyncio.sentinel.SentinelConnectionPool,
    (_AsyncConnection, _AsyncTlsConnection),
)


def pool_of(url: str, colour: Colour) -> Any:
    """A connection pool for the server, or the master of the sentinels, in a URL.

    Raises:
        ConfigurationError: the URL cannot be read.
    """
    with readable(url):
        url = as_redis(url)
        check_marks(url)
        scheme, sentinel, rest = url.partition("+sentinel://")
        if sentinel:
            return _behind_sentinels(scheme, rest, colour)
        return _checked(colour.connection.ConnectionPool(**_settings(url, colour)))


def pool_at(pool: Any, host: str, port: int, colour: Colour) -> Any:
    """A connection pool for another node, with the settings of this pool, such as user and TLS."""
    kind, settings = pool.connection_class, {**pool.connection_kwargs, "host": host, "port": port}
    if settings.pop("path", None) is not None:
        kind = colour.connection.Connection
    return colour.connection.ConnectionPool(
        connection_class=kind, max_connections=pool.max_connections, **settings
    )


def hasty(pool: Any, colour: Colour) -> Any:
    """A connection pool for the same server with a timeout of a second, for any number of connections."""
    settings = {**pool.connection_kwargs, "socket_timeout": HASTY, "socket_connect_timeout": HASTY}
    return colour.connection.ConnectionPool(
        connection_class=pool.connection_class, max_connections=NO_LIMIT, **settings
    )


def pools_of(pool: Any) -> list[Any]:
    """A pool, and the pools of its sentinels."""
    sentinels = pool.sentinel_manager.sentinels if hasattr(pool, "sentinel_manager") else ()
    return [pool, *(sentinel.connection_pool for sentinel in sentinels)]


def _settings(url: str, colour: Colour) -> dict[str, Any]:
    """Settings for redis-py's pools: our defaults, overridden by the URL."""
    given = colour.connection.parse_url(url)
    check_path(url)
    check_host(given.get("host", ""))
    check_options(given)
    return {
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "protocol": 2,
        "health_check_interval": 0,
        "max_connections": NO_LIMIT,
        **_DRIVER,
        **given,
        "socket_timeout": max(given.get("socket_timeout", SOCKET_TIMEOUT), SHORTEST_TIMEOUT),
        "decode_responses": False,
        "retry": colour.retry(NoBackoff(), 0),
        "retry_on_error": [],
    }


def _behind_sentinels(scheme: str, rest: str, colour: Colour) -> Any:
    netloc = rest.partition("?")[0].partition("/")[0]  # urlsplit rejects a list of hosts with brackets
    account, at, hosts = netloc.rpartition("@")
    parts = urlsplit(f"{scheme}://sentinel{rest.removeprefix(netloc)}")
    master, _, db = parts.path.strip("/").partition("/")
    if scheme not in {"redis", "rediss"} or not master or not hosts:
        raise ValueError("name the sentinels and the master")
    plain = urlunsplit((scheme, f"{account}{at}sentinel", f"/{db}", parts.query, ""))
    settings = _settings(plain, colour)
    tls = settings.pop("connection_class", None) is not None
    own = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    for name in ("username", "password"):
        own[name] = settings.pop(f"sentinel_{name}", None)
    own |= {"ssl": tls, "socket_timeout": SENTINEL_TIMEOUT, "socket_connect_timeout": SENTINEL_TIMEOUT}
    own |= {"retry": settings["retry"], "protocol": settings["protocol"]}
    del settings["host"]
    addresses = [_address(host) for host in hosts.split(",")]
    sentinels = colour.sentinels(addresses, sentinel_kwargs=own)
    settings["connection_class"] = colour.connections_behind[tls]
    return _checked(colour.pool_behind(master, sentinels, **settings))


def _address(host: str) -> tuple[str, int]:
    parts = urlsplit(f"//{host}")
    return check_host(parts.hostname or "localhost"), parts.port or SENTINEL_PORT


def _checked(pool: Any) -> Any:
    """The pool, if connections accept its settings; redis-py raises TypeError for an unknown parameter."""
    try:
        pool.connection_class(**pool.connection_kwargs)
    except exceptions.RedisError as error:
        raise ValueError(str(error)) from None
    return pool
