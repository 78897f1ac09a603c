"""A queue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _work
from rq_dlq.codec import DEFAULT_PRIORITY
from rq_dlq.delivery import Delivery
from rq_dlq.dlq import DeadLetters
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.message import Message, Received, Row, batch, held, settled
from rq_dlq.selection import Selection, choice
from rq_dlq.session import Session
from rq_dlq.settings import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rq_dlq._calls import Part, Place
    from rq_dlq._work import Explanation
    from rq_dlq.broker import Broker
    from rq_dlq.message import QueueStats, Settlement
    from rq_dlq.outcome import Outcome
    from rq_dlq.policy import QueueSettings

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Any]")


class Queue(Generic[T]):
    """A queue of one broker; made by `broker.queue(name)`."""

    def __init__(self, broker: Broker, work: _work.Queue[T]) -> None:
        self.broker = broker
        self.work = work

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} at {self.broker.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        work = self.work
        return (_again, (self.broker, work.name, work.codec.type, work.lease, work.said))

    @property
    def name(self) -> str:
        """What the queue is called."""
        return self.work.name

    @cached_property
    def dlq(self) -> DeadLetters[T]:
        """What died of this queue."""
        return DeadLetters(self._part("dead"), self.broker)

    @cached_property
    def expired(self) -> DeadLetters[T]:
        """What expired in this queue."""
        return DeadLetters(self._part("expired"), self.broker)

    def open(self) -> None:
        """Note the queue's name and what was declared of it, as the first send or claim would."""
        self.run(_work.open_queue(self.work))

    def send(
        self,
        body: T,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> str:
        """Send a message.

        Args:
            id: the message's name for life, at most 200 bytes; drawn when None. An id that the queue knows
                already, in whatever state, is not sent again.
            delay: until it is first delivered.
            ttl: until it expires; None: never.
            priority: 9 (first) to 0 (last).
            headers: text beside the body.
            persistent: False: it is dropped when it would die, where the dead-letter strategy says so.

        Returns:
            The id.

        Raises:
            InvalidInput: an argument makes no sense, or the body does not encode; nothing was sent.
            BrokerUnavailable: the outcome is not known; sending again under the same id is safe.
            Unconfirmed: with durability "replicated": it is sent, but too few replicas have it; likewise.
        """
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        return self.run(_work.send_one(self.work, body, id, options))

    def send_many(
        self,
        bodies: Iterable[T | Message[T]],
        *,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> list[str]:
        """Send any number of messages, a thousand a round trip.

        Args:
            bodies: any iterable; a `Message` where one has an id, headers or a priority of its own.

        Returns:
            The ids, in order.

        Raises:
            InvalidInput: a body does not encode.
            BrokerRefused, BrokerUnavailable: of the thousand that it was at, some may be sent.
            Unconfirmed: with durability "replicated": too few replicas have these ids; what comes after them
                was not sent.
            A note on the error says how many were sent before.
        """
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        return self.run(_work.send(self.work, bodies, options))

    def claim(
        self,
        count: int = 1,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
    ) -> list[Delivery[T]]:
        """Claim up to `count` messages under one lease.

        Args:
            count: 1 to 1,000.
            wait: for the first message; None: do not wait.
            lease: how long they may be held; None: the queue's.

        Returns:
            What there is; an empty list when the wait is over.
        """
        steps = _work.claim(
            self.work,
            self.delivery,
            count=count_of(count),
            wait=0 if wait is None else milliseconds(wait, name="wait"),
            lease=None if lease is None else milliseconds(lease, name="lease", minimum=1),
        )
        return self.run(steps)

    def ack(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Done, as one batch; each settlement says what became of its message."""
        given = batch(deliveries)
        return settled(given, self.run(_work.ack(self.work, held(given))))

    def nack(
        self,
        deliveries: Sequence[Delivery[T]],
        error: BaseException | str | None = None,
        *,
        delay: Duration | None = None,
        charge: bool = True,
    ) -> list[Settlement]:
        """Failed, as one batch; each message is judged by itself."""
        given = batch(deliveries)
        steps = _work.nack(self.work, held(given), error, delay=delay, charge=charge)
        return settled(given, self.run(steps))

    def poison(
        self, deliveries: Sequence[Delivery[T]], error: BaseException | str | None = None
    ) -> list[Settlement]:
        """Never again, as one batch."""
        given = batch(deliveries)
        return settled(given, self.run(_work.poison(self.work, held(given), error)))

    def release(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Given back unseen, as one batch."""
        given = batch(deliveries)
        return settled(given, self.run(_work.release(self.work, held(given))))

    def extend(self, deliveries: Sequence[Delivery[T]], lease: Duration | None = None) -> list[bool]:
        """Start the leases anew; whether each is still held."""
        span = self.work.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        return self.run(_work.extend(self.work, held(batch(deliveries)), span))[1]

    def peek(self, limit: int = 20) -> list[Received[T]]:
        """The next messages in their order, without claiming them."""
        rows = self.run(_work.browse(self.work, limit))
        return [Received(row, self.work.codec, self.name) for row in rows]

    def purge(self) -> int:
        """Remove all that waits (ready and scheduled); what is leased is left alone. How many."""
        return self.run(_work.purge(self.work))

    def session(self) -> Session[T]:
        """A session: what it claims here, sends anywhere and acks becomes so together, or not at all."""
        return Session(self)

    def select(
        self,
        where: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        places: Sequence[Place] | None = None,
        limit: int | None = None,
    ) -> Selection[T]:
        """Choose messages, to count, look at, move, remove or otherwise manage them; see `Selection`.

        Args:
            where: a condition, such as "tenant = 'a' and delivery_count > 2" (`rq_dlq.filters`).
            ids: only these.
            places: ready, scheduled, leased, dead, expired; None: what waits here to be delivered.
            limit: at most so many, the first in their order.

        Raises:
            FilterError: the condition makes no sense.
        """
        return Selection(self.work, self.broker, choice(where, ids, places, limit))

    def pause(self) -> bool:
        """Hand out nothing until `resume`; sending, settling and expiry go on. Whether it was new."""
        return self.run(_work.set_paused(self.work, paused=True))

    def resume(self) -> bool:
        """Hand out messages again. Whether it was paused."""
        return self.run(_work.set_paused(self.work, paused=False))

    def reset(self) -> int:
        """Begin the totals anew; what is in the queue counts as sent. How many messages that is."""
        return self.run(_work.reset(self.work))

    def explain(self, id: str) -> Explanation:
        """Where a message is, why nobody has it now, and what happens to it next."""
        return self.run(_work.explain(self.work, id))

    def settings(self) -> QueueSettings:
        """What holds for the queue, and which policy each field comes from."""
        return self.run(_work.explain_policy(self.work.keys, self.work.naming))

    def outcomes(self, since: datetime | str | None = None, *, limit: int | None = 1_000) -> list[Outcome]:
        """What became of messages and deliveries, the oldest first, as far as the queue's `outcomes` keep it.

        Args:
            since: a time, or the event_id of an outcome, after which to begin; None: the oldest that is kept.
            limit: at most so many; None: all.

        Raises:
            InvalidInput: an argument makes no sense, or this is a dead-letter or expiry queue.
        """
        return self.run(_work.read_outcomes(self.work, since, limit))

    def stats(self) -> QueueStats:
        """The counts by state, and the totals since the queue began."""
        return self.run(_work.stats(self.work))

    def maintain(self) -> dict[str, int]:
        """Do the steps of maintenance that are due: lapsed leases, due messages, expired ones. How many."""
        return self.run(_work.maintain(self.work))

    def handler(self, *, concurrency: int = 1, timeout: Duration | None = None) -> Callable[[F], F]:
        """Make a function the handler of this queue's messages, for `broker.run()`.

        Args:
            concurrency: how many run at once in one process.
            timeout: of one call; None: no limit while the worker lives.
        """
        return self.broker.add_handler(self, concurrency, timeout)

    def delivery(self, row: Row, token: str, lease_until: int) -> Delivery[T]:
        """A delivery of this queue."""
        return Delivery(row, token, lease_until, self)

    def _part(self, part: Part) -> _work.Queue[T]:
        return _work.sibling(self.work, part)

    def run(self, steps: _work.Steps[R]) -> R:
        """Run the steps of an operation on this queue."""
        return self.broker.run_steps(steps)


def _again(broker: Broker, name: str, kind: Any, lease: int, said: Any) -> Queue[Any]:
    return broker.queue(name, type=kind, lease=lease / 1000, **said)
