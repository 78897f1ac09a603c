"""The part that only the awaiting colour has: its idle connections belong to an event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis import exceptions

from rq_dlq._redis.connection import LATE
from rq_dlq._redis.pools import pools_of
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator

VERSION = tuple(int(part) for part in redis.__version__.split(".")[:3] if part.isdigit())
T = TypeVar("T")
LAST_SECOND = 1.0
LOOK = 0.05  # seconds between two checks of a threading.Event
ALWAYS_DECODED = (5, 0, 4)  # older async connections decode replies if the pool has decode_responses
_OF_THE_PARENT: list[object] = []  # a forked child must not close these: it shares its parent's epoll


class Idle:
    """The idle connections, of one event loop at a time.

    Args:
        of_process: returns their pool; a forked child may have its own.

    Raises:
        ConfigurationError: with this version of redis-py the pool's connections decode replies.
    """

    def __init__(self, of_process: Callable[[], Any]) -> None:
        pool = of_process()
        if pool.connection_kwargs.get("decode_responses") and VERSION < ALWAYS_DECODED:
            message = (
                f"redis-py {redis.__version__} decodes replies with decode_responses: upgrade it, or pass "
                "another pool"
            )
            raise ConfigurationError(message)
        self._of_process, self._pool = of_process, pool
        self._all: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # of the connections; a forked child has another
        self._process = this_process()

    def add(self, connection: Any) -> None:
        """Add an idle connection."""
        self._all.append(connection)

    def take(self) -> Any:
        """Take an idle connection; None: none is idle."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._move_to(loop)
        return self._all.pop() if self._all else None

    def take_all(self) -> Iterator[Any]:
        """Take all idle connections, one by one."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._move_to(loop)
        while self._all:
            yield self._all.pop()

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drop the connections: they belong to another process, or to an event loop that has ended.

        Raises:
            ConfigurationError: their event loop is still running in another thread.
        """
        if self._loop is not None:
            forked = self._process != this_process()
            if not forked and self._loop.is_running():
                message = "another running event loop uses this broker: make a broker for each event loop"
                raise ConfigurationError(message)
            pools = pools_of(self._pool)
            if forked:
                _OF_THE_PARENT.append((self._all, *map(copy, pools)))
            self._all = []
            for pool in pools:
                pool.reset()
        self._loop, self._process, self._pool = loop, this_process(), self._of_process()


async def connected(pool: Any, arguments: tuple[str, ...]) -> Any:
    """A new connection of a pool.

    redis-py writes with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that arrives while
    the data is written. So a separate task connects.
    """
    connecting = asyncio.create_task(pool.get_connection(*arguments))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.cancel()
        await uninterrupted(_give_back(connecting, pool))
        raise


async def uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Await work that must not be interrupted on a connection; a cancellation is raised afterwards."""
    working, cancellation = asyncio.create_task(work), None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation
    working.result()


async def _give_back(connecting: asyncio.Task[Any], pool: Any) -> None:
    with suppress(Exception, asyncio.CancelledError):
        await pool.release(await connecting)


async def write(connection: Any, data: bytes, *, check_health: bool = True) -> None:
    """Send packed commands, with our own timeout; see `connected`."""
    usual = connection.socket_timeout
    connection.socket_timeout = None
    try:
        async with asyncio.timeout(usual):
            await connection.send_packed_command([data], check_health=check_health)
    except TimeoutError:
        raise exceptions.TimeoutError("Timeout writing to socket") from None
    finally:
        connection.socket_timeout = usual


async def disconnect(connection: Any) -> None:
    """Close a connection, without waiting for the server.

    With TLS, closing would wait for the server's last message, and the event loop may end before it arrives.
    The event loop closes the socket in its next iteration.
    """
    transport = getattr(getattr(connection, "_writer", None), "transport", None)  # fakeredis has none
    await connection.disconnect(nowait=True)
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)


async def reply_within(connection: Any, seconds: float) -> Any:
    """Read a reply; LATE: it has not arrived yet, and must still be read."""
    try:
        async with asyncio.timeout(seconds):
            return await connection.read_response(disable_decoding=True, disconnect_on_error=False)
    except TimeoutError:
        return LATE


@asynccontextmanager
async def briefly(connections: T) -> AsyncGenerator[T]:
    """The same connections, with a second for all last calls of a cancelled task.

    Hundreds may be cancelled at once, and new connections for each would take longer.
    """
    async with asyncio.timeout(LAST_SECOND):
        yield copy(connections)


async def sleep(milliseconds: float, until: threading.Event | None) -> None:
    """Sleep, at most until a thread sets `until`, which is checked periodically."""
    left = milliseconds / 1000
    while until is not None and left > LOOK and not until.is_set():
        await asyncio.sleep(LOOK)
        left -= LOOK
    if until is None or not until.is_set():
        await asyncio.sleep(left)
