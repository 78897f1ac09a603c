"""The line of an ACL file that grants a Redis user what a role needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq._redis.rights import channels_of, keys_of, pattern_of, right_of
from rq_dlq._scripts import SCRIPTS, Scripts
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands
    from rq_dlq._redis.roles import Role

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
READS = "%R~"  # the right only to read a key; in Redis 7 and Valkey
# The commands that need more than the right to read a key. A script declares its keys for both.
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
    reads: str = READS,
    scripts: Scripts = SCRIPTS,
) -> str:
    """A line of an ACL file, without a password; after its first word, the arguments of ACL SETUSER.

    Args:
        role: the role whose rights the line grants.
        user: the name of the Redis user.
        namespace: the broker's namespace.
        queue: the name of a queue, or a pattern in Redis' syntax; "*": all queues.
        durability: the broker's durability.
        reads: the prefix for keys that the role only reads; Redis 6.2 has only "~", which includes writing.
        scripts: the form of the verbs.

    Raises:
        InvalidInput: the user or the queue is not a single word.
    """
    for word in (user, queue):
        if not word or not word.isprintable() or " " in word:
            raise InvalidInput(f"{shown(word)}: the ACLs of Redis need a single word here, without spaces")
    commands = role.needs(QueueKeys(namespace, queue), scripts)
    patterns = {
        (pattern_of(key, whole=queue == "*"), command[0] in CHANGES)
        for command in commands
        for key in keys_of(command)
    }
    written = {pattern for pattern, changes in patterns if changes}
    more = *QUESTION, *USEFUL, *BY_DURABILITY.get(durability, ())
    rights = {right_of(command) for command in (*commands, *more)}
    keys = [
        f"{'~' if pattern in written else reads}{pattern}"
        for pattern in sorted({pattern for pattern, _ in patterns})
    ]
    heard = {
        f"&{pattern_of(name, whole=queue == '*')}" for command in commands for name in channels_of(command)
    }
    return " ".join(["user", user, "on", "resetkeys", *keys, "resetchannels", *sorted(heard), "-@all",
                     *(f"+{right}" for right in sorted(rights))])  # fmt: skip
