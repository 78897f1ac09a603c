# Generated from rq_dlq/asyncio/delivery.py by `python -m tests.colours_twin --write`.
"""One delivery of a message."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.client.addressed import all_addressed
from rq_dlq.core.gathers import reading
from rq_dlq.core.results.results import results_of
from rq_dlq.core.sessions import chain
from rq_dlq.core.settling import progress, settle
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.errors import LeaseLost, Poison, Redeliver
from rq_dlq.errors.guesses import refuse
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.forks import this_process
from rq_dlq.values.leased import Lease, Leased
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Never, Self

    from rq_dlq.client.queue import Queue
    from rq_dlq.core.claiming.consume import Consuming
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.gathered import GatheredChild
    from rq_dlq.values.message import MessageRow

T = TypeVar("T")


class Delivery(Leased[T]):
    """One delivery of a message: the message, a token and a lease.

    If it was claimed from a dead-letter or expiry queue, `original_queue`, `reason`, `cause` and `died_at`
    say where, why and when the message failed. For other messages `reason` is empty and `died_at` is None.

    As a context manager it settles itself. Success acks it. An error nacks it: the policy decides whether it
    is redelivered or dead; a fatal error makes it dead. The error is then raised, except for `Redeliver` and
    `Poison`. An error that is not an Exception (KeyboardInterrupt, a cancellation) releases it and is always
    raised. The release is tried once, for a second (in blocking code for the connection's timeout, 5 s); if
    that fails, the message is redelivered when its lease ends. A forked child that leaves the block leaves
    the message to its parent. Entering the block raises LeaseLost if the lease has already expired, which can
    happen to the last messages of a large claim: the work would be done twice.

    Examples:
        >>> (delivery,) = orders.claim()
        >>> delivery.id, delivery.attempt
        ('order-41', 1)
        >>> settlement = delivery.ack()
        >>> settlement.outcome
        'acked'
        >>> delivery.settled, delivery.lost, delivery.cancelled
        (True, False, False)
        >>> delivery.lease_until > delivery.enqueued_at, isinstance(delivery.token, str)
        (True, True)
    """

    _process = 0
    """The process that entered the block."""
    _told = -inf
    """When progress was last written, monotonic seconds."""

    def __init__(
        self,
        row: MessageRow,
        lease: Lease[T],
        queue: Queue[T],
        consuming: Consuming[Delivery[T]] | None = None,
    ) -> None:
        self.id = row.id  # no super().__init__(): a claim makes up to a thousand
        self._row = row
        self._lease = lease
        self._held = (row.id, lease.token)
        self._queue = queue
        self._consuming = consuming

    @property
    def state(self) -> Any:
        """The value that `broker.lifespan` yielded in this worker process; None: no lifespan or no worker.

        Examples:
            >>> @broker.lifespan
            ... def resources():
            ...     yield {"shop": "Tea & Cake"}
            >>> @broker.task
            ... def invoice(order_id: int, *, delivery: Delivery | None = None) -> None:
            ...     print(delivery.state["shop"], order_id)
        """
        return self._queue._state

    @property
    def remaining(self) -> float | None:
        """The remaining time to live, seconds: a timeout for the calls that its handler makes.

        It is counted from the server's time of the claim. 0: it has expired, and a redelivery would be too
        late. None: the message does not expire, or is dead or expired already.

        Examples:
            >>> httpx.post(url, json=order, timeout=delivery.remaining)
        """
        left = self._time_to_live(time.monotonic())
        return None if left == inf else max(0.0, left)

    def ack(
        self, *, send: Iterable[tuple[Any, Any]] = (), result: Any = None, **unknown: Never
    ) -> Settlement:
        """Report success: the message is removed; in a loop of `Queue.consume`, by the loop's next step.

        With `send` the ack is made at once, in one call with all that it sends: both are done, or neither.
        If its outcome is unknown, the next `ack` repeats it as it was, and does nothing twice.

        Args:
            send: what the message leads to: pairs of a queue and a body, or of a task and its arguments, as
                `[(invoices, bill), (welcome, (7,))]`. A `Message` as the body, and the task's `options`, say
                more. At most 1,000 messages, or half a megabyte of several. On Redis Cluster the queues must
                share a hash tag.
            result: the value that `Queue.result` returns: a JSON value or bytes, at most 64 kB. It is ignored
                if the message was sent without `result=True`, to a queue without `results`.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The outcome; "deferred" if this delivery is the last one that such a loop yielded.

        Raises:
            LeaseLost: the token is stale; nothing was changed, nor sent.
            InvalidMessage: the result is too large, or cannot be encoded; nothing was changed.
            KnownId: a queue has a message already with an id that `send` gives; nothing was sent or acked,
                and the message is still held.
            InvalidInput: `send` is not valid, or is too large; nothing was sent or acked.
            CrossSlot: the queues are on different nodes of the cluster; nothing was sent or acked.
            BrokerUnavailable: the outcome is unknown.
            Unconfirmed: with durability "replicated": all is done, but too few replicas confirmed it.

        Examples:
            >>> (delivery,) = orders.claim()
            >>> settlement = delivery.ack(send=[(mails, {"bill": delivery.id})])
            >>> stats = mails.stats()
            >>> settlement.outcome, stats.ready
            ('acked', 1)
        """
        if unknown:
            refuse(self.ack, unknown)
        self._returned = result
        results = results_of([self])
        messages = all_addressed(send, self._queue._broker) if send else []
        if messages or self._chain is not None:
            return self._settle(chain.ack_and_send(self._queue._core, self, messages, results))
        if self._consuming is not None:
            self._refuse_if_deferred()
            if self._consuming.defer(self):
                return Settlement(self.id, "deferred")
        return self._settle(settle.ack(self._queue._core, [self._held], results))

    @property
    def gathered(self) -> Mapping[str, GatheredChild]:
        """The children of the gather whose `then` this message is, by their ids, in the order of their ids.

        It is read anew each time, with the results of the children. The ends are there as long as this
        message is, the results as long as the queues of the children keep them.

        Raises:
            InvalidInput: the message is not the `then` of a gather.
            BrokerUnavailable: the server does not answer.
            MissingRights: the Redis user may not read the results of a queue.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.send(orders, {"total": 7.0}, id="order-42", priority=9)
            >>> (delivery,) = orders.claim()
            >>> settlement = delivery.ack(result="paid")
            >>> nothing = orders.claim(wait="10ms")
            >>> (then,) = mails.claim()
            >>> children = then.gathered
            >>> {id: (child.end, child.value) for id, child in children.items()}
            {'order-42': ('acked', 'paid')}
        """
        return self._queue._run(reading.gathered(self._queue._core, self))

    def nack(
        self,
        error: BaseException | str | None = None,
        *,
        delay: Duration | None = None,
        charge: bool = True,
        **unknown: Never,
    ) -> Settlement:
        """Report failure: the policy decides whether the message is redelivered or dead.

        Args:
            error: the exception, or a reason in words; it is added to the message's history.
            delay: time until the redelivery; None: the policy's delay.
            charge: False: the failure does not count against the message's budget.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The outcome, and the delay of a redelivery.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
            InvalidInput: an argument is not valid; nothing was changed.

        Examples:
            >>> (delivery,) = orders.claim()
            >>> settlement = delivery.nack("the printer is out of paper", delay="10s")
            >>> settlement.outcome, settlement.delay
            ('redelivered', 10.0)
        """
        if unknown:
            refuse(self.nack, unknown)
        steps = settle.nack(
            self._queue._core, [self._held], error, delay=delay, charge=charge, values=self._values
        )
        return self._settle(steps, error)

    def poison(self, error: BaseException | str | None = None) -> Settlement:
        """Move the message straight to the dead-letter queue.

        Args:
            error: the exception, or a reason in words; it is added to the message's history.

        Returns:
            The outcome.

        Raises:
            LeaseLost: the token is stale; nothing was changed.

        Examples:
            >>> (delivery,) = orders.claim()
            >>> settlement = delivery.poison("no address")
            >>> settlement.outcome
            'dead'
        """
        steps = settle.poison(self._queue._core, [self._held], error, values=self._values)
        return self._settle(steps, error)

    def release(self, *, delay: Duration | None = None, begun: bool = True, **unknown: Never) -> Settlement:
        """Return the message unprocessed: not charged, ready immediately, at its old position.

        Args:
            delay: time until it is ready; None: no delay.
            begun: False: processing had not begun, so this delivery is not an attempt (`attempt`,
                `redelivered`).
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            The outcome.

        Raises:
            LeaseLost: the token is stale; nothing was changed.
            InvalidInput: an argument is not valid; nothing was changed.

        Examples:
            >>> (delivery,) = orders.claim()
            >>> settlement = delivery.release(delay="5s", begun=False)
            >>> settlement.outcome
            'released'
        """
        if unknown:
            refuse(self.release, unknown)
        steps = settle.release(self._queue._core, [self._held], begun=begun, delay=delay)
        return self._settle(steps)

    def progress(self, part: float, text: str = "") -> None:
        """Report the progress of the work on the message, for `Queue.explain` and the page.

        At most one report a second is written, so a loop may call this in each step. The lease is not
        extended. The next attempt begins without a report.

        Args:
            part: the fraction that is done, 0 to 1.
            text: the progress in words, such as "rows read"; the first 100 characters are kept.

        Raises:
            LeaseLost: the token is stale.
            InvalidInput: an argument is not valid.

        Examples:
            >>> (delivery,) = orders.claim()
            >>> delivery.progress(0.4, "rows read")
            >>> explained = orders.explain(delivery.id)
            >>> "40% done rows read" in explained.why
            True
        """
        steps, now = progress.progress(self._queue._core, self, part, text), time.monotonic()
        if now - self._told >= 1 or part == 1:
            self._told = now
            self._queue._run(steps)

    def extend(self, lease: Duration | None = None, **unknown: Never) -> datetime:
        """Restart the lease. All messages of a claim share one lease.

        A worker extends leases automatically. In a handler this makes the lease end later, never sooner.

        Args:
            lease: its length from now; None: the queue's lease.
            unknown: no other arguments; the error for one of another library names ours.

        Returns:
            When the lease now ends (UTC).

        Raises:
            LeaseLost: the token is stale.
            InvalidDuration: the lease is not valid.

        Examples:
            >>> (delivery,) = orders.claim(lease="10s")
            >>> before = delivery.lease_until
            >>> delivery.extend("5m") > before
            True
        """
        if unknown:
            refuse(self.extend, unknown)
        self._refuse_if_deferred()
        core = self._queue._core
        span = core.lease if lease is None else milliseconds(lease, name="lease", minimum=1)
        self._queue._run(settle.extend_one(core, self, span))
        return self.lease_until

    def __enter__(self) -> Self:
        if not self.settled and self._lease.left(time.monotonic()) < 0:
            message = (
                f"message {self.id}: the lease expired before the work began; another consumer gets the "
                "message. Claim fewer at a time, use a longer lease, or extend it"
            )
            raise LeaseLost(message)
        observers = self._queue._core.client.observers
        if observers:
            observers.handling(self)
        self._process = this_process()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._process != this_process():
            return False
        if self._handling is not None:
            self._handling.end(error)
        if not self.settled and error is None:
            self.ack()
        elif not self.settled:
            queue = self._queue
            queue._broker._leave(queue._core, self._settled_by(error), error)
        return isinstance(error, Redeliver | Poison)

    def _settle(self, steps: Steps[list[Settlement]], error: BaseException | str | None = None) -> Settlement:
        self._refuse_if_deferred()
        (settlement,) = self._queue._run(steps)
        return self._note(settlement, error)

    def _settled_by(self, error: BaseException | None) -> Steps[Settlement]:
        steps = settle.settle_by_error(self._queue._core, [self._held], error, self._values)
        (settlement,) = yield from steps
        return self._note(settlement, error)

    def _note(self, settlement: Settlement, error: BaseException | str | None) -> Settlement:
        self.outcome = held_or_raise(settlement, self.outcome).outcome
        self._settled = (settlement, error)
        return settlement

    def _refuse_if_deferred(self) -> None:
        if self.outcome == "deferred":
            message = f"message {self.id} was acked before; its loop sends that ack with the next claim"
            raise LeaseLost(message)
