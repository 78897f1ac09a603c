"""The only room that talks to Redis: it runs steps, blocking or awaiting.

Our own retry takes the place of redis-py's, which would run a script twice without saying so: a call is
repeated only as a repetition (I12). Connections are redis-py's, without its command layer.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import hiredis
import redis
import redis.asyncio
import tenacity
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from rq_dlq._calls import Call, Command
from rq_dlq._work import Batch, Step, Steps, Wait
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, ConfigurationError

if TYPE_CHECKING:
    import threading

    from rq_dlq._scripts import Scripts

R = TypeVar("R")
Calls: TypeAlias = Sequence[Call[Any] | Command[Any]]
Exchange: TypeAlias = Generator[list[tuple[Any, ...]], list[Any], list[Any]]

SOCKET_TIMEOUT = 5.0  # seconds; longer than any blocking wait of ours (_work.MAX_BLOCK)
CONNECT_TIMEOUT = 2.0
BLPOP_SLACK = 0.001  # seconds: to Redis a timeout of 0 means for ever
_PASSWORD = re.compile(r"(?<=:)[^:@/]+(?=@)")

# What a server says of a state that passes: restarting, failing over, busy with a long script.
_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "UNBLOCKED")
_ADVICE = {
    "OOM": "Redis is out of memory: raise maxmemory, or drain or purge queues (acks still work)",
    "NOPERM": "the Redis user lacks a right: grant it the commands and keys that docs name",
    "NOAUTH": "the server wants a password: put it into the URL, redis://user:password@host",
    "WRONGPASS": "user or password is wrong: correct the URL",
    "MISCONF": "Redis cannot write to disk and takes no changes: see the server's log and free the disk",
    "NOREPLICAS": "too few replicas are online for the server to take changes",
    "WRONGTYPE": "a key of the queue holds something else: use another namespace, or remove the key",
}


_CODES = {
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
}  # redis-py drops the code


class _Passing(Exception):  # noqa: N818 - never leaves this file
    """The server answered that it cannot do it now."""


_TRANSIENT = (exceptions.ConnectionError, exceptions.TimeoutError, OSError, _Passing)
_FINAL = (exceptions.AuthenticationError, exceptions.AuthorizationError)


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a call is repeated while Redis does not answer.

    Args:
        attempts: tries in all; None: no limit.
        seconds: from the first to the last try; None: no limit.
        until: once it is set, there is no further try.
    """

    attempts: int | None = 3
    seconds: float | None = 1.0
    until: threading.Event | None = None

    def settings(self) -> dict[str, Any]:
        """For tenacity; the first try is already over."""
        stops: list[Any] = []
        if self.attempts is not None:
            stops.append(tenacity.stop_after_attempt(max(1, self.attempts - 1)))
        if self.seconds is not None:
            stops.append(tenacity.stop_after_delay(self.seconds))
        waits = {}
        if self.until is not None:
            stops.append(tenacity.stop_when_event_set(self.until))
            waits["sleep"] = tenacity.sleep_using_event(self.until)
        return {
            **waits,
            "stop": tenacity.stop_any(*stops) if stops else tenacity.stop_never,
            "wait": tenacity.wait_random_exponential(multiplier=0.05, max=1.0),
            "retry": tenacity.retry_if_exception(
                lambda error: isinstance(error, _TRANSIENT) and not isinstance(error, _FINAL)
            ),
            "reraise": True,
        }


FAIL_FAST = Retries()


def masked(url: str) -> str:
    """The URL without its password."""
    return _PASSWORD.sub("***", url)


