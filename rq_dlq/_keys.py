"""Every Redis key.

A queue, its dead letters and its expired messages are one family: they share a hash tag. So every operation
is one call on one node of a cluster. A message that dies moves to another index; its key stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rq_dlq.values.cached import cached_property

_TAGGED = re.compile(r"\{[^{}]+\}\..")


class Keys:
    """The keys for a verb, by the names that it uses."""

    def __getitem__(self, name: str) -> str:
        raise NotImplementedError

    @cached_property
    def heads(self) -> dict[str, tuple[object, ...]]:
        """A cache, by `Verb.key`: the start of the command that runs a verb on these keys."""
        return {}


@dataclass(frozen=True)
class QueueKeys(Keys):
    """The keys of one queue, described in `lua/README.md`.

    Args:
        namespace: the prefix of all keys of a broker.
        family: the name of the queue.
    """

    namespace: str
    family: str

    def _key(self, name: str) -> str:
        tagged = self.family if _TAGGED.match(self.family) else f"{{{self.family}}}"
        return f"{self.namespace}:{tagged}:{name}"

    @cached_property
    def by_name(self) -> dict[str, str]:
        """The keys of `NAMES`."""
        return {name: self._key(STORED.get(name, name)) for name in NAMES}

    def sender(self, nonce: str) -> str:
        """The register of a sender: the number of its last call to this queue; it expires."""
        return self._key(f"sender:{nonce}")

    def stage(self, job: str, attempt: str) -> str:
        """The messages that one attempt of a job staged, until they are committed and moved."""
        return self._key(f"stage:{job}:{attempt}")

    def job(self, job: str) -> str:
        """The commits of a job; it expires."""
        return self._key(f"job:{job}")

    def stream(self, query: str) -> str:
        """The progress of a streaming query."""
        return self._key(f"stream:{query}")

    def redrive(self, job: str) -> str:
        """The ids of the messages of a redrive; it expires."""
        return self._key(f"redrive:{job}")

    def result(self, message_id: str) -> str:
        """A channel, not a key: the outcome of this message is published there."""
        return f"{self['results']}:{message_id}"

    def heard(self, nonce: str) -> str:
        """Another channel: that of the listener that serves all waiting callers of a process."""
        return self._key(f"heard:{nonce}")

    @property
    def confirm(self) -> str:
        """The mark that is written before a WAIT for replicas; it expires."""
        return self._key("confirm")

    @property
    def settings(self) -> str:
        """The queue's settings; a property, so that reading many queues does not build their other keys."""
        return self._key("settings")

    @property
    def silent(self) -> str:
        """A key that never exists: clients waiting for dead letters block on it instead of on `wake`."""
        return self._key("silent")

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]


@dataclass(frozen=True)
class MoreKeys(Keys):
    """The keys of a queue, plus named keys of a sender, a job, or another queue (`to_…`)."""

    queue: QueueKeys
    others: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.others.get(name) or self.queue[name]


@dataclass(frozen=True)
class NamedKeys(Keys):
    """Keys that do not belong to a queue."""

    by_name: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]


NAMES = (
    "messages", "states", "history",
    "ready", "scheduled", "dead", "expired", "expiring",
    "leases", "claims",
    "counters", "settings", "wake", "alarm",
    "committed", "outcomes", "acked_ids",
    "schedules", "ticks",
    "groups", "cleared", "grouped", "reindexed",
    "redrives", "redriving", "audit",
    "seats", "tended", "gates", "special", "strikes", "muted",
    "results", "result_times", "slots", "runs", "failures", "former_seats", "former_lanes",
    "streams", "gathers", "again",
)  # fmt: skip
"""The keys of a queue, in the order in which verbs take them."""
STORED = {"seats": "seated", "former_seats": "seats", "former_lanes": "lanes"}
"""Keys with another name in Redis: in the last two 0.1.0 has seats and states of lanes by other numbers; they
keep it out now (lua/renumber.lua)."""
OTHERS = ("policies", "sender", "job", "staged", "stream", "redrive")
"""Other keys of verbs: of the broker, a sender, a job, a query, a redrive."""


def queues(namespace: str) -> str:
    """The set of the names of all queues."""
    return f"{namespace}:queues"


def policies(namespace: str) -> str:
    """The hash of the map of policies: its version, and an entry for each pattern."""
    return f"{namespace}:policies"


def aliases(namespace: str) -> str:
    """The set of all names that policies ever gave to dead-letter and expiry queues."""
    return f"{namespace}:aliases"


def cancelled(namespace: str, process: str) -> str:
    """The list of cancellation notices for the worker processes with this name."""
    return f"{namespace}:cancelled:{process}"


def audit(namespace: str) -> str:
    """The stream of changes to the map of policies, and of deleted queues."""
    return f"{namespace}:audit"


def processes(namespace: str) -> str:
    """The hash of worker and maintenance processes: the last report of each."""
    return f"{namespace}:processes"
