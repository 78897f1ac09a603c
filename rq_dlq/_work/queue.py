"""What a queue's verbs need to know, in either colour."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _calls
from rq_dlq._names import Address, Naming
from rq_dlq._work.doubts import Doubts
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq._calls import Part, Place
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.confirm import Confirm
    from rq_dlq.codec import Codec, Ids
    from rq_dlq.policy import Entry, RedeliveryPolicy

T = TypeVar("T")


@dataclass
class Queue(Generic[T]):
    """What a queue's verbs need to know, in either colour.

    Attributes:
        part: live, or the dead-letter or expiry queue of the same family.
        declared: what the program said of it in code, which is written to Redis; None: nothing.
        said: the same as it was typed, for who makes the queue again.
        consumer: who claims, as a JSON text.
        unsure: processes and tokens of claims whose outcome is not known; the next claim of that process
            takes one up again (I12).
        doubts: settlements whose outcome is not known.
        found: it was asked whether the name is one that policies gave.
        view: the name is one that policies gave to the dead letters or the expired messages of other queues.
        members: of a view: the queues that it has shown so far, by their names and parts.
        viewed: this is such a member; its tokens say so.
        confirm: who has to confirm what is taken in; None: nobody but the server.
    """

    name: str
    keys: QueueKeys
    part: Part
    codec: Codec[T]
    lease: int
    redelivery: RedeliveryPolicy
    declared: Entry | None
    said: Mapping[str, Any]
    consumer: str
    ids: Ids
    naming: Naming = field(default_factory=Naming)
    opened: bool = False
    unsure: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    doubts: Doubts = field(default_factory=Doubts)
    found: bool = False
    view: bool = False
    members: dict[Address, Queue[T]] = field(default_factory=dict[Address, "Queue[T]"])
    viewed: bool = False
    confirm: Confirm | None = None

    def __post_init__(self) -> None:
        self.policy = _calls.encode_policy(self.redelivery.as_wire())

    def member(self, address: Address) -> Queue[T]:
        """The queue that a view shows at this address."""
        if address not in self.members:
            self.members[address] = replace(
                self,
                keys=replace(self.keys, home=address.home),
                part=address.part,  # type: ignore[arg-type]
                opened=True,
                found=True,
                unsure=deque(),
                view=False,
                members={},
                viewed=True,
            )
        return self.members[address]


def place_of(queue: Queue[Any]) -> Place:
    """Where the messages of a queue wait that can be claimed."""
    return "ready" if queue.part == "live" else queue.part


def places_of(queue: Queue[Any]) -> list[Place]:
    """Where the messages of a queue wait."""
    return ["ready", "scheduled"] if queue.part == "live" else [queue.part]


def sibling(queue: Queue[T], part: Part) -> Queue[T]:
    """The dead-letter or expiry queue of the same family, or itself; by the same name, which may be a view's.

    Raises:
        InvalidInput: the queue is the other one of the two.
    """
    if queue.part not in {part, "live"}:
        only_live(queue, "look for the dead letters of")
    return replace(queue, part=part, declared=None, said={}, unsure=deque(), members={})


def check_limit(limit: int | None) -> None:
    """Raise InvalidInput unless this can be the most that is asked for."""
    if limit is not None and (type(limit) is not int or limit < 0):
        message = f"limit {limit!r}: use a whole number of messages, 0 or more"
        raise InvalidInput(message)


def only_live(queue: Queue[Any], verb: str) -> None:
    """Refuse what makes no sense on a dead-letter or expiry queue."""
    if queue.part != "live" or queue.view:
        whose = "its queues" if queue.view else repr(queue.keys.home)
        message = f"cannot {verb} {queue.name!r}: it takes only what failed in {whose}"
        raise InvalidInput(message)
