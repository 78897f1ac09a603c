"""A queue: its name and its settings, sending and claiming."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.asyncio.batches import Batches
from rq_dlq.asyncio.delivery import Delivery
from rq_dlq.asyncio.dlq import DeadLetters
from rq_dlq.asyncio.managed import Managed
from rq_dlq.asyncio.results import Results, SentForResult
from rq_dlq.asyncio.scheduled import Scheduled
from rq_dlq.asyncio.session import Session
from rq_dlq.client.settings import count_of
from rq_dlq.core import opening
from rq_dlq.core.claiming import claim, cut_off
from rq_dlq.core.claiming.consume import Consuming
from rq_dlq.core.queues import queue
from rq_dlq.core.sending import send
from rq_dlq.errors.guesses import answering, refuse
from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import DEFAULT_PRIORITY
from rq_dlq.values.durations import Duration, milliseconds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Never

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.leased import Lease
    from rq_dlq.values.message import Message, MessageRow
    from rq_dlq.values.sent import OnDuplicate, Sent

T = TypeVar("T")


class Queue(Batches[T], Managed[T], Results[T], Scheduled[T]):
    """A queue of one broker; `broker.queue(name)` makes it.

    Examples:
        >>> orders = broker.queue("orders", rate="100/s")
        >>> orders.name
        'orders'
        >>> letters = await orders.dlq.browse()
        >>> expired = await orders.expired.browse()
    """

    @answering
    def __init__(self, broker: Broker, core: QueueState[T]) -> None:
        self._broker = broker
        self._core = core
        self._run = broker._run  # not a method: that would add a call to each verb

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} at {self._broker.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        core = self._core
        return (_again, (self._broker, core.name, core.codec.type, core.lease, core.given))

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._core.name

    @cached_property
    def dlq(self) -> DeadLetters[T]:
        """The dead letters of this queue."""
        return DeadLetters(queue.sibling(self._core, "dead"), self._broker)

    @cached_property
    def expired(self) -> DeadLetters[T]:
        """The expired messages of this queue."""
        return DeadLetters(queue.sibling(self._core, "expired"), self._broker)

    async def open(self) -> None:
        """Register the queue's name and write its declared settings, like the first send.

        Examples:
            >>> await broker.queue("orders", rate="100/s").open()
        """
        await self._run(opening.open_queue(self._core))

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
        on_duplicate: OnDuplicate = "drop",
        key: str | None = None,
        dependency: str | None = None,
        result: bool = False,
        at: datetime | None = None,
        expires_at: datetime | None = None,
        max_delay: Duration | None = None,
        **unknown: Never,
    ) -> Sent:
        """Send a message.

        Args:
            body: the body, of the queue's type.
            id: the message's permanent id, at most 200 bytes; None: a new one is generated. If the queue
                has a message with this id, in any state, acked it within its `dedup_window`, or keeps its
                result, `on_duplicate` says what happens, and the return value where that message is. If it
                stays a dead letter, a warning is logged, once for each id.
            delay: time until the first delivery; None: no delay.
            ttl: time to live; None: the queue's default, or no limit if none is set.
            priority: 9 (first) to 0 (last).
            headers: a mapping of text to text, stored with the body.
            persistent: False: drop the message instead of keeping it as a dead letter, if the queue's
                dead-letter strategy allows that.
            on_duplicate: what happens if the id is known. "drop": nothing. "raise": raise KnownId, even for a
                dead or expired message; a retry by the client after a lost reply is not an error. "replace":
                a message that waits gets this body, headers, priority and ttl. "debounce": the same, and it
                waits for `delay` anew if it was never delivered and is not due. "redrive": a dead or
                expired message returns with them. "again": one that is being processed is processed once
                more after its ack, with the newest body. A message that is elsewhere stays as it is. Its key
                and dependency never change: others raise KnownId. `Sent.did` says what was done.
            key: text of at most 200 bytes that never changes, such as a customer's id; None: no key. A queue
                with `per_key` orders or limits messages by their keys; other queues ignore it.
            dependency: a service that the work needs, such as "payments": text of at most 200 bytes that
                never changes; None: no dependency. A queue with a `breaker` counts failures by it.
            result: True: keep the handler's return value, for `Sent.result` and `Queue.result`. A queue with
                `results` keeps it for all messages.
            at: the time of the first delivery, a datetime with a time zone, in place of `delay`; None: no
                delay. One that has passed, by the server's clock, means now.
            expires_at: the time at which the message expires, in place of `ttl`; None: as `ttl` says. One
                that has passed is refused.
            max_delay: with "debounce", the longest wait since the first send; None: ten minutes.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The message's id; `new` tells whether the message was sent, `known` the state of an earlier
            message with this id.

        Raises:
            InvalidInput: an argument is not valid, `on_duplicate` has no id to be about, the body cannot be
                encoded, or `expires_at` has passed; nothing was sent.
            KnownId: the queue has a message with this id, and `on_duplicate` is "raise", or that message has
                another key; nothing was sent.
            BrokerUnavailable: the outcome is unknown; it is safe to send again with the same id.
            Unconfirmed: with durability "replicated": the message is sent, but too few replicas confirmed
                it. It is safe to send again with the same id.

        Examples:
            >>> await orders.send({"total": 9.5}, id="order-42", delay="10m", headers={"tenant": "a"})
            'order-42'
            >>> again = await orders.send({"total": 9.5}, id="order-42")
            >>> again.new, again.known
            (False, 'scheduled')
            >>> late = await orders.send({"total": 12.5}, id="order-42", on_duplicate="replace")
            >>> late.known, late.did
            ('scheduled', 'replaced')
        """
        if unknown:
            refuse(self.send, unknown)
        options = send.send_options(
            delay, ttl, priority, headers,
            persistent=persistent, on_duplicate=on_duplicate, key=key, dependency=dependency, result=result,
            at=at, expires_at=expires_at, max_delay=max_delay,
        )  # fmt: skip
        sent = await self._run(send.send_one(self._core, body, id, options))
        asks = result or self._core.given.get("results")  # not by `asks_result`: one call less for each send
        return SentForResult[Any](sent, self) if asks else sent

    async def send_many(
        self,
        bodies: Iterable[T | Message[T]] | AsyncIterable[T | Message[T]],
        *,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
        on_duplicate: OnDuplicate = "drop",
        key: str | None = None,
        dependency: str | None = None,
        result: bool = False,
        at: datetime | None = None,
        expires_at: datetime | None = None,
        max_delay: Duration | None = None,
        **unknown: Never,
    ) -> list[Sent]:
        """Send any number of messages, a thousand per round trip.

        The options apply to all messages and mean the same as in `send`. If an error stops the call, a note
        on the error says how many messages were sent before it.

        Args:
            bodies: any iterable or async iterable.
                Pass a `Message` for a body with options of its own; those that follow each other and share
                their times go together.
            delay, ttl, priority, headers, persistent, on_duplicate, max_delay: as in `send`, for all of them.
            key, dependency, result, at, expires_at: likewise.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The ids, in order, each as from `send`.

        Raises:
            InvalidInput: an option is not valid, a body cannot be encoded, or `expires_at` has passed.
            BrokerRefused, BrokerUnavailable: some messages of the current thousand may have been sent.
            KnownId: the queue has messages with the ids in the error (`on_duplicate`). The others of that
                thousand were sent, later messages were not.
            Unconfirmed: with durability "replicated": too few replicas confirmed the ids in the error; later
                messages were not sent.

        Examples:
            >>> await orders.send_many(Message({"total": n}, id=f"order-{n}") for n in (43, 44))
            ['order-43', 'order-44']
        """
        if unknown:
            refuse(self.send_many, unknown)
        options = send.send_options(
            delay, ttl, priority, headers,
            persistent=persistent, on_duplicate=on_duplicate, key=key, dependency=dependency, result=result,
            at=at, expires_at=expires_at, max_delay=max_delay,
        )  # fmt: skip
        return await self._send_all(bodies, options, lambda sent: SentForResult[Any](sent, self))

    async def claim(
        self, count: int = 1, *, wait: Duration | None = None, lease: Duration | None = None, **unknown: Never
    ) -> list[Delivery[T]]:
        """Claim up to `count` messages under one lease.

        If a cancellation or Ctrl-C interrupts the call, messages that it may have claimed are released
        immediately, with one short attempt as at the end of a `Delivery`.

        Args:
            count: 1 to 1,000. Large messages reduce it: a claim returns about half a megabyte with histories,
                or one message. It returns at most 128 messages that were delayed, delivered before or have a
                ttl, and at most 100 where keys have a rate or take turns (`PerKey`). A shared dead-letter
                queue returns messages in the order of their deaths, from at most a hundred queues; if its
                name is also a queue's, its dead letters and that queue's messages alternate.
            wait: how long to wait for the first message; None: do not wait. For a shared dead-letter queue it
                checks a thousand queues per second.
            lease: how long the messages may be held; None: the queue's lease.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The deliveries; an empty list if no message became ready in time.

        Raises:
            InvalidInput: an argument is not valid.

        Examples:
            >>> for delivery in await orders.claim(count=10, wait="1s"):
            ...     async with delivery:  # ack at the end, nack after an error
            ...         print(delivery.body["total"])
            9.5
        """
        if unknown:
            refuse(self.claim, unknown)
        steps = claim.claim(
            self._core,
            self._by_hand,
            count=count_of(count),
            wait=0 if wait is None else milliseconds(wait, name="wait"),
            lease=None if lease is None else milliseconds(lease, name="lease", minimum=1),
        )
        try:
            return await self._run(steps)
        except BaseException as error:
            if cut_off.claim_is_cut_off(self._core, error):
                await self._broker._try_once(self._core, cut_off.give_back(self._core))
            raise

    def consume(
        self, count: int = 1, *, wait: Duration | None = None, lease: Duration | None = None, **unknown: Never
    ) -> AsyncGenerator[Delivery[T]]:
        """Loop over deliveries; the ack of the previous message and the next claim are one round trip.

        Without `wait` the loop ends as soon as no message is ready. To run forever, put a loop with a long
        `wait` into a `while True`.

        Use each delivery in a `with` block, or settle it. Its ack is deferred: the next step of the loop
        sends it before it waits, so it is done when the next delivery arrives. Other settlements are sent
        immediately, and so are `queue.ack([delivery])` and the ack of an earlier delivery.

        Leaving the loop in any way sends the deferred acks, and releases the current delivery, if it is not
        settled, and those not yet yielded. Closing the generator (`async with aclosing(orders.consume()) as
        deliveries`, from `contextlib`) does so immediately, and raises any error. Without that, Python closes
        the generator, perhaps a little later, and an error is logged. A cancellation, or another error that
        is not an Exception, is always raised: the acks and releases get one short attempt, as at the end of a
        `Delivery`.

        Args:
            count: how many messages one claim takes, 1 to 1,000. Their acks are sent together: an ack waits
                for others at most 5 ms, or for the end of one message that takes longer.
            wait: how long to wait for each next message before the loop ends; None: do not wait.
            lease: how long the messages of one claim may be held; None: the queue's lease.
            unknown: no other arguments; the error for one of another library names ours.

        Yields:
            The deliveries, one by one.

        Raises:
            InvalidInput: an argument is not valid.
            LeaseLost: raised by the loop's next step: a deferred ack was sent after the lease was lost, so
                that message is redelivered. This ends the loop; other deferred acks are done.
            BrokerUnavailable: raised by a step. This ends the loop, and the outcome of the deferred acks is
                unknown: repeat them with `delivery.ack()`.

        Examples:
            >>> async for delivery in orders.consume():
            ...     async with delivery:
            ...         print(delivery.id)
            order-41
        """
        if unknown:
            refuse(self.consume, unknown)
        consuming: Consuming[Delivery[T]] = Consuming(
            self._core,
            self._deliveries,
            count=count_of(count),
            wait=0 if wait is None else milliseconds(wait, name="wait"),
            lease=None if lease is None else milliseconds(lease, name="lease", minimum=1),
            clock=time.monotonic,
        )
        return consuming.is_made_by(self._consume(consuming))

    def session(self) -> Session[T]:
        """Make a session: its sends and acks take effect together, or not at all.

        Returns:
            The session, a context manager.

        Examples:
            >>> async with orders.session() as session:
            ...     for order in await session.claim():
            ...         sent = await session.send(broker.queue("invoices"), order.body)
        """
        return Session(self)

    def _by_hand(self, rows: Sequence[MessageRow], lease: Lease[T]) -> list[Delivery[T]]:
        if rows:
            self._broker._hand_claims.note(self._core, lease)
        return self._deliveries(rows, lease)

    def _deliveries(
        self, rows: Sequence[MessageRow], lease: Lease[T], consuming: Consuming[Delivery[T]] | None = None
    ) -> list[Delivery[T]]:
        lease.read_at = time.monotonic()
        return [Delivery(row, lease, self, consuming) for row in rows]


def _again(broker: Broker, name: str, kind: Any, lease: int, given: Any) -> Queue[Any]:
    return broker.queue(name, type=kind, lease=lease / 1000, **given)
