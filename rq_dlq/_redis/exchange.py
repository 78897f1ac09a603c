"""An exchange with a server as a generator, without the socket, for both kinds of connections."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import hiredis
from redis import exceptions

from rq_dlq._redis.errors import Passing, refusal
from rq_dlq._redis.loading import Functions, is_loaded, is_unknown, no_library
from rq_dlq._redis.rights import denied, runs_script
from rq_dlq.core.steps.call import Call, Command, Run
from rq_dlq.core.steps.driving import drive
from rq_dlq.core.steps.step import Pipeline, Step, Steps, Wait
from rq_dlq.errors import BrokerRefused, RqDlqError

if TYPE_CHECKING:
    from rq_dlq._scripts.verb import Verbs

Calls: TypeAlias = Sequence[Call[Any] | Command[Any]]
Commands: TypeAlias = list[tuple[Any, ...]]
Exchange: TypeAlias = Generator[Commands, list[Any], Any]

_LINE = re.compile(r"user_(?:function|script):(\d+)")
LEAST_BLOCK = 0.002  # seconds: Redis 6.2 rounds 0.001 down to 0, which means forever


def perform(step: Step, verbs: Verbs, *, repeated: bool, timeout: float | None = None) -> Exchange:
    """Carry out a step; returns its result.

    Args:
        timeout: seconds after which a connection stops waiting for a reply; a `Wait` takes at most half.
    """
    if isinstance(step, Wait):
        began = time.monotonic()
        seconds = min(step.milliseconds / 1000, timeout / 2) if timeout else step.milliseconds / 1000
        command = (b"BLPOP", step.key, max(LEAST_BLOCK, seconds))
        then = step.then
        woken, *replies = yield [command] if then is None else [command, then.command(verbs)]
        if isinstance(woken, exceptions.NoPermissionError):
            raise refusal(woken, command)
        took = (time.monotonic() - began) * 1000
        if then is None:
            return took
        (reply,) = replies
        if isinstance(reply, Exception):  # the server does not have the verb, or refuses the call
            return took, *(yield from exchange((then,), verbs, repeated=repeated))
        return took, then.read(reply, repeated)
    if isinstance(step, Pipeline):
        return (yield from exchange(step.calls, verbs, repeated=repeated))
    (result,) = yield from exchange((step,), verbs, repeated=repeated)
    return result


def exchange(calls: Calls, verbs: Verbs, *, repeated: bool, apart: bool = False) -> Exchange:
    """Send calls and read their replies; verbs missing on the server are loaded.

    Args:
        apart: a temporary error of a call becomes its result.
    """
    commands = [call.command(verbs) for call in calls]
    replies = yield commands
    for reply in replies:
        if isinstance(reply, Exception):
            break
    else:  # the usual case
        return [call.read(reply, repeated) for call, reply in zip(calls, replies, strict=True)]
    yield from _try_again(calls, verbs, commands, replies)
    for i, reply in enumerate(replies):
        if isinstance(reply, Exception):
            replies[i] = error = failure(reply, commands[i], verbs)
            if _may_be_refused(calls[i]) and isinstance(error, BrokerRefused):
                replies[i] = None
            elif not (apart and isinstance(error, Passing)):
                raise error
    return [
        reply if isinstance(reply, Exception) else call.read(reply, repeated)
        for call, reply in zip(calls, replies, strict=True)
    ]


def _may_be_refused(call: Call[Any] | Command[Any]) -> bool:
    return isinstance(call, Command) and call.optional


def _try_again(calls: Calls, verbs: Verbs, commands: Commands, replies: list[Any]) -> Exchange:
    """Load missing verbs, or run scripts instead; `commands` and `replies` become those of the last try."""
    failed = [i for i, reply in enumerate(replies) if isinstance(reply, Exception)]
    yield from _load(calls, verbs, commands, replies)
    if not isinstance(verbs, Functions):
        return
    without = {
        i for i in failed if (verb := calls[i].verb) and verbs.does_without(replies[i], commands[i], verb)
    }
    if not without:
        return
    again = [i for i in range(min(without), len(calls)) if i in without or isinstance(calls[i], Command)]
    those = [calls[i] for i in again]
    others = [call.command(verbs) for call in those]
    said = yield others
    yield from _try_again(those, verbs, others, said)
    for i, command, reply in zip(again, others, said, strict=True):
        # otherwise the library may be there, and the user lacks FCALL
        was_load = commands[i][0] == b"FUNCTION"
        commands[i], replies[i] = command, reply
        if i in without and isinstance(reply, exceptions.NoPermissionError) and runs_script(command):
            verbs.use_functions()
            if was_load:
                replies[i] = no_library(denied(command, reply))


def _load(calls: Calls, verbs: Verbs, commands: Commands, replies: list[Any]) -> Exchange:
    """Load what the server does not have, and repeat these calls: `replies` gets what it says then.

    If the server refuses what is loaded, that is the command of the call, and its refusal the reply.
    """
    unknown = [i for i, reply in enumerate(replies) if is_unknown(reply)]
    if not unknown:
        return
    # A plain command may depend on the calls before it (a WAIT): it is repeated with them.
    again = [i for i in range(unknown[0], len(calls)) if i in unknown or isinstance(calls[i], Command)]
    # Each text is loaded right before its call, so that in a cluster both reach the same node.
    loads = {i: verbs[call.verb].load for i in unknown if isinstance(call := calls[i], Call)}
    received = iter((yield [part for i in again for part in (loads.get(i), commands[i]) if part]))
    for i in again:
        refused = next(received) if i in loads else None
        replies[i] = next(received)
        if isinstance(refused, Exception) and not is_loaded(refused):
            commands[i], replies[i] = loads[i], refused


def failure(reply: Exception, command: tuple[Any, ...], verbs: Verbs) -> Exception:
    """The error for an error reply; in a cluster, also for a node that does not answer."""
    if isinstance(reply, Passing | RqDlqError):
        return reply
    text = str(reply)
    if _LINE.search(text):
        reply = type(reply)(_LINE.sub(lambda line: verbs.library.place(int(line[1])) or line[0], text))
    return refusal(reply, command)


def conversation(steps: Steps[Any], verbs: Verbs) -> Exchange:
    """Run steps to their end as one exchange on one connection; returns their result."""
    return drive(steps, partial(perform, verbs=verbs, repeated=False))


_pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command  # pyright: ignore[reportUnknownVariableType]


def packed(command: tuple[Any, ...]) -> bytes:
    """A command as bytes for the wire. The names of a verb and its keys are packed once."""
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
