"""What a role of Redis users is, and the rights that it needs.

The calls of its programs define a role: verbs, whose commands are read from the Lua, and plain commands. The
role's ACL line (`acl`) and the check for missing rights are derived from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rq_dlq._redis.exchange import perform
from rq_dlq._redis.proof import refused, trials
from rq_dlq._redis.rights import pattern_of
from rq_dlq._scripts import Joined
from rq_dlq.core.policies import calls as policy_calls

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step

    Steps = Iterator[Step]

Way: TypeAlias = Literal["functions", "scripts", "old scripts"]
"""How a user runs the verbs: as Redis Functions, as a script, or as one on Redis 6.2."""
_WORDS: Mapping[Way, tuple[bytes, bytes]] = {
    "functions": (b"FCALL", b"FCALL_RO"),
    "scripts": (b"EVALSHA", b"EVALSHA_RO"),
    "old scripts": (b"EVALSHA", b"EVALSHA"),
}
"""The commands that run verbs: those that change something, and those that only read."""
LOADING: Commands = [
    (b"FUNCTION", b"LOAD", "#!lua name=rq_"),
    (b"FUNCTION", b"LIST"),
    (b"FUNCTION", b"DELETE", "rq_"),
]
ID = "id"  # of a message, a sender, a job or a redrive


@dataclass(frozen=True, slots=True)
class Role:
    """The calls that programs of one kind send to Redis.

    Attributes:
        does: the purpose of the role, in one line.
        verbs: the verbs that the programs run.
        plain: the steps without verbs, on the keys of a queue.
        loads: it may load and delete libraries, which run with the rights of their callers.
    """

    name: str
    does: str
    verbs: Sequence[str]
    plain: Callable[[QueueKeys], Steps]
    loads: bool = False

    def needs(self, keys: QueueKeys, verbs: Verbs) -> Commands:
        """A minimal valid call of each command that the role needs, besides one way of `runs`."""
        found: dict[tuple[str, bytes], tuple[Any, ...]] = {}
        for name in self.verbs:
            verb = verbs[name]
            key = _key(keys, (verb.keys or verb.families)[0])
            found |= {(key, trial[0]): trial for trial in trials(verb.commands, key)}
        plain = [command for step in self.plain(keys)
                 for command in next(perform(step, verbs, repeated=False))]  # fmt: skip
        return [*found.values(), *plain]

    def runs(self, keys: QueueKeys, way: Way, verbs: Verbs) -> Commands:
        """The same for the commands that run the verbs in a way, and make them known to a server."""
        words = _WORDS[way]
        found: dict[tuple[bytes, str], tuple[Any, ...]] = {}
        for verb in map(verbs.__getitem__, self.verbs):
            word, key = words[verb.reads], _key(keys, (verb.keys or verb.families)[0])
            found.setdefault((word, pattern_of(key)), (word, "0" * 40, 1, key))
        loads = (b"SCRIPT", b"LOAD", b"return 1")
        return [*found.values(), *([loads] if way != "functions" else LOADING if self.loads else [])]


def missing_rights(roles: Sequence[Role], keys: QueueKeys, verbs: Verbs) -> Exchange:
    """Find, on one connection, the rights that a user lacks for all these roles on a queue.

    One way to run the verbs is enough; of a user who has none, the rights for the usual one are named.

    Raises:
        MissingRights: the user has no right to ask.
    """
    lacking: dict[str, None] = {}
    ways: tuple[Way, ...] = ("functions", "scripts", "old scripts")
    for role in roles:
        lacking |= dict.fromkeys((yield from refused(role.needs(keys, verbs))))
        missed: dict[Way, list[str]] = {}
        for way in ways[-1:] if isinstance(verbs, Joined) and verbs.form == "bare" else ways:
            missed[way] = yield from refused(role.runs(keys, way, verbs))
        if all(missed.values()):
            lacking |= dict.fromkeys(next(iter(missed.values())))
    return list(lacking)


def _key(keys: QueueKeys, name: str) -> str:
    """A key by its name in a verb."""
    others = {
        "sender": keys.sender(ID),
        "job": keys.job(ID),
        "stream": keys.stream(ID),
        "redrive": keys.redrive(ID),
        "policies": policy_calls.policies(keys.namespace).parts[1],
    }
    return str(others.get(name) or keys[name])
