"""One exchange with a server, without the socket: both kinds of connections run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import hiredis
from redis import exceptions

from rq_dlq._calls import Call, Command
from rq_dlq._redis.trouble import refusal
from rq_dlq._work import Batch, Step, Wait

if TYPE_CHECKING:
    from rq_dlq._scripts import Scripts

Calls: TypeAlias = Sequence[Call[Any] | Command[Any]]
Commands: TypeAlias = list[tuple[Any, ...]]
Exchange: TypeAlias = Generator[Commands, list[Any], Any]

SOCKET_TIMEOUT = 5.0  # seconds; longer than any blocking wait of ours (_work.MAX_BLOCK)
CONNECT_TIMEOUT = 2.0
LEAST_BLOCK = 0.002  # seconds: Redis 6.2 cuts 0.001 down to 0, which means for ever


def perform(step: Step, scripts: Scripts, *, repeated: bool) -> Exchange:
    """What a step says to the server; returns what the step is sent back."""
    if isinstance(step, Wait):
        began = time.monotonic()
        yield [(b"BLPOP", step.key, max(LEAST_BLOCK, step.milliseconds / 1000))]
        return (time.monotonic() - began) * 1000
    if isinstance(step, Batch):
        return (yield from exchange(step.calls, scripts, repeated=repeated))
    (result,) = yield from exchange((step,), scripts, repeated=repeated)
    return result


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
            raise refusal(reply)
    return [call.read(reply, repeated) for call, reply in zip(calls, replies, strict=True)]


_pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command  # pyright: ignore[reportUnknownVariableType]


def packed(commands: Commands) -> bytes:
    """As they go over the wire."""
    return b"".join(map(_pack, commands))


def pool_settings(retry: Any) -> dict[str, Any]:
    """For a pool of redis-py's; `retry`: none, in the words of its colour."""
    return {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "decode_responses": False,
        "protocol": 2,
        "retry": retry,
        "retry_on_error": [],
        "health_check_interval": 0,
        "max_connections": 1 << 20,  # a worker has one for each thread; redis-py 8 would stop at 100
    }
