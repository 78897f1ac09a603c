"""Sessions: claim, send and settle together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq import _work
from rq_dlq._work import session as steps
from rq_dlq.codec import DEFAULT_PRIORITY
from rq_dlq.selection import work_of
from rq_dlq.settings import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from rq_dlq.delivery import Delivery
    from rq_dlq.durations import Duration
    from rq_dlq.queue import Queue

T = TypeVar("T")
M = TypeVar("M")


class Session(Generic[T]):
    """`with queue.session() as session:` what it claims and sends takes effect together, at the end.

    At the end of the block, or at `commit`, all deliveries are acked and all messages sent, in one script. An
    error, or `rollback`, sends nothing and gives each delivery back by the policy. A delivery that is settled
    by itself (`delivery.poison()`) is out of the session. On Redis Cluster the queues must share a hash tag.

    A `Poison` or a fatal error ends the one delivery that the session holds; of several nobody knows which
    one it is about, so they are charged and come back, as after any error. `Poison` and `Redeliver` stop at
    the end of the block. What is no Exception (KeyboardInterrupt) releases all, and a lost lease the others.
    """

    def __init__(self, queue: Queue[T]) -> None:
        self._queue = queue
        self._work = _work.Session(queue.work)

    def claim(
        self, count: int = 1, *, wait: Duration | None = None, lease: Duration | None = None
    ) -> list[Delivery[T]]:
        """Claim from the session's queue, as `Queue.claim`; acked at the end.

        Raises:
            InvalidInput: the session holds 1,000 deliveries.
        """
        room = steps.room_for(self._work, count_of(count))
        deliveries = self._queue.claim(room, wait=wait, lease=lease)
        self._work.claimed += deliveries
        return deliveries

    def send(
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
    ) -> str:
        """Send to any queue of the same broker, at the end; arguments as `Queue.send`.

        Returns:
            The id that the message will have.

        Raises:
            InvalidInput: an argument makes no sense, or the session sends more than 1,000 messages.
        """
        target = work_of(queue, self._queue.broker)
        options = _work.send_options(delay, ttl, priority, headers, persistent)
        return self._queue.run(steps.send(self._work, target, body, id, options))

    def commit(self) -> int:
        """Send and ack everything, or nothing, and begin anew; how many were acked.

        Raises:
            LeaseLost: a delivery is no longer ours; nothing was done.
            CrossSlot: a cluster keeps the queues on different nodes; nothing was done.
            Unconfirmed: with durability "replicated": it is done, but too few replicas have what was sent; to
                commit again does nothing twice.
            BrokerUnavailable: the outcome is not known; to commit again finds out, and does nothing twice.
        """
        return self._queue.run(steps.commit(self._work))

    def rollback(self, error: BaseException | str | None = None) -> int:
        """Send nothing, give each delivery back by the policy, and begin anew; how many went back."""
        return self._queue.run(steps.rollback(self._work, error))

    def recover(self) -> int:
        """As `rollback`, by its name in JMS: what was delivered and not acked is delivered again."""
        return self.rollback("the session was recovered")

    def close(self) -> int:
        """As `rollback`: what was not committed is delivered again, and nothing is sent."""
        return self.rollback("the session was closed before it was committed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._queue.run(steps.end(self._work, error))
