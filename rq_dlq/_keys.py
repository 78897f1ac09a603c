"""Every Redis key, once.

A queue, its dead letters and its expired messages are one family: they share the hash tag, so every operation
is one script on one node of a cluster, and a message that dies changes its place, not its key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TAGGED = re.compile(r"\{[^{}]+\}\..")


class Keys:
    """What a script is given its keys from, by the names that it uses."""

    def __getitem__(self, name: str) -> str:
        raise NotImplementedError

    @cached_property
    def heads(self) -> dict[str, tuple[object, ...]]:
        """How the commands begin that run scripts on these keys, by the scripts' hashes; filled on use."""
        return {}


@dataclass(frozen=True)
class QueueKeys(Keys):
    """The keys of one queue; what each holds is said in `lua/README.md`.

    Args:
        namespace: what all keys of a broker begin with.
        home: the name of the queue whose family this is.
    """

    namespace: str
    home: str

    def _key(self, name: str) -> str:
        tagged = self.home if _TAGGED.match(self.home) else f"{{{self.home}}}"
        return f"{self.namespace}:{tagged}:{name}"

    @cached_property
    def by_name(self) -> dict[str, str]:
        """Every key of the queue, by the name that the scripts use."""
        return {name: self._key(name) for name in NAMES}

    @property
    def tag(self) -> str:
        """What decides on which node of a cluster the queue is."""
        return self.home[1 : self.home.index("}")] if _TAGGED.match(self.home) else self.home

    def commit(self, commit_id: str) -> str:
        """The key that remembers for a while that a session was committed."""
        return self._key(f"commit:{commit_id}")

    def stage(self, job: str, attempt: str) -> str:
        """The list of what one attempt of a job wrote, until the job is committed and it is moved."""
        return self._key(f"stage:{job}:{attempt}")

    def job(self, job: str) -> str:
        """The key that remembers for a while what a job has committed."""
        return self._key(f"job:{job}")

    def stream(self, query: str) -> str:
        """The key that remembers how far a streaming query has come with its batches."""
        return self._key(f"stream:{query}")

    @property
    def confirm(self) -> str:
        """What is written to ask replicas for what was written before; goes by itself."""
        return self._key("confirm")

    @property
    def silent(self) -> str:
        """A key that never exists: who waits for dead letters sleeps on it, and takes no consumer's call."""
        return self._key("silent")

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]


@dataclass(frozen=True)
class KeysOfTwo(Keys):
    """The keys of a queue and, as `to_…`, of another one."""

    source: QueueKeys
    target: QueueKeys

    def __getitem__(self, name: str) -> str:
        target = name.removeprefix("to_")
        return self.source[name] if target == name else self.target[target]


@dataclass(frozen=True)
class StagedKeys(Keys):
    """The keys of a queue and those of a job that writes to it: what it remembers, and one of its lists."""

    queue: QueueKeys
    job: str
    attempt: str = ""

    def __getitem__(self, name: str) -> str:
        if name == "job":
            return self.queue.job(self.job)
        return self.queue.stage(self.job, self.attempt) if name == "staged" else self.queue[name]


@dataclass(frozen=True)
class NamedKeys(Keys):
    """Keys that are no queue's."""

    by_name: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]


NAMES = (
    "messages", "states", "history",
    "ready", "scheduled", "dead", "expired", "expiring",
    "leases", "claims",
    "counters", "settings", "wake", "alarm",
    "committed", "outcomes",
)  # fmt: skip


def queues(namespace: str) -> str:
    """The set of the names of all queues."""
    return f"{namespace}:queues"


def policies(namespace: str) -> str:
    """The hash of the map of policies: its version, and an entry for each pattern."""
    return f"{namespace}:policies"


def aliases(namespace: str) -> str:
    """The set of names that policies ever gave to the dead letters or the expired messages of queues."""
    return f"{namespace}:aliases"


def maintainers(namespace: str) -> str:
    """The hash of the processes that maintain the queues: what each said of itself last."""
    return f"{namespace}:maintainers"
