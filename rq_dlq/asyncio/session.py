"""Sessions: claims, sends and acks that take effect together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.asyncio.results import SentForResult
from rq_dlq.client.arguments import work_of
from rq_dlq.client.settings import count_of
from rq_dlq.core.sending import send
from rq_dlq.core.sending.packing import asks_result
from rq_dlq.core.sessions import session
from rq_dlq.errors.guesses import refuse
from rq_dlq.values.codec import DEFAULT_PRIORITY
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Never, Self

    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import Sent

T = TypeVar("T")
M = TypeVar("M")


class Session(Generic[T]):
    """Acks and sends that take effect together, at the end of `async with queue.session() as session:`.

    At the end of the block, or at `commit`, one call acks all deliveries and sends all messages. If the
    messages exceed half a megabyte together, they are staged before that call and become visible one by one
    after it. After an error, or at `rollback`, nothing is sent and each delivery is nacked. A delivery that
    is settled individually (`delivery.poison()`) leaves the session. On Redis Cluster the queues must share a
    hash tag.

    A `Poison` or a fatal error makes the message dead if the session holds only one. If it holds several, the
    error does not identify the message, so all are nacked, as after any error. `Poison` and `Redeliver` are
    not raised again at the end of the block. An error that is not an Exception (KeyboardInterrupt) releases
    all deliveries, with one short attempt as at the end of a `Delivery`, and is always raised. A lost lease
    releases the other deliveries. A forked child that leaves the block leaves them all to its parent.

    Examples:
        >>> async with orders.session() as session:
        ...     for order in await session.claim():
        ...         sent = await session.send(mails, {"bill": order.id}, id=f"bill-{order.id}")
        >>> stats = await mails.stats()
        >>> stats.ready
        1
    """

    def __init__(self, queue: Queue[T]) -> None:
        self._queue = queue
        self._core = session.SessionState(queue._core)
        self._process = 0  # the process that entered the block

    async def claim(
        self, count: int = 1, *, wait: Duration | None = None, lease: Duration | None = None, **unknown: Never
    ) -> list[Delivery[T]]:
        """Claim from the session's queue, like `Queue.claim`. The messages are acked at the end.

        Args:
            count: 1 to 1,000. The session holds 1,000 deliveries at most.
            wait: how long to wait for the first message; None: do not wait.
            lease: how long the messages may be held; None: the queue's lease.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The deliveries; an empty list if no message became ready in time.

        Raises:
            InvalidInput: an argument is not valid, or the session holds 1,000 deliveries.

        Examples:
            >>> async with orders.session() as session:
            ...     print([order.id for order in await session.claim(10, wait="1s")])
            ['order-41']
        """
        if unknown:
            refuse(self.claim, unknown)
        room = session.capacity_for(self._core, count_of(count))
        deliveries = await self._queue.claim(room, wait=wait, lease=lease)
        self._core.claimed += deliveries
        return deliveries

    async def send(
        self,
        queue: Queue[M],
        body: M,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
        key: str | None = None,
        dependency: str | None = None,
        result: bool = False,
        at: datetime | None = None,
        expires_at: datetime | None = None,
        **unknown: Never,
    ) -> Sent:
        """Send a message at the end of the session. The other arguments are as in `Queue.send`.

        Args:
            queue: any queue of the same broker.
            body: the body, of that queue's type.
            id, delay, ttl, priority, headers, persistent, key, dependency, result, at, expires_at: as in
                `Queue.send`; the server compares the times with its clock at the commit.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The id that the message will have; its `new` is None, since the commit decides that. Its `result`
            is there after the commit.

        Raises:
            InvalidInput: an argument is not valid, or the session sends more than 1,000 messages.

        Examples:
            >>> async with orders.session() as session:
            ...     sent = await session.send(mails, {"to": "anna"}, id="mail-2", delay="10m")
            >>> sent, sent.new
            ('mail-2', None)
        """
        if unknown:
            refuse(self.send, unknown)
        target = work_of(queue, self._queue._broker)
        options = send.send_options(
            delay, ttl, priority, headers,
            persistent=persistent, key=key, dependency=dependency, result=result,
            at=at, expires_at=expires_at,
        )  # fmt: skip
        sent = await self._queue._run(session.send(self._core, target, body, id, options))
        return SentForResult[Any](sent, queue) if asks_result(target, options) else sent

    async def commit(self) -> int:
        """Send and ack everything, or nothing. The session can be used again afterwards.

        Returns:
            How many deliveries were acked.

        Raises:
            LeaseLost: a delivery is no longer held; nothing was done.
            CrossSlot: the queues are on different nodes of the cluster; nothing was done.
            InvalidInput: the session sends a message under the id of a message that it acks, or the
                `expires_at` of a message has passed; nothing was done.
            Unconfirmed: with durability "replicated": everything is done, but too few replicas confirmed it.
                It is safe to commit again.
            BrokerUnavailable: the outcome is unknown. It is safe to commit again, which finds out.

        Examples:
            >>> session = orders.session()
            >>> claimed = await session.claim()
            >>> sent = await session.send(mails, {"to": "anna"})
            >>> await session.commit()
            1
        """
        return await self._queue._run(session.commit(self._core))

    async def rollback(self, error: BaseException | str | None = None) -> int:
        """Send nothing and nack each delivery. The session can be used again afterwards.

        Args:
            error: the exception, or a reason in words; it is added to the messages' histories.

        Returns:
            How many deliveries were nacked.

        Examples:
            >>> session = orders.session()
            >>> claimed = await session.claim()
            >>> await session.rollback("the customer called it off")
            1
        """
        return await self._queue._run(session.rollback(self._core, error))

    async def recover(self) -> int:
        """The same as `rollback`, under the name that JMS uses.

        Returns:
            How many deliveries were nacked.

        Examples:
            >>> session = orders.session()
            >>> claimed = await session.claim()
            >>> await session.recover()
            1
        """
        return await self.rollback("the session was recovered")

    async def close(self) -> int:
        """Roll back uncommitted sends and acks.

        Returns:
            How many deliveries were nacked.

        Examples:
            >>> session = orders.session()
            >>> await session.close()
            0
        """
        return await self.rollback("the session was closed before it was committed")

    async def __aenter__(self) -> Self:
        self._process = this_process()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._process != this_process():
            return False
        ended = self._queue._broker._leave(self._queue._core, session.end(self._core, error), error)
        return bool(await ended)