def exchange(calls: Calls, scripts: Scripts, *, repeated: bool) -> Exchange:
    """Commands out, replies in; scripts that the server does not know are loaded on the way."""
    replies = yield [call.command(scripts) for call in calls]
    unknown = [i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
    if unknown:
        missing = {script.sha: script for i in unknown if (script := calls[i].loads(scripts))}
        yield [(b"SCRIPT", b"LOAD", script.source) for script in missing.values()]
        for i, reply in zip(unknown, (yield [calls[i].command(scripts) for i in unknown]), strict=True):
            replies[i] = reply
    for reply in replies:
        if isinstance(reply, Exception):
            raise _refusal(reply)
    return [call.read(reply, repeated) for call, reply in zip(calls, replies, strict=True)]


def _refusal(error: Exception) -> Exception:
    text = str(error)
    if isinstance(error, exceptions.BusyLoadingError | exceptions.ReadOnlyError) or text.startswith(_PASSING):
        return _Passing(text)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    if code is None:
        # Older servers wrap what a command in a script said: "ERR Error running script …: -OOM …"
        code = next((code for code in _ADVICE if re.search(rf"(^|[ -]){code}\b", text)), None)
    if code is None:
        return BrokerRefused(f"the server refused: {text[:300]}")
    return BrokerRefused(f"{_ADVICE[code]} (the server said: {text[:200]})")


def unavailable(url: str, error: BaseException) -> Exception:
    """The error for a user."""
    reason = str(error).partition(". ")[0] or type(error).__name__
    if isinstance(error, _FINAL):
        advice = _ADVICE["WRONGPASS" if "WRONGPASS" in reason or "invalid" in reason else "NOAUTH"]
        return BrokerRefused(f"{masked(url)}: {advice}")
    if isinstance(error, _Passing):
        return BrokerUnavailable(f"{masked(url)} cannot do this at the moment: {reason}")
    return BrokerUnavailable(
        f"cannot reach {masked(url)} ({reason}): start Redis, set RQ_DLQ_URL, "
        "or drop the URL to use the embedded server"
    )


def _pool_settings(retry: Any) -> dict[str, Any]:
    return {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "decode_responses": False,
        "protocol": 2,
        "retry": retry,
        "retry_on_error": [],
        "health_check_interval": 0,
    }


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
            with _readable(url):
                pool = redis.ConnectionPool.from_url(url, **_pool_settings(Retry(NoBackoff(), 0)))
        self.pool = pool
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
        except _TRANSIENT as error:
            if isinstance(error, _FINAL):
                raise unavailable(self._url, error) from None
        if self._revive is not None:
            self._revive()
        try:
            return tenacity.Retrying(**self._retries)(self._once, step, repeated=True)
        except _TRANSIENT as error:
            raise unavailable(self._url, error) from error

    def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Wait):
            begin = time.monotonic()
            self._talk([(b"BLPOP", step.key, max(BLPOP_SLACK, step.milliseconds / 1000))])
            return (time.monotonic() - begin) * 1000
        calls = step.calls if isinstance(step, Batch) else (step,)
        talk = exchange(calls, self.scripts, repeated=repeated)
        commands = next(talk)
        while True:
            try:
                commands = talk.send(self._talk(commands))
            except StopIteration as stop:
                return stop.value if isinstance(step, Batch) else stop.value[0]

    def _talk(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """One round trip; an error of the server is a reply, one of the connection is raised."""
        connection = self._connection()
        try:
            connection.send_packed_command([b"".join(map(hiredis.pack_command, commands))])
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
            with _readable(url):
                pool = redis.asyncio.ConnectionPool.from_url(
                    url, **_pool_settings(AsyncRetry(NoBackoff(), 0))
                )
        self.pool = pool
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
        except _TRANSIENT as error:
            if isinstance(error, _FINAL):
                raise unavailable(self._url, error) from None
        if self._revive is not None:
            self._revive()
        try:
            return await tenacity.AsyncRetrying(**self._retries)(self._once, step, repeated=True)
        except _TRANSIENT as error:
            raise unavailable(self._url, error) from error

    async def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Wait):
            begin = time.monotonic()
            await self._talk([(b"BLPOP", step.key, max(BLPOP_SLACK, step.milliseconds / 1000))])
            return (time.monotonic() - begin) * 1000
        calls = step.calls if isinstance(step, Batch) else (step,)
        talk = exchange(calls, self.scripts, repeated=repeated)
        commands = next(talk)
        while True:
            try:
                commands = talk.send(await self._talk(commands))
            except StopIteration as stop:
                return stop.value if isinstance(step, Batch) else stop.value[0]

    async def _talk(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        connection: Any = self._idle.pop() if self._idle else await self._pooled()
        try:
            await connection.send_packed_command(b"".join(map(hiredis.pack_command, commands)))
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
        pool: Any = self.pool  # redis-py's types cover a part of it
        return await pool.get_connection()

    async def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        await self._give_up_idle()
        await self.pool.disconnect()

    async def _give_up_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)
            await self.pool.release(connection)


class _readable:  # noqa: N801 - used as a function
    """A URL that redis-py cannot read becomes an error with an example."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError | TypeError | AttributeError):
            message = (
                f"{masked(str(self._url))!r} is not a Redis URL ({error}): "
                "use redis://host:6379/0, rediss://… or unix:///path/redis.sock"
            )
            raise ConfigurationError(message) from None
