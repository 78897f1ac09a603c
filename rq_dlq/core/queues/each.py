"""Many queues in few round trips; one that cannot be read hides no other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rq_dlq.core.steps.step import NodeUnavailable, Steps, chunks
from rq_dlq.errors import BrokerRefused, MissingRights

if TYPE_CHECKING:
    from collections.abc import Callable


Q = TypeVar("Q")
AT_ONCE = 50  # queues in one round trip: less than a millisecond of Redis


@dataclass(frozen=True, slots=True)
class UnreachableQueue:
    """A queue that could not be read: it is damaged, or its node of a cluster does not answer.

    Attributes:
        name: of the queue.
        node: the address of its node, which does not answer; empty: it does, and `error` has the problem.
        error: the whole sentence.
    """

    name: str
    node: str
    error: str

    @property
    def why(self) -> str:
        """The problem, in a few words."""
        return f"unreachable: node {self.node}" if self.node else f"unreachable: {self.error}"


def lost_queue(name: str, error: NodeUnavailable) -> UnreachableQueue:
    """A queue whose node does not answer."""
    return UnreachableQueue(name, error.node, str(error))


def each_queue(
    names: Sequence[str], read: Callable[[Sequence[str]], Steps[list[Q | UnreachableQueue]]]
) -> Steps[list[Q | UnreachableQueue]]:
    """Read queues, many in one round trip; one that the server refuses to read is unreachable.

    Raises:
        MissingRights: the user may not read one of them.
        BrokerRefused: the server refuses to read any.
    """
    found: list[Q | UnreachableQueue] = []
    parts, refused = deque(chunks(names, AT_ONCE)), 0
    while parts:
        part = parts.popleft()
        try:
            found += yield from read(part)
        except MissingRights:
            raise
        except BrokerRefused as error:
            if len(part) > 1:  # a damaged one must not hide the others
                parts.extendleft([name] for name in reversed(part))
                continue
            if refused == len(found) and refused + 1 >= min(len(names), AT_ONCE):
                raise
            refused += 1
            found.append(UnreachableQueue(part[0], "", str(error)))
    return found
