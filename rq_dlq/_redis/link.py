"""The connections to one server, in both colours: a round trip at a time.

They are redis-py's, without its command layer. Those of a pool of our own stay with us while they are idle,
without the pool's lock and bookkeeping; a pool that others use, too, gets each back.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import redis
from redis import exceptions

from rq_dlq._redis import places
from rq_dlq._redis.exchange import packed
from rq_dlq._redis.places import AWAITING, BLOCKING, pool_at, pools_of
from rq_dlq._redis.rights import Rights
from rq_dlq._redis.trouble import TRANSIENT, Passing, Unheard, is_demoted, named, refusal
from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.cluster import Node
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step

VERSION = tuple(int(part) for part in redis.__version__.split(".")[:3] if part.isdigit())
ALWAYS_DECODED = (5, 0, 4)  # before it redis-py's awaiting connections do so, where the pool says it
_OF_THE_PARENT: list[object] = []  # what a forked child must not close: it shares the parent's epoll


class Link:
    """To one server, blocking. Safe with threads and after a fork.

    Args:
        pool: of redis-py.
        ours: nobody else uses it.
    """

    def __init__(self, pool: Any, *, ours: bool) -> None:
        self.pool, self.ours = pool, ours
        self._endless = False  # whether the pool's connections have no timeout of their own
        self._roams = hasattr(pool, "sentinel_manager")  # the next connection may be to another server
        self.rights = Rights()
        self.proven = self.rights.proven
        self._new = _taking(pool)
        self._idle: list[Any] = []  # never another list: each pop is atomic, so none gets two owners
        self._keep: Callable[[Any], None] = self._idle.append if ours else self._return

    def at(self, node: Node) -> Link:
        """A link to another node, made like this one."""
        return Link(pool_at(self.pool, *node, BLOCKING), ours=True)

    def talk(self, commands: Commands) -> list[Any]:
        """One round trip; an error of the server is a reply, one of the connection is raised."""
        connection = self.take()
        try:
            replies = _said(connection, commands)
        except BaseException as error:
            self.drop(connection, error)
            raise
        self._keep(connection)
        return replies

    def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, which nobody uses meanwhile; an error closes it."""
        connection = self.take()
        try:
            commands = next(talk)
            while True:
                commands = talk.send(_said(connection, commands))
        except StopIteration as stop:
            self._keep(connection)
            return stop.value
        except BaseException as error:
            self.drop(connection, error)
            raise

    def prove(self, step: Step, scripts: Scripts) -> None:
        """Ask once whether the user may do all that a step takes."""
        if unproven := self.rights.unproven(step):
            self.alone(self.rights.proof(unproven, scripts))

    def forget_rights(self) -> None:
        """Ask the server again what the user may do."""
        self.rights.forget()

    def take(self) -> Any:
        """A connection for oneself, until it is dropped.

        Raises:
            Unheard: there is none.
        """
        try:
            while (connection := self._idle.pop()).pid != os.getpid():
                pass  # a forked child shares no socket with its parent
        except IndexError:
            connection = self._connected()
        return connection

    def _connected(self) -> Any:
        """A new one."""
        try:
            connection = self._new()
        except TRANSIENT as error:
            raise Unheard(str(error)) from error
        self._endless = bounded(connection) or self._endless
        return connection

    def _return(self, connection: Any) -> None:
        if self._endless:
            set_timeout(connection, None)
        self.pool.release(connection)

    def drop(self, connection: Any, error: BaseException | None = None) -> None:
        """Close a connection; and the idle ones, where an error of the network has likely ended all."""
        connection.disconnect()
        self._return(connection)
        if isinstance(error, Passing):
            self.rights.forget()  # the next may be to another server
        if error is None or isinstance(error, TRANSIENT):
            self.give_up_idle()

    def give_up_idle(self) -> None:
        """Close the idle ones."""
        if self._roams:
            self.rights.forget()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return  # another thread was faster
            connection.disconnect()
            self._return(connection)

    def close(self) -> None:
        """Close what is idle, but for a pool that was passed in; the next round trip opens new ones."""
        self.give_up_idle()
        for pool in pools_of(self.pool) if self.ours else ():
            pool.disconnect(inuse_connections=False)


def _said(connection: Any, commands: Commands) -> list[Any]:
    """What the server said to these."""
    try:
        connection.send_packed_command([packed(commands)])
    except TRANSIENT as error:
        raise Unheard(str(error)) from error
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except exceptions.ResponseError as error:
            replies.append(_kept(error))
    return replies


