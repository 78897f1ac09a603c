"""Every way to come by a broker: by a URL, or by a pool of redis-py's, as people make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff
from redis.retry import Retry

import rq_dlq
import rq_dlq.asyncio
from tests.servers import Server


class Address(Protocol):
    """Where a server is, or what stands before it."""

    @property
    def url(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def socket(self) -> str: ...


class Direct:
    """The address of a server itself."""

    def __init__(self, server: Server) -> None:
        self.port, self.socket = server.port, server.socket
        self.url = f"redis://127.0.0.1:{server.port}/0"


Colour = Literal["blocking", "awaiting"]
Way = Callable[[Address], Any]
TIMEOUT = 0.3  # seconds that a client waits for a reply
DECODES_ALWAYS = ("5.0.0", "5.0.1", "5.0.2", "5.0.3")  # in asyncio: a pool that decodes is refused there


def ways(colour: Colour) -> dict[str, Way]:
    """Every way, by what people write."""
    broker: Any = rq_dlq.Broker if colour == "blocking" else rq_dlq.asyncio.Broker
    made = pools(redis, Retry) if colour == "blocking" else pools(redis.asyncio, AsyncRetry)
    if colour == "awaiting" and redis.__version__ in DECODES_ALWAYS:
        del made["from_url, decoding"]

    def by_pool(pool: Callable[[Address], Any]) -> Way:
        return lambda address: broker(pool=pool(address))

    return {
        "redis://": lambda address: broker(f"{address.url}?socket_timeout={TIMEOUT}"),
        "unix://": lambda address: broker(f"unix://{address.socket}?socket_timeout={TIMEOUT}"),
        **{name: by_pool(pool) for name, pool in made.items()},
    }


def pools(module: Any, retry: Any) -> dict[str, Callable[[Address], Any]]:
    """Pools of redis-py's.

    Args:
        module: its blocking or its awaiting one.
        retry: its own retries, of the same colour.
    """
    brief = {"socket_timeout": TIMEOUT}

    def at(address: Address, **more: Any) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": address.port, **brief, **more}

    def from_url(address: Address, **more: Any) -> Any:
        return module.Redis.from_url(address.url, **brief, **more).connection_pool

    def of_a_socket(address: Address) -> Any:
        kind = module.UnixDomainSocketConnection
        return module.ConnectionPool(connection_class=kind, path=address.socket, **brief)

    again = {"retry": retry(ConstantBackoff(0.001), 5), "retry_on_error": [redis.ConnectionError]}
    return {
        "Redis()": lambda address: module.Redis(**at(address)).connection_pool,
        "Redis(), no timeout": lambda address: (
            module.Redis(**at(address, socket_timeout=None)).connection_pool
        ),
        "from_url": from_url,
        "from_url, retries": lambda address: from_url(address, retry_on_timeout=True, **again),
        "from_url, RESP3": lambda address: from_url(address, protocol=3),
        "from_url, decoding": lambda address: from_url(address, decode_responses=True),
        "ConnectionPool": lambda address: module.ConnectionPool(**at(address)),
        "ConnectionPool of a socket": of_a_socket,
        "BlockingConnectionPool": lambda address: module.BlockingConnectionPool(
            **at(address, max_connections=2, timeout=30)
        ),
    }
