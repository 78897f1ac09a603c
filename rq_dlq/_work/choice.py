"""Which messages a verb takes: by ids, by state, by conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rq_dlq._work.queue import check_limit, places_of
from rq_dlq.errors import InvalidInput
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.names import check_id
from rq_dlq.values.wanted import STATE, STORY, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._calls import Place
    from rq_dlq._work.queue import Queue
    from rq_dlq.filters import Filter
    from rq_dlq.values.message import Received
    from rq_dlq.values.wanted import Wanted


class Condition(Protocol):
    """A condition on messages, such as a filter."""

    @property
    def needs(self) -> Wanted:
        """The parts of a message that it reads."""
        ...

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether a message meets the condition; `now` is the server's time in milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class OfKind:
    """Dead letters with one fingerprint."""

    fingerprint: str
    needs = STORY

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether a message meets the condition."""
        del now
        return isinstance(message, DeadLetter) and message.fingerprint == self.fingerprint


@dataclass(frozen=True, slots=True)
class DeadOf:
    """Dead letters with one reason."""

    reason: str
    needs = STATE

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether a message meets the condition."""
        del now
        return isinstance(message, DeadLetter) and message.reason == self.reason


@dataclass(frozen=True, slots=True)
class Died:
    """Dead letters that died within a time.

    Attributes:
        since: the first moment, milliseconds of the server's clock.
        older_than: milliseconds since the death, or more.
    """

    since: int | None = None
    older_than: int | None = None
    needs = STATE

    def until(self, now: int) -> float:
        """The last moment that counts."""
        return float("inf") if self.older_than is None else now - self.older_than

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether a message meets the condition."""
        if not isinstance(message, DeadLetter):
            return False
        died = round(message.died_at.timestamp() * 1000)
        return (self.since or 0) <= died <= self.until(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which messages a verb takes; None: no condition.

    Attributes:
        places: the states to look in, in this order; None: those in which the messages of a queue wait.
        where: a condition in words.
        group: the fingerprint of dead letters; `reason`, `died`: why and when they died.
        limit: at most so many, the first in their order.
        newest: reverse the order.
    """

    places: Sequence[Place] | None = None
    ids: Sequence[str] | None = None
    where: Filter | None = None
    group: str | None = None
    reason: str | None = None
    died: Died | None = None
    limit: int | None = None
    newest: bool = False

    def __post_init__(self) -> None:
        for message_id in self.ids or ():
            check_id(message_id)
        check_limit(self.limit)

    @property
    def conditions(self) -> list[Condition]:
        """All of them; a message has to meet each."""
        given: list[Condition | None] = [
            None if self.group is None else OfKind(self.group),
            None if self.reason is None else DeadOf(self.reason),
            self.died,
            self.where,
        ]
        return [condition for condition in given if condition is not None]

    @property
    def needs(self) -> Wanted:
        """The parts of messages that the conditions read."""
        return together(condition.needs for condition in self.conditions)

    @property
    def is_all(self) -> bool:
        """Whether it takes every message in its states."""
        return self.ids is None and self.limit is None and not self.conditions

    def places_in(self, queue: Queue[Any]) -> list[Place]:
        """The states to look in for a queue; for a dead-letter or expiry queue only its own."""
        if self.places is None:
            return places_of(queue)
        return [place for place in self.places if queue.part in {"live", place}]

    def check_places(self, queue: Queue[Any]) -> None:
        """Check that the queue has the places.

        Raises:
            InvalidInput: it is a dead-letter or expiry queue, and this is not what it holds.
        """
        held = {"dead", "expired"} if queue.view else {queue.part}
        other = [place for place in self.places or () if place not in held]
        if other and (queue.view or queue.part != "live"):
            home = "its queues by their names" if queue.view else repr(queue.keys.home)
            what = "dead or expired" if queue.view else queue.part
            message = f"{queue.name!r} holds only what is {what}: for what is {other[0]}, select from {home}"
            raise InvalidInput(message)