class AsyncLink:
    """To one server, awaiting, in one event loop at a time; otherwise as Link."""

    def __init__(self, pool: Any, *, ours: bool) -> None:
        if pool.connection_kwargs.get("decode_responses") and VERSION < ALWAYS_DECODED:
            message = f"redis-py {redis.__version__} decodes what it reads: upgrade it, or pass another pool"
            raise ConfigurationError(message)
        self.pool, self.ours = pool, ours
        self._endless = False  # whether the pool's connections have no timeout of their own
        self._roams = hasattr(pool, "sentinel_manager")  # the next connection may be to another server
        self.rights = Rights()
        self.proven = self.rights.proven
        self._new = _taking(pool)
        self._idle: list[Any] = []
        self._loop: object = None  # the event loop that they belong to; a forked child has another one
        self._process = os.getpid()

    def at(self, node: Node) -> AsyncLink:
        """A link to another node, made like this one."""
        return AsyncLink(pool_at(self.pool, *node, AWAITING), ours=True)

    async def talk(self, commands: Commands) -> list[Any]:
        """One round trip; an error of the server is a reply, one of the connection is raised."""
        connection = self._rested() or await self.take()
        try:
            replies = await _heard(connection, commands)
        except BaseException as error:
            await asyncio.shield(self.drop(connection, error))  # also where it is cancelled once more
            raise
        if self.ours:
            self._idle.append(connection)
        else:
            await self._keep(connection)
        return replies

    async def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, which nobody uses meanwhile; an error closes it."""
        connection = await self.take()
        try:
            commands = next(talk)
            while True:
                commands = talk.send(await _heard(connection, commands))
        except StopIteration as stop:
            await self._keep(connection)
            return stop.value
        except BaseException as error:
            await asyncio.shield(self.drop(connection, error))
            raise

    async def prove(self, step: Step, scripts: Scripts) -> None:
        """Ask once whether the user may do all that a step takes."""
        if unproven := self.rights.unproven(step):
            await self.alone(self.rights.proof(unproven, scripts))

    def forget_rights(self) -> None:
        """Ask the server again what the user may do."""
        self.rights.forget()

    def _rested(self) -> Any:
        """An idle one of this event loop; None: there is none."""
        return self._idle.pop() if self._idle and self._loop is asyncio.get_running_loop() else None

    async def take(self) -> Any:
        """A connection for oneself, until it is dropped; raises as Link's."""
        if self._loop is not asyncio.get_running_loop():
            self._leave()
        if self._idle:
            return self._idle.pop()
        try:
            connection = await self._new()
        except TRANSIENT as error:
            raise Unheard(str(error)) from error
        self._endless = bounded(connection) or self._endless
        return connection

    async def _keep(self, connection: Any) -> None:
        if self.ours:
            self._idle.append(connection)
        else:
            await asyncio.shield(self._return(connection))  # a cancellation must not keep it from the pool

    async def _return(self, connection: Any) -> None:
        if self._endless:
            set_timeout(connection, None)
        await self.pool.release(connection)

    def _leave(self) -> None:
        """Begin anew: what is there belongs to another process, or to an event loop that is over."""
        if self._loop is not None:
            pools = pools_of(self.pool)
            if self._process != os.getpid():
                _OF_THE_PARENT.append((self._idle, *map(copy, pools)))
            self._idle = []
            for pool in pools:
                pool.reset()
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()

    async def drop(self, connection: Any, error: BaseException | None = None) -> None:
        """Close a connection; and the idle ones, where an error of the network has likely ended all."""
        await self._close(connection)
        if isinstance(error, Passing):
            self.rights.forget()
        if error is None or isinstance(error, TRANSIENT):
            await self.give_up_idle()

    async def _close(self, connection: Any) -> None:
        try:
            await connection.disconnect(nowait=True)
        finally:
            await self._return(connection)

    async def give_up_idle(self) -> None:
        """Close the idle ones."""
        if self._roams:
            self.rights.forget()
        while self._idle:
            await self._close(self._idle.pop())

    async def close(self) -> None:
        """Close what is idle, but for a pool that was passed in; the next round trip opens new ones."""
        await self.give_up_idle()
        for pool in pools_of(self.pool) if self.ours else ():
            await pool.disconnect(inuse_connections=False)


async def _heard(connection: Any, commands: Commands) -> list[Any]:
    """What the server said to these."""
    try:
        await connection.send_packed_command(packed(commands))
    except TRANSIENT as error:
        raise Unheard(str(error)) from error
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disable_decoding=True))
        except exceptions.ResponseError as error:
            replies.append(_kept(error))
    return replies


def _kept(error: Exception) -> Exception:
    """A server's error as a reply.

    Raises:
        Passing: it is a replica now. Nobody shall talk to it any more: the master is to be looked for anew.
    """
    if is_demoted(error):
        raise refusal(error) from None
    return named(error)


def bounded(connection: Any) -> bool:
    """Give a connection that would wait for ever for a reply our own limit; whether it needed that."""
    if connection.socket_timeout is not None:
        return False
    set_timeout(connection, places.SOCKET_TIMEOUT)
    return True


def set_timeout(connection: Any, seconds: float | None) -> None:
    """How long it waits for a reply, from now on."""
    connection.socket_timeout = seconds
    if (socket := getattr(connection, "_sock", None)) is not None:  # a blocking one that is connected
        socket.settimeout(seconds)


def _taking(pool: Any) -> Callable[[], Any]:
    """What takes a connection from a pool; before redis-py 5.3 it wants to hear for which command."""
    parameters = inspect.signature(pool.get_connection).parameters.values()
    wants = any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
    return partial(pool.get_connection, "EVALSHA") if wants else pool.get_connection
