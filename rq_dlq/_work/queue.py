"""What a queue's verbs need to know, in either colour."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _calls
from rq_dlq._names import Address
from rq_dlq._work.steps import Batch, Steps
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from rq_dlq._calls import Call, Command, Part, Place
    from rq_dlq._keys import QueueKeys
    from rq_dlq._names import Naming
    from rq_dlq.codec import Codec, Ids
    from rq_dlq.policy import RedeliveryPolicy

T = TypeVar("T")


@dataclass
class Queue(Generic[T]):
    """What a queue's verbs need to know, in either colour.

    Attributes:
        part: live, or the dead-letter or expiry queue of the same family.
        consumer: who claims, as a JSON text.
        declares: the policy was given in code, so it is written to Redis.
        unsure: processes and tokens of claims whose outcome is not known; the next claim of that process
            takes one up again (I12).
    """

    name: str
    keys: QueueKeys
    part: Part
    codec: Codec[T]
    lease: int
    redelivery: RedeliveryPolicy
    declares: bool
    consumer: str
    ids: Ids
    opened: bool = False
    unsure: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])

    def __post_init__(self) -> None:
        self.policy = _calls.encode_policy(self.redelivery.as_wire())


def open_queue(queue: Queue[Any]) -> Steps[None]:
    """Before the first send or claim: note the queue's name and declare its policy."""
    if not queue.opened:
        calls: list[Call[Any] | Command[Any]] = [_calls.register(queue.keys)]
        if queue.declares:
            calls.append(_calls.declare(queue.keys, queue.policy))
        yield Batch(calls)
        queue.opened = True


def place_of(queue: Queue[Any]) -> Place:
    """Where the messages of a queue wait that can be claimed."""
    return "ready" if queue.part == "live" else queue.part


def places_of(queue: Queue[Any]) -> list[Place]:
    """Where the messages of a queue wait."""
    return ["ready", "scheduled"] if queue.part == "live" else [queue.part]


def sibling(queue: Queue[T], part: Part, naming: Naming) -> Queue[T]:
    """The dead-letter or expiry queue of the same family.

    Raises:
        InvalidInput: the queue is one itself.
    """
    only_live(queue, "look for the dead letters of")
    name = naming.name_of(Address(queue.keys.home, part))
    return replace(queue, name=name, part=part, declares=False)


def check_limit(limit: int | None) -> None:
    """Raise InvalidInput unless this can be the most that is asked for."""
    if limit is not None and (type(limit) is not int or limit < 0):
        message = f"limit {limit!r}: use a whole number of messages, 0 or more"
        raise InvalidInput(message)


def only_live(queue: Queue[Any], verb: str) -> None:
    """Refuse what makes no sense on a dead-letter or expiry queue."""
    if queue.part != "live":
        message = f"cannot {verb} {queue.name!r}: it takes only what failed in {queue.keys.home!r}"
        raise InvalidInput(message)
