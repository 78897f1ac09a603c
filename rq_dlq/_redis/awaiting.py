"""Runs steps, awaiting; otherwise as `blocking`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import redis.asyncio
import tenacity
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from rq_dlq._calls import Call
from rq_dlq._redis.exchange import packed, perform, pool_settings
from rq_dlq._redis.trouble import FAIL_FAST, FINAL, TRANSIENT, Retries, readable, refusal, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.exchange import Commands
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step, Steps

R = TypeVar("R")


class AsyncConnections:
    """Runs steps, awaiting; otherwise like Connections."""

    def __init__(
        self,
        url: str,
        scripts: Scripts,
        retries: Retries = FAIL_FAST,
        pool: redis.asyncio.ConnectionPool | None = None,
        revive: Callable[[], object] | None = None,
    ) -> None:
        self._url = url
        self.scripts = scripts
        self._retries = retries.settings()
        self._revive = revive
        if pool is None:
            with readable(url):
                pool = redis.asyncio.ConnectionPool.from_url(url, **pool_settings(Retry(NoBackoff(), 0)))
        self.pool: Any = pool  # redis-py's types cover a part of it
        self._idle: list[Any] = []

    async def run(self, steps: Steps[R]) -> R:
        """Run the steps to their end."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            value, error = None, None
            try:
                value = await self._perform(step)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                error = raised

    async def _perform(self, step: Step) -> Any:
        try:
            return await self._once(step, repeated=False)
        except TRANSIENT as error:
            if isinstance(error, FINAL):
                raise unavailable(self._url, error) from None
        if self._revive is not None:
            self._revive()
        try:
            return await tenacity.AsyncRetrying(**self._retries)(self._once, step, repeated=True)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    async def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call):  # nearly always: spared the generators
            (reply,) = await self._talk([step.command(self.scripts)])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not isinstance(reply, exceptions.NoScriptError):
                raise refusal(reply)
        talk = perform(step, self.scripts, repeated=repeated)
        commands = next(talk)
        while True:
            replies = await self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    async def _talk(self, commands: Commands) -> list[Any]:
        connection: Any = self._idle.pop() if self._idle else await self._pooled()
        try:
            await connection.send_packed_command(packed(commands))
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except exceptions.ResponseError as error:
                    replies.append(error)
        except BaseException:
            self._idle.append(connection)
            await self._give_up_idle()
            raise
        self._idle.append(connection)
        return replies

    async def _pooled(self) -> Any:
        return await self.pool.get_connection()

    async def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        await self._give_up_idle()
        await self.pool.disconnect()

    async def _give_up_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)
            await self.pool.release(connection)
