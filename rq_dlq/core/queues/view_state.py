"""The state of the dead letters under a name that a client remembers from one claim to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


@dataclass
class Rotation(Generic[T]):
    """Items that are checked in turn, some at a time."""

    items: Sequence[T] = ()
    begin: int = 0

    def next(self, count: int) -> Sequence[T]:
        """The next `count` items, or those up to the end."""
        part = self.items[self.begin : self.begin + count]
        self.begin = self.begin + count if self.begin + count < len(self.items) else 0
        return part


@dataclass(frozen=True, slots=True)
class LastShown:
    """What a name showed when a verb last asked.

    Attributes:
        families: the queues that there were.
        given: those of their dead-letter and expiry queues that had the name.
    """

    families: Sequence[str]
    given: Sequence[Address]


@dataclass
class SeenMembers:
    """The members that a client has read. It only says where to claim; the claim's script decides.

    Attributes:
        looked: when the client last looked; milliseconds of the server's clock. None: never.
        families: the queues of the namespace; any of them may become a member.
        members: the queues whose dead letters are under the name, and `known`, the same as a set.
        oldest: when the oldest dead letter of a member died, for each member that has any.
        overdue: members where a claim may find dead letters that no index has yet: leases have lapsed there,
            messages have expired, or the outcome of an earlier claim is unknown.
        turn: for a queue that shares its name with dead letters: the next claim begins with these.
    """

    looked: int | None = None
    families: Rotation[str] = field(default_factory=Rotation[str])
    members: Rotation[Address] = field(default_factory=Rotation[Address])
    known: set[Address] = field(default_factory=set[Address])
    oldest: dict[Address, float] = field(default_factory=dict[Address, float])
    overdue: dict[Address, None] = field(default_factory=dict[Address, None])
    turn: bool = False

    def show(self, families: Sequence[str], found: Sequence[Address]) -> list[Address]:
        """Note the members that the name shows of these families; returns the new ones."""
        asked = set(families)
        gone = {address for address in self.known.difference(found) if address.family in asked}
        new = [address for address in found if address not in self.known]
        if gone or new:
            self.known = self.known.difference(gone).union(new)
            self.members.items = [*(one for one in self.members.items if one not in gone), *new]
        for address in gone:
            self.oldest.pop(address, None)
            self.overdue.pop(address, None)
        return new

    def returned(self, family: str) -> None:
        """Note that a dead letter went back to its place, perhaps as the oldest there."""
        for address in (Address(family, "dead"), Address(family, "expired")):
            if address in self.known:
                self.oldest[address] = 0.0  # the next claim reads when it died
