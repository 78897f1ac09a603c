"""Runs steps, blocking."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import redis
import tenacity
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from rq_dlq._calls import Call
from rq_dlq._redis.exchange import packed, perform, pool_settings
from rq_dlq._redis.trouble import FAIL_FAST, FINAL, TRANSIENT, Retries, readable, refusal, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.exchange import Commands
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step, Steps

R = TypeVar("R")


class Connections:
    """Runs steps, blocking. Safe with threads and after a fork.

    Args:
        url: where Redis is; for a pool that is passed in, what error messages call it.
        pool: a redis-py connection pool to use instead of the URL.
        revive: called before a call is repeated; starts an embedded server anew that has died.
    """

    def __init__(
        self,
        url: str,
        scripts: Scripts,
        retries: Retries = FAIL_FAST,
        pool: redis.ConnectionPool | None = None,
        revive: Callable[[], object] | None = None,
    ) -> None:
        self._url = url
        self.scripts = scripts
        self._retries = retries.settings()
        self._revive = revive
        if pool is None:
            with readable(url):
                pool = redis.ConnectionPool.from_url(url, **pool_settings(Retry(NoBackoff(), 0)))
        self.pool: Any = pool  # redis-py's types cover a part of it
        self._idle: list[Any] = []
        self._process = os.getpid()

    def run(self, steps: Steps[R]) -> R:
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
                value = self._perform(step)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                error = raised

    def _perform(self, step: Step) -> Any:
        try:
            return self._once(step, repeated=False)
        except TRANSIENT as error:
            if isinstance(error, FINAL):
                raise unavailable(self._url, error) from None
        if self._revive is not None:
            self._revive()
        try:
            return tenacity.Retrying(**self._retries)(self._once, step, repeated=True)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call):  # nearly always: spared the generators
            (reply,) = self._talk([step.command(self.scripts)])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not isinstance(reply, exceptions.NoScriptError):
                raise refusal(reply)
        talk = perform(step, self.scripts, repeated=repeated)
        commands = next(talk)
        while True:
            replies = self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    def _talk(self, commands: Commands) -> list[Any]:
        """One round trip; an error of the server is a reply, one of the connection is raised."""
        connection = self._connection()
        try:
            connection.send_packed_command([packed(commands)])
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(connection.read_response())
                except exceptions.ResponseError as error:
                    replies.append(error)
        except BaseException:
            self._idle.append(connection)
            self._give_up_idle()  # what ended one has likely ended all
            raise
        self._idle.append(connection)
        return replies

    def _connection(self) -> Any:
        """An idle connection of ours, without the pool's lock and bookkeeping; else one of the pool."""
        if self._process != os.getpid():  # a forked child shares no socket with its parent
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return self.pool.get_connection()

    def with_retries(self, retries: Retries) -> Connections:
        """The same connections with other patience."""
        return Connections(self._url, self.scripts, retries, self.pool, self._revive)

    def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        self._give_up_idle()
        self.pool.disconnect()

    def _give_up_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()
            self.pool.release(connection)
