"""The line of an ACL file that grants a Redis user what a role needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq._redis.rights import RUNS, channels_of, keys_of, pattern_of, right_of
from rq_dlq._scripts import JOINED
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands
    from rq_dlq._redis.role import Role, Way

# Every role may send these: they check the rights, so the check itself does not cover them.
QUESTION: Commands = [(b"MULTI",), (b"DISCARD",)]
# Every role may also send these, though not every server needs them: to check the server, to end a wait on
# time, to select a database other than 0, to find the nodes of a cluster, to record who starts a redrive.
USEFUL: Commands = [
    (b"INFO",),
    (b"PING",),
    (b"TIME",),
    (b"SELECT",),
    (b"CLUSTER", b"SLOTS"),
    (b"CLUSTER", b"INFO"),
    (b"ASKING",),
    (b"ACL", b"WHOAMI"),
]
BOTH: Sequence[Way] = ("functions", "scripts")
FUNCTIONS: Sequence[Way] = ("functions",)
OLD: Sequence[Way] = ("old scripts",)
READS = "%R~"  # the right only to read a key; in Redis 7 and Valkey
# The commands that need more than the right to read a key. A verb declares its keys for both.
CHANGES = frozenset(
    b"BLPOP DEL EVALSHA FCALL HDEL HINCRBY HSET HSETNX LPOP LPUSH LTRIM PERSIST PEXPIRE PSETEX RPUSH SADD "
    b"SET SREM UNLINK XADD XDEL XTRIM ZADD ZREM".split()
)
# The rights for a durability. CONFIG GET also shows passwords, so only users who need it get it.
BY_DURABILITY: Mapping[str, Commands] = {"fsync": [(b"CONFIG", b"GET")], "replicated": [(b"WAIT",)]}


def acl_line(
    role: Role,
    user: str,
    namespace: str,
    queue: str = "*",
    durability: str = "memory",
    *,
    ways: Sequence[Way] = BOTH,
) -> str:
    """A line of an ACL file, without a password; after its first word, the arguments of ACL SETUSER.

    Args:
        role: the role whose rights the line grants.
        user: the name of the Redis user.
        namespace: the broker's namespace.
        queue: the name of a queue, or a pattern in Redis' syntax; "*": all queues.
        durability: the broker's durability.
        ways: how the user may run the verbs; "old scripts": the line is for Redis 6.2, where a key that may
            be read may be written, with any command of the line.

    Raises:
        InvalidInput: the user or the queue is not a single word.
    """
    for word in (user, queue):
        if not word or not word.isprintable() or " " in word:
            raise InvalidInput(f"{shown(word)}: the ACLs of Redis need a single word here, without spaces")
    keys = QueueKeys(namespace, queue)
    commands = role.needs(keys, JOINED) + [call for way in ways for call in role.runs(keys, way, JOINED)]
    more = *QUESTION, *USEFUL, *BY_DURABILITY.get(durability, ())
    rights = {right_of(command) for command in (*commands, *more)}
    heard = {
        f"&{pattern_of(name, whole=queue == '*')}" for command in commands for name in channels_of(command)
    }
    changes, selectors = _changes(commands, whole=queue == "*"), list[str]()
    if ways != OLD:
        changes, selectors = _apart(changes)
    reads = "~" if ways == OLD else READS
    named = [f"{'~' if changes[pattern] else reads}{pattern}" for pattern in sorted(changes)]
    return " ".join(["user", user, "on", "resetkeys", *named, "resetchannels", *sorted(heard), "-@all",
                     *(f"+{right}" for right in sorted(rights)), *selectors])  # fmt: skip


def _changes(commands: Commands, *, whole: bool) -> dict[str, frozenset[bytes]]:
    """The patterns of all keys, each with the commands that change its keys."""
    found: dict[str, frozenset[bytes]] = {}
    for command in commands:
        for key in keys_of(command):
            pattern = pattern_of(key, whole=whole)
            found[pattern] = found.get(pattern, frozenset()) | ({command[0]} & CHANGES)
    return found


def _apart(changes: Mapping[str, frozenset[bytes]]) -> tuple[dict[str, frozenset[bytes]], list[str]]:
    """Selectors for keys of the namespace, with the commands alone that change these; the other patterns.

    Else one SET of such a key by any sender would stop the programs of all queues. What a verb changes
    cannot be apart, since it needs its other keys as well.
    """
    own = {
        pattern: names
        for pattern, names in changes.items()
        if names and "{" not in pattern and not names & RUNS
    }
    by_names: dict[frozenset[bytes], list[str]] = {}
    for pattern, names in sorted(own.items()):
        by_names.setdefault(names, []).append(f"~{pattern}")
    selectors = [
        f"({' '.join([*patterns, *(f'+{right_of((name,))}' for name in sorted(names))])})"
        for names, patterns in by_names.items()
    ]
    return {
        pattern: names if pattern not in own else frozenset() for pattern, names in changes.items()
    }, selectors
