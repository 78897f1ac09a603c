"""One handing-out of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq import _work
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import Poison, Redeliver
from rq_dlq.message import Leased, Row

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from rq_dlq.message import Settlement
    from rq_dlq.queue import Queue

T = TypeVar("T")


class Delivery(Leased[T]):
    """One handing-out of a message: the message, a token, a lease.

    As a context manager it settles itself: ack on success; on an error nack by the policy, or dead when
    the budget is spent or the error is fatal, and the error goes on its way. `Redeliver` and `Poison` are
    done and stop there. Anything that is no Exception (KeyboardInterrupt) releases it.
    """

    def __init__(self, row: Row, token: str, lease_until: int, queue: Queue[T]) -> None:
        super().__init__(row, queue.work.codec, queue.name, token, lease_until)
        self._queue = queue

    def ack(self) -> Settlement:
        """Done: the message is gone.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
        """
        return self._settle(_work.ack(self._queue.work, [self.held]))

    def nack(
        self,
        error: BaseException | str | None = None,
        *,
        delay: Duration | None = None,
        charge: bool = True,
    ) -> Settlement:
        """Failed: redelivered by the policy, or dead when the budget is spent.

        Args:
            error: what went wrong; it goes into the message's history.
            delay: until the redelivery, instead of the policy's.
            charge: False leaves the budget untouched.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
        """
        steps = _work.nack(self._queue.work, [self.held], error, delay=delay, charge=charge)
        return self._settle(steps)

    def poison(self, error: BaseException | str | None = None) -> Settlement:
        """Never again: straight to the dead-letter queue.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
        """
        return self._settle(_work.poison(self._queue.work, [self.held], error))

    def release(self) -> Settlement:
        """Give it back unseen: not charged, due now, at its old place.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
        """
        return self._settle(_work.release(self._queue.work, [self.held]))

    def extend(self, lease: Duration | None = None) -> datetime:
        """Start the lease anew; it is one for all that was claimed together.

        Args:
            lease: from now; None: the queue's.

        Returns:
            When it runs out now (UTC).

        Raises:
            LeaseLost: the token is stale.
        """
        work = self._queue.work
        span = work.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        self.lease_ends = self._queue.run(_work.extend_one(work, self.held, span))
        return self.lease_until

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not self.settled:
            self._settle(_work.settle_by_error(self._queue.work, [self.held], error))
        return isinstance(error, Redeliver | Poison)

    def _settle(self, steps: _work.Steps[list[Settlement]]) -> Settlement:
        settlement = self._queue.run(_work.one(steps))
        self.outcome = settlement.outcome
        return settlement
