"""Every Redis key, once.

A queue, its dead letters and its expired messages are one family: they share the hash tag, so every operation
is one script on one node of a cluster, and a message that dies changes its place, not its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class QueueKeys:
    """The keys of one queue; what each holds is said in `lua/README.md`.

    Args:
        namespace: what all keys of a broker begin with.
        home: the name of the queue whose family this is.
    """

    namespace: str
    home: str

    def _key(self, name: str) -> str:
        return f"{self.namespace}:{{{self.home}}}:{name}"

    @cached_property
    def by_name(self) -> dict[str, str]:
        """Every key of the queue, by the name that the scripts use."""
        return {name: self._key(name) for name in NAMES}

    @cached_property
    def heads(self) -> dict[str, tuple[object, ...]]:
        """How the commands begin that run scripts on these keys, by the scripts' hashes; filled on use."""
        return {}

    @property
    def silent(self) -> str:
        """A key that never exists: who waits for dead letters sleeps on it, and takes no consumer's call."""
        return self._key("silent")

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]


NAMES = (
    "messages", "states", "history",
    "ready", "scheduled", "dead", "expired", "expiring",
    "leases", "claims",
    "counters", "policy", "wake", "alarm",
)  # fmt: skip


def queues(namespace: str) -> str:
    """The set of the names of all queues."""
    return f"{namespace}:queues"
