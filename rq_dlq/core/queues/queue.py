"""The state of a queue object, shared by both colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from rq_dlq.core.queues.client import Client
from rq_dlq.core.queues.view_state import LastShown, SeenMembers
from rq_dlq.core.steps.indeterminate import Claims, Settlements
from rq_dlq.errors import InvalidInput
from rq_dlq.values.counted import Counted
from rq_dlq.values.names import Address, Naming
from rq_dlq.values.signature import BODIES, Signature, of_bodies

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Part, Place
    from rq_dlq.policy import Entry, RedeliveryPolicy
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.key import Of
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.signature import Taken

T = TypeVar("T")


@dataclass
class QueueName:
    """The name of a queue object, and what it meant when a verb last asked (`core/queues/names.py`).

    What needs no more than the name receives this: it knows nothing of bodies, settings and the broker.

    Attributes:
        part: live, or the dead-letter or expiry queue of the same family.
        opened: whether the queue was opened.
        opening: the word for that; deleting the queue ends it.
        view: the name is only one that policies gave to the dead letters or the expired messages of other
            queues.
        also_letters: it is such a name, and also a queue's.
    """

    name: str
    keys: QueueKeys
    part: Part
    naming: Naming = field(default_factory=Naming, kw_only=True)
    opened: bool = field(default=False, kw_only=True)
    opening: str = field(default="", kw_only=True)
    view: bool = field(default=False, kw_only=True)
    also_letters: bool = field(default=False, kw_only=True)

    @property
    def shows_letters(self) -> bool:
        """Whether dead letters of other queues are under its name."""
        return self.view or self.also_letters


@dataclass
class QueueState(QueueName, Generic[T]):
    """The state of a queue object, shared by both colours: its name, its settings, and its broker's client.

    Attributes:
        codec: of the bodies.
        lease: milliseconds that a delivery is held.
        redelivery: the policy for a queue that has none in Redis.
        declared: the policies that the program declares in code, which are written to Redis; None: no
            policies.
        given: the same as the program passed them, to make the queue object again elsewhere.
        consumer: the process that claims, as a JSON text.
        client: what all queue objects of its broker share.
        limited: a send was told that the queue has a `max_length`, which has a verb of its own.
        indeterminate_claims: claims whose outcome is unknown; the next claim resumes one.
        indeterminate: settlements whose outcome is unknown.
        members: the queues whose dead letters the name has shown so far, by their names and parts.
        seen: the members that have dead letters, as last read.
        shown: what the name showed when a verb last asked; None: no verb did, or it showed no letters.
        viewed: this is such a member; its tokens name its family.
        takes: the tasks that the program takes; empty: bodies of the codec's type (`taken_of`).
        said: whether sent messages had a key, or a dependency.
        counted: the errors that count against a dependency.
        tended: a worker extends the leases of claimed messages, so no extension may make one end sooner.
        masks: conditions on its messages, and counts by a header, see the text that these leave visible;
            None: all of it.
        carries_at: by the server's clock, when its claims carry shares of gathers again: they may not now.
    """

    codec: Codec[T]
    lease: int
    redelivery: RedeliveryPolicy
    declared: Entry | None
    given: Mapping[str, Any]
    consumer: str
    client: Client = field(default_factory=Client)
    limited: bool = False
    indeterminate_claims: Claims = field(default_factory=Claims)
    indeterminate: Settlements = field(default_factory=Settlements)
    members: dict[Address, QueueState[T]] = field(default_factory=dict[Address, "QueueState[T]"])
    seen: SeenMembers = field(default_factory=SeenMembers)
    shown: LastShown | None = None
    viewed: bool = False
    takes: Taken = field(default_factory=dict[str, Signature])
    said: set[Of] = field(default_factory=set["Of"])
    counted: Counted = field(default_factory=Counted)
    tended: bool = False
    masks: Masks | None = None
    carries_at: int = 0

    def __post_init__(self) -> None:
        self.policy = encode_policy(self.redelivery.as_wire())

    def member(self, address: Address) -> QueueState[T]:
        """The member of a view at this address."""
        if address not in self.members:
            self.members[address] = replace(
                self,
                keys=replace(self.keys, family=address.family),
                part=address.part,  # type: ignore[arg-type]
                opened=True,
                opening="",
                indeterminate_claims=Claims(),
                view=False,
                also_letters=False,
                members={},
                seen=SeenMembers(),
                shown=None,
                viewed=True,
            )
        return self.members[address]


def taken_of(queue: QueueState[Any]) -> Taken:
    """The part that the program takes of the queue: its tasks, or bodies of its type."""
    codec = queue.codec
    return queue.takes or {BODIES: of_bodies(codec.type, codec.max_bytes, queue.client.version)}


def forget(queue: QueueName) -> None:
    """Have the queue opened again by its next verb, since it was deleted, or may have been."""
    queue.opened = queue.view = False


def place_of(queue: QueueName) -> Place:
    """The state of a queue's messages that can be claimed."""
    return "ready" if queue.part == "live" else queue.part


def places_of(queue: QueueName) -> list[Place]:
    """The states in which a queue's messages wait."""
    return ["ready", "scheduled"] if queue.part == "live" else [queue.part]


def sibling(queue: QueueState[T], part: Part) -> QueueState[T]:
    """The dead-letter or expiry queue of the same family, or the queue itself; it keeps the queue's name.

    Raises:
        InvalidInput: the queue is the other one of the two.
    """
    if queue.part not in {part, "live"}:
        only_live(queue, "look for the dead letters of")
    return replace(
        queue, part=part, declared=None, given={}, indeterminate_claims=Claims(),
        also_letters=False, members={}, seen=SeenMembers(),
    )  # fmt: skip


def check_limit(limit: int | None, *, optional: bool = True) -> None:
    """Raise InvalidInput unless this is a whole number, 0 or more, or None where that is allowed."""
    if limit is None and optional:
        return
    if type(limit) is not int or limit < 0:
        raise InvalidInput(f"limit {limit!r}: use a whole number of messages, 0 or more")


def only_live(queue: QueueName, verb: str) -> None:
    """Refuse a verb that does not apply to a dead-letter or expiry queue, or a view.

    Raises:
        InvalidInput: the queue is a dead-letter or expiry queue, or a view.
    """
    if queue.view:
        message = (
            f"cannot {verb} {queue.name!r}: it has only the dead letters of other queues, until a message is "
            "sent to it"
        )
        raise InvalidInput(message)
    only_own(queue, verb)


def only_own(queue: QueueName, verb: str) -> None:
    """Refuse a verb that does not apply to the dead-letter or expiry queue of one queue.

    Raises:
        InvalidInput: the queue is one.
    """
    if queue.part != "live":
        family = repr(queue.keys.family)
        raise InvalidInput(f"cannot {verb} {queue.name!r}: it has only messages that failed in {family}")


def encode_policy(redelivery: Mapping[str, object]) -> bytes:
    """A queue's policy as Redis stores it."""
    return msgspec.json.encode({"redelivery": redelivery})
