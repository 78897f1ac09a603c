"""The recent failures of a cluster's nodes, which all connections of a broker share.

An up-to-date map may still contain a dead node: there may be no replica to replace it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from rq_dlq._redis.errors import Passing, is_final

Address: TypeAlias = tuple[str, int]
REST, LONGEST = 10.0, 60.0  # seconds; each call to a frozen node costs a timeout
NEVER = (float("-inf"), Passing(), REST / 2)


@dataclass
class Failures:
    """The nodes that have not answered since they failed. Each failure after a rest doubles the next rest.

    Attributes:
        clock: seconds; tests pass another one.
    """

    clock: Callable[[], float] = time.monotonic
    _last: dict[Address, tuple[float, Exception, float]] = field(
        default_factory=dict[Address, tuple[float, Exception, float]]
    )

    def note(self, node: Address, error: Exception) -> None:
        """Note that a node could not be reached."""
        at, _, rest = self._last.get(node, NEVER)
        now = self.clock()
        if now - at >= rest:  # otherwise an urgent call asked the node early
            rest = min(LONGEST, 2 * rest)
        self._last[node] = now, error, rest

    def forget(self, node: Address) -> None:
        """Note that a node answers."""
        self._last.pop(node, None)

    def __bool__(self) -> bool:
        return bool(self._last)

    def at(self, node: Address) -> float:
        """When a node failed."""
        return self._last.get(node, NEVER)[0]

    def recent(self, node: Address) -> Exception | None:
        """The error of a node that is resting after a failure: calls that can wait do not try it."""
        at, error, rest = self._last.get(node, NEVER)
        return silence(node, error) if self.clock() - at < rest else None


def silence(node: Address, error: Exception) -> Exception:
    """The error in place of a node's replies, with the node's address, unless it is a Unix socket."""
    if is_final(error):
        return error
    host, port = node
    if not port:
        return Passing("its node does not answer")
    failure = Passing(f"its node {host}:{port} does not answer")
    failure.node = f"{host}:{port}"
    return failure
