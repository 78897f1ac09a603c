"""An exchange with a server as a generator, without the socket, for both kinds of connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import hiredis
from redis import exceptions

from rq_dlq._redis.errors import Passing, refusal
from rq_dlq._redis.loading import Functions, is_loaded, is_unknown
from rq_dlq.core.steps.call import Call, Command, Run
from rq_dlq.core.steps.driving import drive
from rq_dlq.core.steps.step import Batch, Step, Steps, Wait

if TYPE_CHECKING:
    from rq_dlq._redis.loading import Verbs

Calls: TypeAlias = Sequence[Call[Any] | Command[Any]]
Commands: TypeAlias = list[tuple[Any, ...]]
Exchange: TypeAlias = Generator[Commands, list[Any], Any]

LEAST_BLOCK = 0.002  # seconds: Redis 6.2 rounds 0.001 down to 0, which means forever


def perform(step: Step, scripts: Verbs, *, repeated: bool, timeout: float | None = None) -> Exchange:
    """Carry out a step; returns its result.

    Args:
        timeout: seconds after which a connection stops waiting for a reply; a `Wait` takes at most half.
    """
    if isinstance(step, Wait):
        began = time.monotonic()
        seconds = min(step.milliseconds / 1000, timeout / 2) if timeout else step.milliseconds / 1000
        command = (b"BLPOP", step.key, max(LEAST_BLOCK, seconds))
        (reply,) = yield [command]
        if isinstance(reply, exceptions.NoPermissionError):
            raise refusal(reply, command)
        return (time.monotonic() - began) * 1000
    if isinstance(step, Batch):
        return (yield from exchange(step.calls, scripts, repeated=repeated))
    (result,) = yield from exchange((step,), scripts, repeated=repeated)
    return result


def exchange(calls: Calls, scripts: Verbs, *, repeated: bool, apart: bool = False) -> Exchange:
    """Send calls and read their replies; scripts missing on the server are loaded.

    Args:
        apart: a temporary error of a call becomes its result.
    """
    commands, replies = yield from _replies(calls, scripts)
    if not any(isinstance(reply, Exception) for reply in replies):  # the usual case
        return [call.read(reply, repeated) for call, reply in zip(calls, replies, strict=True)]
    for i, reply in enumerate(replies):
        if isinstance(reply, Exception):
            replies[i] = error = _failure(reply, commands[i])
            if not (apart and isinstance(error, Passing)):
                raise error
    return [
        reply if isinstance(reply, Exception) else call.read(reply, repeated)
        for call, reply in zip(calls, replies, strict=True)
    ]


def _replies(calls: Calls, scripts: Verbs) -> Exchange:
    """The commands of calls, and the replies; a server without functions runs scripts instead."""
    commands = [call.command(scripts) for call in calls]
    replies = yield commands
    failed = [i for i, reply in enumerate(replies) if isinstance(reply, Exception)]
    if not failed:
        return commands, replies
    yield from _load(calls, scripts, commands, replies)
    if isinstance(scripts, Functions) and any(scripts.does_without(replies[i]) for i in failed):
        again = [i for i in range(failed[0], len(calls)) if i in failed or isinstance(calls[i], Command)]
        others, said = yield from _replies([calls[i] for i in again], scripts)
        for i, command, reply in zip(again, others, said, strict=True):
            commands[i], replies[i] = command, reply
    return commands, replies


def _load(calls: Calls, scripts: Verbs, commands: Commands, replies: list[Any]) -> Exchange:
    """Load what the server does not have, and repeat these calls: `replies` gets what it says then.

    If the server refuses what is loaded, that is the command of the call, and its refusal the reply.
    """
    unknown = [i for i, reply in enumerate(replies) if is_unknown(reply)]
    if not unknown:
        return
    # A plain command may depend on the calls before it (a WAIT): it is repeated with them.
    again = [i for i in range(unknown[0], len(calls)) if i in unknown or isinstance(calls[i], Command)]
    # Each script is loaded right before its call, so that in a cluster both reach the same node.
    loads = {i: scripts[call.script].load for i in unknown if isinstance(call := calls[i], Call)}
    received = iter((yield [part for i in again for part in (loads.get(i), commands[i]) if part]))
    for i in again:
        refused = next(received) if i in loads else None
        replies[i] = next(received)
        if isinstance(refused, Exception) and not is_loaded(refused):
            commands[i], replies[i] = loads[i], refused


def _failure(reply: Exception, command: tuple[Any, ...]) -> Exception:
    """The error for an error reply; in a cluster, also for a node that does not answer."""
    return reply if isinstance(reply, Passing) else refusal(reply, command)


def conversation(steps: Steps[Any], scripts: Verbs) -> Exchange:
    """Run steps to their end as one exchange on one connection; returns their result."""
    return drive(steps, partial(perform, scripts=scripts, repeated=False))


_pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command  # pyright: ignore[reportUnknownVariableType]


def packed(command: tuple[Any, ...]) -> bytes:
    """A command as bytes for the wire. The names of a script and its keys are packed once."""
    run = command[0]
    if type(run) is Run:
        if not run.packed:
            run.packed = _words(command[: run.words])
        _, _, rest = _pack(command[run.words :]).partition(b"\n")  # like `_words`, without the call
        return b"*%d\r\n%b%b" % (len(command), run.packed, rest)
    return _packed_ids(command) if run == b"HMGET" else _pack(command)


def _words(command: tuple[Any, ...]) -> bytes:
    """Part of a command, without the number of its words."""
    return _pack(command).partition(b"\n")[2]


def _packed_ids(command: tuple[Any, ...]) -> bytes:
    """An HMGET. If its fields have the same length, as most ids do, a join is ten times as fast."""
    ids = command[2:]
    if {*map(type, ids)} != {bytes} or len(lengths := {*map(len, ids)}) != 1:
        return _pack(command)
    head = _words(command[:2])
    between = b"\r\n$%d\r\n" % lengths.pop()
    return b"*%d\r\n%b%b%b\r\n" % (len(command), head, between[2:], between.join(ids))
