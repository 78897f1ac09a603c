"""The connections to one server.

They are redis-py's, without its command layer. Idle connections of our own pool are kept here, without the
pool's lock and bookkeeping; connections of a shared pool are returned to it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis.awaiting.own import Idle, connected, disconnect, reply_within, uninterrupted, write
from rq_dlq._redis.connection import ERROR_REPLIES, LATE, arguments, as_reply, bounded, set_timeout
from rq_dlq._redis.errors import TRANSIENT, Passing, Unheard
from rq_dlq._redis.exchange import packed
from rq_dlq._redis.pools import AWAITING, hasty, pool_at, pools_of
from rq_dlq._redis.proof import Rights
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.cluster import Node
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._redis.guard import Guard
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step

PING = packed((b"PING",))
NUDGES = (0.001, 0.003, 0.009, 0.027, 0.081)
"""How late a reply may be before the first PING, and then before each further one; seconds."""


class AsyncLink:
    """The connections to one server, awaiting, in one event loop at a time.

    Args:
        make: makes a redis-py pool, or returns the shared one.
        ours: the pool is our own, not a shared one.
    """

    def __init__(self, make: Callable[[], Any], *, ours: bool) -> None:
        self._make, self.ours = make, ours
        self._pools: dict[int, Any] = {}
        pool = self.pool
        self._arguments = arguments(pool)
        self._idle = Idle(lambda: self.pool)
        self._endless = False  # whether the pool's connections have no timeout
        self._roams = hasattr(pool, "sentinel_manager")  # the next connection may reach another server
        self._guard: Guard | None = None
        self.rights = Rights()
        self.proven = self.rights.proven
        self._in_haste: AsyncLink | None = None

    @property
    def pool(self) -> Any:
        """The pool of this process: a forked child makes its own.

        At the fork, another thread may have held a lock of the pool, which would never be released.
        """
        process = this_process()
        return self._pools.get(process) or self._pools.setdefault(process, self._make())

    def at(self, node: Node) -> AsyncLink:
        """A link to another node, with the same settings."""
        link = AsyncLink(partial(pool_at, self.pool, *node, AWAITING), ours=True)
        link.guard_by(self._guard)
        return link

    def in_haste(self) -> AsyncLink:
        """The link to the same server with a timeout of a second; its user has our rights."""
        if self._in_haste is None:
            link = AsyncLink(lambda: hasty(self.pool, AWAITING), ours=True)
            link.rights, link.proven = self.rights, self.proven
            self._in_haste = link
        return self._in_haste

    def any_link(self) -> AsyncLink:
        """This link."""
        return self

    def guard_by(self, guard: Guard | None) -> None:
        """Check the server before it accepts messages."""
        self._guard = guard

    async def talk(self, commands: Commands) -> list[Any]:
        """Make one round trip. Errors of the server are replies, errors of the connection are raised."""
        connection = self._idle.take() or await self._connected()
        try:
            if self._guard is not None and self._guard.due(connection, commands):
                await converse(connection, self._guard.look(connection))
            replies = await replies_to(connection, commands)
        except BaseException as error:
            await uninterrupted(self._drop(connection, error))
            raise
        if self.ours:
            self._idle.add(connection)
        else:
            await uninterrupted(self._return(connection))
        return replies

    async def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, without other calls in between; an error closes it."""
        connection = self._idle.take() or await self._connected()
        try:
            result = await converse(connection, talk)
        except BaseException as error:
            await uninterrupted(self._drop(connection, error))
            raise
        if self.ours:
            self._idle.add(connection)
        else:
            await uninterrupted(self._return(connection))
        return result

    async def ready(self, key: str) -> None:  # noqa: ARG002 - there is one server
        """Open a connection unless one is idle, so that the next round trip need not wait."""
        if self.ours:
            self._idle.add(self._idle.take() or await self._connected())

    async def lend(self) -> Any:
        """Lend a connection for longer than a round trip; the caller must call `take_back` or `drop`."""
        return self._idle.take() or await self._connected()

    async def take_back(self, connection: Any) -> None:
        """Take back a connection that is unchanged."""
        if self.ours:
            self._idle.add(connection)
        else:
            await uninterrupted(self._return(connection))

    async def drop(self, connection: Any, error: BaseException | None) -> None:
        """Take back a connection that this error has made unusable."""
        await self._drop(connection, error)

    async def prove(self, step: Step, verbs: Verbs) -> None:
        """Check once whether the user has all rights for a step."""
        if unproven := self.rights.unproven(step):
            await self.alone(self.rights.proof(unproven, verbs))

    def forget_rights(self) -> None:
        """Check the rights again before the next step."""
        self.rights.forget()

    async def _connected(self) -> Any:
        try:
            connection = await connected(self.pool, self._arguments)
        except (*TRANSIENT, ValueError) as error:  # another thread has closed the socket
            raise Unheard(str(error)) from error
        self._endless = bounded(connection) or self._endless
        return connection

    async def _return(self, connection: Any) -> None:
        if self._endless:
            set_timeout(connection, None)
        await self.pool.release(connection)

    async def _drop(self, connection: Any, error: BaseException | None) -> None:
        """Close a connection; after a network error, also the idle ones, which have probably failed, too."""
        await self._close(connection)
        if isinstance(error, Passing):
            self.rights.forget()  # the next connection may reach another server
        if isinstance(error, TRANSIENT):
            await self._give_up_idle()

    async def _close(self, connection: Any) -> None:
        try:
            await disconnect(connection)
        finally:
            await self._return(connection)

    async def _give_up_idle(self) -> None:
        """Close the idle connections."""
        if self._roams:
            self.rights.forget()
        for connection in self._idle.take_all():
            await self._close(connection)

    async def close(self) -> None:
        """Close the idle connections, except those of a shared pool; the next round trip opens new ones."""
        await self._give_up_idle()
        for pool in pools_of(self.pool) if self.ours else ():
            await pool.disconnect(inuse_connections=False)


