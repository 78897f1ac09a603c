"""Checks the rights of the Redis user before a verb runs for the first time.

A verb that lacks a right stops halfway, with half of its work done. So before its first run, its commands
are queued in a transaction, which is then discarded: the server checks the rights when it queues a command,
and runs no command.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis.loading import Functions
from rq_dlq._redis.rights import WITHOUT_KEY, denied, missing
from rq_dlq._scripts.verb import run_by
from rq_dlq.core.steps.call import Call, Command
from rq_dlq.core.steps.step import calls_of

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step

# The commands of the verbs, by their number of arguments besides a key: a server counts the arguments
# before it checks the rights.
_ARGUMENTS = {
    0: b"DEL EXISTS GET HGETALL HKEYS HLEN LLEN PERSIST UNLINK ZCARD",
    1: b"HDEL HEXISTS HGET HMGET HSCAN HSTRLEN LPUSH PEXPIRE RPUSH SET XDEL ZMSCORE ZRANK ZREM ZSCORE",
    2: b"HINCRBY HSET LRANGE LTRIM PSETEX XREVRANGE ZADD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYSCORE",
    3: b"XADD",
}
FORMS = {name: (b"0",) * count for count, names in _ARGUMENTS.items() for name in names.split()}
# A consumer that claims must also settle, so the rights for all of these are checked before its first claim.
_AFTER = {"claim": ("ack", "nack", "poison", "release", "pass_on", "extend")}
# The plain commands that write.
_WRITING = b"BLPOP DEL HDEL HINCRBY HSET HSETNX LPOP LTRIM PEXPIRE RPUSH SADD SET SREM XADD XTRIM"
WRITES = frozenset(_WRITING.split())


class Rights:
    """The checked rights of the user, so that each is checked only once.

    Attributes:
        proven: the verbs that the user may run.
    """

    def __init__(self) -> None:
        self.proven: set[str] = set()
        self._granted: set[bytes] = set()

    def unproven(self, step: Step) -> list[Call[Any] | Command[Any]]:
        """The commands that Redis may refuse after an earlier one of the same step succeeded.

        A plain command is not included: it is either done or refused.
        """
        calls = calls_of(step)
        if isinstance(step, Command) or not any(map(_writes, calls)):
            return []
        return [call for call in calls if not self._allows(call)]

    def _allows(self, call: Call[Any] | Command[Any]) -> bool:
        return call.verb in self.proven if isinstance(call, Call) else call.parts[0] in self._granted

    def proof(self, calls: Sequence[Call[Any] | Command[Any]], verbs: Verbs) -> Exchange:
        """Check, on one connection, that the user may run all of these calls.

        Raises:
            MissingRights: the user lacks rights; the error names all of them.
        """
        wanted: dict[bytes, tuple[Any, ...]] = {}
        for call in calls:
            command = call.command(verbs)
            if isinstance(call, Command):
                wanted[command[0]] = command
            elif new := _all_of(call.verb, verbs) - self._granted:
                wanted |= {trial[0]: trial for trial in trials(new, command[3])}
                if not isinstance(verbs, Functions):  # a user who may not call these runs a script
                    wanted[command[0]] = command[: 3 + command[2]]
        if wanted and (lacking := (yield from refused(list(wanted.values())))):
            raise missing(lacking)
        self._granted |= wanted.keys()
        self.proven |= {call.verb for call in calls if isinstance(call, Call)}

    def forget(self) -> None:
        """Forget all checks: the next connection may reach another server, or a right may be revoked."""
        self.proven.clear()
        self._granted.clear()


def _all_of(verb: str, verbs: Verbs) -> set[bytes]:
    """The commands of a verb, and of the verbs that must follow it."""
    ran = run_by(verb)
    return {name for one in ran for each in (one, *_AFTER.get(one, ())) for name in verbs[each].commands}


def _writes(call: Call[Any] | Command[Any]) -> bool:
    return isinstance(call, Call) or call.parts[0] in WRITES


def trials(names: Iterable[bytes], key: str) -> Iterator[tuple[Any, ...]]:
    """A minimal valid call of each of these commands."""
    return ((name,) if name in WITHOUT_KEY else (name, key, *FORMS[name]) for name in sorted(names))


def refused(commands: Commands) -> Generator[Commands, list[Any], list[str]]:
    """Queue commands in a transaction and discard it; returns the missing rights.

    Run it on one connection, and close that connection after an error: a transaction may be open. A proxy may
    not support transactions: then nothing can be checked, and the list is empty.

    Raises:
        MissingRights: the user has no right to MULTI or DISCARD.
    """
    (opened,) = yield [(b"MULTI",)]
    if isinstance(opened, exceptions.NoPermissionError):
        raise missing(["+multi", "+discard"])
    if isinstance(opened, Exception):
        return []
    *replies, ended = yield [*commands, (b"DISCARD",)]
    lacking = {right: None for command, reply in zip(commands, replies, strict=True)
               for right in denied(command, reply)}  # fmt: skip
    if isinstance(ended, Exception):
        raise missing([*lacking, "+discard"])
    return list(lacking)
