"""Messages chosen by a condition, and what operators do to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq._work import Choice, select
from rq_dlq.durations import shown
from rq_dlq.errors import InvalidInput
from rq_dlq.filters import Filter

if TYPE_CHECKING:
    from rq_dlq import _work
    from rq_dlq._calls import Place
    from rq_dlq.base import BrokerBase
    from rq_dlq.broker import Broker
    from rq_dlq.message import Received
    from rq_dlq.queue import Queue

T = TypeVar("T")
PLACES = ("ready", "scheduled", "leased", "dead", "expired")


class Selection(Generic[T]):
    """`queue.select(…)`: what is chosen, and what can be done to it.

    Each verb works in chunks, can be stopped half-way and said again, and returns how many messages it
    changed; of a chunk whose reply was lost, what its repetition changed. What is being worked on (leased)
    can be looked at and counted; no verb touches it.
    """

    def __init__(self, work: _work.Queue[T], broker: Broker, chosen: Choice) -> None:
        self._work = work
        self._broker = broker
        self._choice = chosen

    def browse(self) -> list[Received[T]]:
        """The messages themselves, in their order; `DeadLetter` where they are dead or expired."""
        return self._broker.run_steps(select.chosen(self._work, self._choice))

    def count(self) -> int:
        """How many there are."""
        return self._broker.run_steps(select.count(self._work, self._choice))

    def count_by(self, header: str) -> dict[str | None, int]:
        """How many there are for each value of a header (None: without it), the most frequent first."""
        return self._broker.run_steps(select.count_by(self._work, self._choice, header))

    def redrive(self) -> int:
        """Bring dead or expired ones back to their queue: same id, fresh budget, history kept."""
        return self._broker.run_steps(select.redrive(self._work, self._choice))

    def dead_letter(self, reason: str = "sent to the dead-letter queue by hand") -> int:
        """Send waiting ones to the dead-letter queue; dropped, and counted, where the strategy discards."""
        return self._broker.run_steps(select.dead_letter(self._work, self._choice, reason))

    def expire(self) -> int:
        """Expire waiting ones now, whatever their time to live."""
        return self._broker.run_steps(select.expire_now(self._work, self._choice))

    def deliver_now(self) -> int:
        """Make scheduled ones ready, at the place where they were sent: so ahead of what was sent later."""
        return self._broker.run_steps(select.deliver_now(self._work, self._choice))

    def prioritise(self, priority: int) -> int:
        """Give waiting ones another priority, 0 (last) to 9 (first)."""
        return self._broker.run_steps(select.prioritise(self._work, self._choice, priority))

    def move(self, to: Queue[T] | str) -> int:
        """Move them to another queue, in one step each chunk: same ids, history told on.

        What that queue knows by its id stays where it is.

        Raises:
            InvalidInput: it is the same queue, or there is no such queue; nothing was moved.
            CrossSlot: a cluster keeps the two queues on different nodes.
        """
        target = self._target(to)
        return self._broker.run_steps(select.transfer(self._work, self._choice, target, keep=False))

    def copy(self, to: Queue[T] | str) -> int:
        """Copy them to another queue, under their ids and with counts of their own; otherwise as `move`."""
        target = self._target(to)
        return self._broker.run_steps(select.transfer(self._work, self._choice, target, keep=True))

    def remove(self) -> int:
        """Remove them for good."""
        return self._broker.run_steps(select.remove(self._work, self._choice))

    def _target(self, to: Queue[T] | str) -> _work.Queue[T]:
        return work_of(self._broker.queue(to) if isinstance(to, str) else to, self._broker)


def choice(
    where: str | None,
    ids: Sequence[str] | None,
    places: Sequence[Place] | None,
    limit: int | None,
) -> Choice:
    """Read what a user typed.

    Raises:
        InvalidInput: a place that there is not, ids that are none.
        FilterError: the condition makes no sense.
    """
    if places is not None and (
        isinstance(places, str)
        or not isinstance(places, Sequence)
        or any(place not in PLACES for place in places)
    ):
        message = f"places {shown(places)}: pass a list of {', '.join(PLACES)}"
        raise InvalidInput(message)
    if ids is not None and (isinstance(ids, str | bytes) or not isinstance(ids, Iterable)):
        message = f"ids is a list of message ids, not {shown(ids)}; for a single one write ids=[…]"
        raise InvalidInput(message)
    return Choice(
        None if places is None else tuple(dict.fromkeys(places)),
        None if ids is None else tuple(ids),
        None if where is None else Filter.parse(where),
        limit,
    )


def work_of(queue: Any, broker: BrokerBase) -> _work.Queue[Any]:
    """What a queue that is written to is made of.

    Raises:
        InvalidInput: it is no queue, or one of another broker: one step cannot reach two servers.
    """
    other = getattr(queue, "broker", None)
    if other is not broker and getattr(other, "url", None) != broker.url:
        message = f"{shown(queue)} is no queue of {broker!r}: pass one that its queue(…) made"
        raise InvalidInput(message)
    return queue.work  # type: ignore[no-any-return]
