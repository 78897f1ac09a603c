"""A queue, awaiting. Arguments, results and errors are those of `rq_dlq.queue`."""

from __future__ import annotations

from collections.abc import AsyncIterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq import _work
from rq_dlq.asyncio.delivery import Delivery
from rq_dlq.asyncio.dlq import DeadLetters
from rq_dlq.asyncio.selection import Selection
from rq_dlq.asyncio.session import Session
from rq_dlq.codec import DEFAULT_PRIORITY
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import RqDlqError
from rq_dlq.message import Message, Received, Row, batch, held, settled
from rq_dlq.selection import choice
from rq_dlq.settings import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rq_dlq._calls import Part, Place
    from rq_dlq._work import Explanation
    from rq_dlq.asyncio.broker import Broker
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

    async def open(self) -> None:
        """Note the queue's name and what was declared of it, as the first send or claim would."""
        await self.run(_work.open_queue(self.work))

    async def send(
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
        """Send a message; the id."""
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        return await self.run(_work.send_one(self.work, body, id, options))

    async def send_many(
        self,
        bodies: Iterable[T | Message[T]] | AsyncIterable[T | Message[T]],
        *,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> list[str]:
        """Send any number of messages, from any iterable or async iterable; the ids in order."""
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        if not isinstance(bodies, AsyncIterable):
            return await self.run(_work.send(self.work, bodies, options))
        ids: list[str] = []
        window: list[T | Message[T]] = []
        try:
            async for body in bodies:
                window.append(body)
                if len(window) == _work.CHUNK * _work.WINDOW:
                    ids += await self.run(_work.send(self.work, window, options))
                    window = []
            return ids + await self.run(_work.send(self.work, window, options))
        except RqDlqError as error:
            if ids:
                error.add_note(f"{len(ids):,} messages before it were sent")
            raise

    async def claim(
        self,
        count: int = 1,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
    ) -> list[Delivery[T]]:
        """Claim up to `count` messages under one lease; an empty list when the wait is over."""
        steps = _work.claim(
            self.work,
            self.delivery,
            count=count_of(count),
            wait=0 if wait is None else milliseconds(wait, name="wait"),
            lease=None if lease is None else milliseconds(lease, name="lease", minimum=1),
        )
        return await self.run(steps)

    async def ack(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Done, as one batch."""
        given = batch(deliveries)
        return settled(given, await self.run(_work.ack(self.work, held(given))))

    async def nack(
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
        return settled(given, await self.run(steps))

    async def poison(
        self, deliveries: Sequence[Delivery[T]], error: BaseException | str | None = None
    ) -> list[Settlement]:
        """Never again, as one batch."""
        given = batch(deliveries)
        return settled(given, await self.run(_work.poison(self.work, held(given), error)))

    async def release(self, deliveries: Sequence[Delivery[T]]) -> list[Settlement]:
        """Given back unseen, as one batch."""
        given = batch(deliveries)
        return settled(given, await self.run(_work.release(self.work, held(given))))

    async def extend(self, deliveries: Sequence[Delivery[T]], lease: Duration | None = None) -> list[bool]:
        """Start the leases anew; whether each is still held."""
        span = self.work.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        return (await self.run(_work.extend(self.work, held(batch(deliveries)), span)))[1]

    async def peek(self, limit: int = 20) -> list[Received[T]]:
        """The next messages in their order, without claiming them."""
        rows = await self.run(_work.browse(self.work, limit))
        return [Received(row, self.work.codec, self.name) for row in rows]

    async def purge(self) -> int:
        """Remove all that waits; what is leased is left alone. How many."""
        return await self.run(_work.purge(self.work))

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

    async def pause(self) -> bool:
        """Hand out nothing until `resume`; sending, settling and expiry go on. Whether it was new."""
        return await self.run(_work.set_paused(self.work, paused=True))

    async def resume(self) -> bool:
        """Hand out messages again. Whether it was paused."""
        return await self.run(_work.set_paused(self.work, paused=False))

    async def reset(self) -> int:
        """Begin the totals anew; what is in the queue counts as sent. How many messages that is."""
        return await self.run(_work.reset(self.work))

    async def explain(self, id: str) -> Explanation:
        """Where a message is, why nobody has it now, and what happens to it next."""
        return await self.run(_work.explain(self.work, id))

    async def settings(self) -> QueueSettings:
        """What holds for the queue, and which policy each field comes from."""
        return await self.run(_work.explain_policy(self.work.keys, self.work.naming))

    async def outcomes(
        self, since: datetime | str | None = None, *, limit: int | None = 1_000
    ) -> list[Outcome]:
        """What became of messages and deliveries, the oldest first, as far as it is kept."""
        return await self.run(_work.read_outcomes(self.work, since, limit))

    async def stats(self) -> QueueStats:
        """The counts by state, and the totals since the queue began."""
        return await self.run(_work.stats(self.work))

    async def maintain(self) -> dict[str, int]:
        """Do the steps of maintenance that are due."""
        return await self.run(_work.maintain(self.work))

    def delivery(self, row: Row, token: str, lease_until: int) -> Delivery[T]:
        """A delivery of this queue."""
        return Delivery(row, token, lease_until, self)

    def _part(self, part: Part) -> _work.Queue[T]:
        return _work.sibling(self.work, part)

    async def run(self, steps: _work.Steps[R]) -> R:
        """Run the steps of an operation on this queue."""
        return await self.broker.run_steps(steps)


def _again(broker: Broker, name: str, kind: Any, lease: int, said: Any) -> Queue[Any]:
    return broker.queue(name, type=kind, lease=lease / 1000, **said)