async def converse(connection: Any, talk: Exchange) -> Any:
    """Run an exchange on a connection; returns its result."""
    try:
        commands = next(talk)
        while True:
            commands = talk.send(await replies_to(connection, commands))
    except StopIteration as stop:
        return stop.value


async def replies_to(connection: Any, commands: Commands, *, sent: bool = False) -> list[Any]:
    """Send commands and read the replies; errors of the server are among them.

    Args:
        sent: they have been sent.

    Raises:
        Unheard: the connection broke before all commands were written, so the last one never arrives. A
            timeout is different: data in a buffer may still be sent.
    """
    try:
        if not sent:
            await write(connection, b"".join(map(packed, commands)))
    except exceptions.ConnectionError as error:
        raise Unheard(str(error)) from error
    if commands and commands[0][0] == b"BLPOP":
        return await _nudged(connection, commands)
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disable_decoding=True))
        except ERROR_REPLIES as error:
            replies.append(as_reply(error))
    return replies


async def _nudged(connection: Any, commands: Commands) -> list[Any]:
    """Read the replies to a BLPOP and to the commands after it.

    Redis ends an expired wait at the next event, or at the next tick of its `hz`, by default every 100 ms.
    A PING on the same connection is such an event; Redis replies to it after the wait and what follows.
    """
    seconds, pings = commands[0][2], 0
    for late in NUDGES:
        reply = await _reply(connection, seconds + late)
        if reply is not LATE:
            break
        await write(connection, PING, check_health=False)
        seconds, pings = 0, pings + 1
    else:
        reply = await _reply(connection)
    replies = [reply, *[await _reply(connection) for _ in commands[1:]]]
    for _ in range(pings):
        await _reply(connection)
    return replies


async def _reply(connection: Any, within: float | None = None) -> Any:
    """Read the reply to a wait; it may be a server error, or LATE."""
    try:
        if within is not None:
            return await reply_within(connection, within)
        return await connection.read_response(disable_decoding=True)
    except ERROR_REPLIES as error:
        return as_reply(error)
