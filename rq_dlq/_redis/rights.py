"""What the Redis user may do, asked before it matters.

A script that lacks a right in its middle leaves half of its work. So before it runs for the first time, its
commands are queued in a transaction that is then dropped: a server looks at rights when it queues, and runs
nothing of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._calls import Call, Command
from rq_dlq._work import Batch
from rq_dlq.errors import MissingRights

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step

# The commands of the scripts, by the arguments that they need beside a key: a server counts those first, and
# looks at rights then.
_ARGUMENTS = {
    0: b"DEL EXISTS GET HGETALL HKEYS HLEN LLEN PERSIST ZCARD",
    1: b"HDEL HEXISTS HGET HMGET LPUSH PEXPIRE SET ZREM ZSCORE",
    2: b"HINCRBY HSET LRANGE LTRIM ZADD ZCOUNT ZRANGE ZRANGEBYSCORE",
    3: b"XADD",
}
FORMS = {name: (b"0",) * count for count, names in _ARGUMENTS.items() for name in names.split()}
_OF_SEVERAL = {b"CLUSTER", b"CONFIG", b"SCRIPT"}  # commands whose parts are rights of their own
_WITHOUT_KEY = {*_OF_SEVERAL, b"ASKING", b"INFO", b"PING", b"SELECT", b"TIME", b"WAIT"}
# Who claims has to settle, so all of it is asked for at once.
_AFTER = {"claim": ("begin", "ack", "nack", "poison", "release", "extend")}
# The plain commands that change something.
WRITES = frozenset(b"DEL HDEL HSET LTRIM PEXPIRE RPUSH SADD SET SREM XTRIM".split())
_QUEUE = re.compile(r".*?\{[^{}]+\}[^:]*:")
_NAMED = re.compile(r"'([\w|]+)' command")
_IN_SCRIPT = re.compile(r"executing the script can't|ACL failure in script")


class Rights:
    """What the user was seen to be allowed, so that it is asked once.

    Attributes:
        proven: the scripts that may run.
    """

    def __init__(self) -> None:
        self.proven: set[str] = set()
        self._granted: set[bytes] = set()

    def unproven(self, step: Step) -> list[Call[Any] | Command[Any]]:
        """What a step says that may be refused after something else of it was done.

        A plain command by itself is not among it: it is done, or refused.
        """
        if isinstance(step, Call):
            return [] if step.script in self.proven else [step]
        if not isinstance(step, Batch) or not any(map(_writes, step.calls)):
            return []
        return [call for call in step.calls if not self._allows(call)]

    def _allows(self, call: Call[Any] | Command[Any]) -> bool:
        return call.script in self.proven if isinstance(call, Call) else call.parts[0] in self._granted

    def proof(self, calls: Sequence[Call[Any] | Command[Any]], scripts: Scripts) -> Exchange:
        """What is said on one connection, to see that all of this may run.

        Raises:
            MissingRights: it may not; all that is lacking is named.
        """
        wanted: dict[bytes, tuple[Any, ...]] = {}
        for call in calls:
            command = call.command(scripts)
            if isinstance(call, Command):
                wanted[command[0]] = command
            elif new := _all_of(call.script, scripts) - self._granted:
                wanted |= {trial[0]: trial for trial in trials(new, command[3])}
                wanted[command[0]] = command[: 3 + command[2]]
        if wanted and (lacking := (yield from refused(list(wanted.values())))):
            raise missing(lacking)
        self._granted |= wanted.keys()
        self.proven |= {call.script for call in calls if isinstance(call, Call)}

    def forget(self) -> None:
        """Ask again: the next connection may be to another server, or a right was taken away."""
        self.proven.clear()
        self._granted.clear()


def _all_of(script: str, scripts: Scripts) -> set[bytes]:
    """The commands of a script, and of those that have to follow it."""
    return {name for one in (script, *_AFTER.get(script, ())) for name in scripts[one].commands}


def _writes(call: Call[Any] | Command[Any]) -> bool:
    return isinstance(call, Call) or call.parts[0] in WRITES


def trials(names: Iterable[bytes], key: str) -> Iterator[tuple[Any, ...]]:
    """The least that makes a valid call of each of these commands."""
    return ((name,) if name in _WITHOUT_KEY else (name, key, *FORMS[name]) for name in sorted(names))


def refused(commands: Commands) -> Generator[Commands, list[Any], list[str]]:
    """Queue commands, and drop them; the rights that are lacking.

    To be run on one connection, which has to be closed after an error: a transaction may be open. Where there
    are none (some proxies), nothing is known before a command runs.

    Raises:
        MissingRights: to ask this.
    """
    (said,) = yield [(b"MULTI",)]
    if isinstance(said, exceptions.NoPermissionError):
        raise missing(["+multi", "+discard"])
    if isinstance(said, Exception):
        return []
    *replies, ended = yield [*commands, (b"DISCARD",)]
    lacking = {right: None for command, reply in zip(commands, replies, strict=True)
               for right in denied(command, reply)}  # fmt: skip
    if isinstance(ended, Exception):
        raise missing([*lacking, "+discard"])
    return list(lacking)


def denied(command: Sequence[Any], reply: object) -> list[str]:
    """The rights that a server says are lacking for a command, as ACL SETUSER takes them; else none."""
    if not isinstance(reply, exceptions.NoPermissionError):
        return []
    if "access" not in str(reply):
        return [f"+{right_of(command)}"]
    return list(dict.fromkeys(f"~{pattern_of(key)}" for key in keys_of(command)))


def right_of(command: Sequence[Any]) -> str:
    """How the right to a command is called: hget, script|load."""
    words = command[:2] if command[0] in _OF_SEVERAL else command[:1]
    return "|".join(_text(word).lower() for word in words)


def keys_of(command: Sequence[Any]) -> list[str]:
    """The keys of one of our commands."""
    if command[0] == b"EVALSHA":
        return [_text(key) for key in command[3 : 3 + command[2]]]
    return [] if command[0] in _WITHOUT_KEY else [_text(key) for key in command[1:2]]


def pattern_of(key: str) -> str:
    """The keys of the queue that this one belongs to; or itself."""
    queue = _QUEUE.match(key)
    return f"{queue[0]}*" if queue else key


def _text(part: object) -> str:
    return part.decode() if isinstance(part, bytes) else str(part)


def missing(rights: Sequence[str]) -> MissingRights:
    """The error that names them."""
    message = (
        f"the Redis user lacks {' '.join(rights)}: nothing was done. Grant that by ACL SETUSER, or all that "
        "its role needs: `rq-dlq acl` prints the line"
    )
    return MissingRights(message, tuple(rights))


def denial(reply: Exception, command: Sequence[Any]) -> MissingRights | None:
    """The error for a command that the user may not use; None: that is not what the server says."""
    text = str(reply)
    if _IN_SCRIPT.search(text):
        message = (
            "the Redis user lacks a right, as only the middle of a script has shown: grant it, and what the "
            f"script had begun is mended by the next sweep (the server said: {text[:200]})"
        )
        return MissingRights(message)
    if not command and (named := _NAMED.search(text)):
        return missing([f"+{named[1]}"])
    rights = denied(command, reply)
    return missing(rights) if rights else None
