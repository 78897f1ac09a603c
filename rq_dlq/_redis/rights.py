"""The rights of a Redis user: their names, and the error for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from rq_dlq.errors import MissingRights

RUNS = {b"EVALSHA", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"}  # they run a verb: its keys follow their number
OF_SEVERAL = {
    b"ACL",
    b"CLUSTER",
    b"CONFIG",
    b"FUNCTION",
    b"SCRIPT",
}  # commands whose subcommands are separate rights
ON_CHANNELS = {b"PUBLISH", b"SUBSCRIBE", b"UNSUBSCRIBE"}
WITHOUT_KEY = {*OF_SEVERAL, *ON_CHANNELS, b"ASKING", b"INFO", b"PING", b"SELECT", b"TIME", b"WAIT"}
_QUEUE = re.compile(r".*?\{[^{}]+\}[^:]*:")
_NAMED = re.compile(r"'([\w|]+)' command")
_IN_SCRIPT = re.compile(r"executing the script can't|ACL failure in script")


def denied(command: Sequence[Any], reply: object) -> list[str]:
    """The missing rights in a server's reply to a command, in the syntax of ACL SETUSER."""
    if not isinstance(reply, exceptions.NoPermissionError):
        return []
    if "access" not in str(reply):
        return [f"+{right_of(command)}"]
    names = [f"~{pattern_of(key)}" for key in keys_of(command)]
    return list(dict.fromkeys([*names, *(f"&{pattern_of(name)}" for name in channels_of(command))]))


def right_of(command: Sequence[Any]) -> str:
    """The name of the right for a command: hget, script|load."""
    words = command[:2] if command[0] in OF_SEVERAL else command[:1]
    return "|".join(_text(word).lower() for word in words)


def runs_script(command: Sequence[Any]) -> bool:
    """Whether a command runs or loads a script."""
    return command[0] in {b"EVALSHA", b"EVALSHA_RO", b"SCRIPT"}


def keys_of(command: Sequence[Any]) -> list[str]:
    """The keys in one of our commands."""
    if command[0] in RUNS:
        return [_text(key) for key in command[3 : 3 + command[2]]]
    return [] if command[0] in WITHOUT_KEY else [_text(key) for key in command[1:2]]


def channels_of(command: Sequence[Any]) -> list[str]:
    """The channels in one of our commands."""
    return [_text(name) for name in command[1:2]] if command[0] in ON_CHANNELS else []


def pattern_of(key: str, *, whole: bool = False) -> str:
    """A pattern for all keys of a key's queue; the key itself if it belongs to no queue.

    Args:
        whole: the pattern is for all queues.
    """
    queue = _QUEUE.match(key)
    if queue and whole:
        return f"{queue[0].partition('{')[0]}{{*"
    return f"{queue[0]}*" if queue else key


def _text(part: object) -> str:
    return part.decode() if isinstance(part, bytes) else str(part)


def missing(rights: Sequence[str]) -> MissingRights:
    """The error for these missing rights."""
    message = (
        f"the Redis user lacks {' '.join(rights)}: nothing was done. Grant it with ACL SETUSER, or grant all "
        "rights of its role: `rq-dlq acl` prints the line"
    )
    return MissingRights(message, tuple(rights))


def denial(reply: Exception, command: Sequence[Any]) -> MissingRights | None:
    """The error if the user has no right to a command; None: the reply is another error."""
    text = str(reply)
    if _IN_SCRIPT.search(text):
        message = (
            "the Redis user lacks a right, and a call stopped halfway: grant the right; the next sweep "
            f"then repairs the partial changes (the server replied: {text[:200]})"
        )
        return MissingRights(message)
    if not command and (named := _NAMED.search(text)):
        return missing([f"+{named[1]}"])
    rights = denied(command, reply)
    return missing(rights) if rights else None
