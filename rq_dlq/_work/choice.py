"""Which messages a verb takes: by ids, by state, by conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq._work.queue import check_limit, places_of
from rq_dlq.errors import InvalidInput
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.names import check_id
from rq_dlq.values.wanted import NOTHING, STATE, STORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._calls import Place
    from rq_dlq._work.queue import Queue
    from rq_dlq.filters import Filter
    from rq_dlq.values.message import Received
    from rq_dlq.values.wanted import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which messages a verb takes; None: no condition. A message has to meet all conditions.

    Attributes:
        places: the states to look in, in this order; None: those in which the messages of a queue wait.
        where: a condition in words.
        group: the fingerprint of dead letters; `reason`: why they died.
        since: when they died at the earliest, milliseconds of the server's clock.
        older_than: milliseconds since they died, or more.
        limit: at most so many, the first in their order.
        newest: reverse the order.
    """

    places: Sequence[Place] | None = None
    ids: Sequence[str] | None = None
    where: Filter | None = None
    group: str | None = None
    reason: str | None = None
    since: int | None = None
    older_than: int | None = None
    limit: int | None = None
    newest: bool = False

    def __post_init__(self) -> None:
        for message_id in self.ids or ():
            check_id(message_id)
        check_limit(self.limit)

    @property
    def _of_dead_letters(self) -> bool:
        """Whether it has a condition that only dead letters meet."""
        conditions = (self.group, self.reason, self.since, self.older_than)
        return any(condition is not None for condition in conditions)

    @property
    def conditional(self) -> bool:
        """Whether it has any condition."""
        return self.where is not None or self._of_dead_letters

    @property
    def is_all(self) -> bool:
        """Whether it takes every message in its states."""
        return self.ids is None and self.limit is None and not self.conditional

    @property
    def needs(self) -> Wanted:
        """The parts of messages that the conditions read."""
        needs = NOTHING if self.where is None else self.where.needs
        if self._of_dead_letters:
            needs |= STATE if self.group is None else STORY
        return needs

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether a message meets the conditions; `now` is the server's time in milliseconds."""
        if self._of_dead_letters and not (isinstance(message, DeadLetter) and self._takes_dead(message, now)):
            return False
        return self.where is None or self.where.takes(message, now)

    def _takes_dead(self, letter: DeadLetter[Any], now: int) -> bool:
        died = round(letter.died_at.timestamp() * 1000)
        return (
            (self.since is None or died >= self.since)
            and (self.older_than is None or died <= now - self.older_than)
            and (self.reason is None or letter.reason == self.reason)
            and (self.group is None or letter.fingerprint == self.group)
        )

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
