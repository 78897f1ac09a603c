"""Observers of the messages in a process: for traces, metrics, and reports of dead letters."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.values.failure import Cause
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Fate


@dataclass(slots=True)
class Sending:
    """A call that sends messages.

    Attributes:
        queue: the queue's name.
        id: the message's id; None: the call sends several messages.
        headers: the caller's headers; in a batch, a `Message` may have its own.
        staged: the message is part of a session, whose commit sends it, or of an ack that sends.
        carried: headers that observers add to the messages. A message that already has one of these names
            gets none of them.
        count: how many messages were sent; 0 until the call ends.

    Examples:
        >>> class Trace(Observer):
        ...     def sending(self, sending):
        ...         print(sending.queue, sending.id)
        ...         sending.carried["trace"] = "7f"
        ...         return super().sending(sending)
        >>> trace = broker.observe(Trace())
        >>> sent = broker.queue("orders").send({"total": 1.0}, id="order-42")
        orders order-42
    """

    queue: str
    id: str | None
    headers: Mapping[str, str]
    staged: bool = False
    carried: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """A message that this process has settled.

    Attributes:
        queue: the queue's name.
        id: the message's id.
        outcome: the outcome; see `Settlement.outcome`.
        delay: seconds until it is redelivered; None: it is not redelivered.
        error: the error or reason; None: an ack or a release, or a failure without an error.
        cause: the cause in its history; `cause.fingerprint` identifies the group of the dead letter.
        delivery: the delivery that a handler or a `with` block had; None: it was settled manually, or its
            body could not be decoded.

    Examples:
        >>> class Log(Observer):
        ...     def settled(self, settled):
        ...         print(settled.id, settled.outcome, settled.error)
        >>> log = broker.observe(Log())
        >>> (delivery,) = broker.queue("orders").claim()
        >>> settlement = delivery.nack("the shop is closed")
        order-41 redelivered the shop is closed
    """

    queue: str
    id: str
    outcome: Fate
    delay: float | None
    error: BaseException | str | None
    cause: Cause
    delivery: Leased[Any] | None


class Observer:
    """Observes the messages of a process; pass it to `broker.observe`. Override the methods you need.

    The methods run in the thread or task that does the work, so they should return quickly. An error in them
    is logged and has no other effect. They do not see the events of other processes, nor changes within
    Redis: expired leases and expired messages.

    Examples:
        >>> class Log(Observer):
        ...     def settled(self, settled):
        ...         print(settled.outcome)
        >>> log = broker.observe(Log())
        >>> for delivery in broker.queue("orders").claim():
        ...     settlement = delivery.ack()
        acked
    """

    def sending(self, sending: Sending) -> AbstractContextManager[object]:
        """One or more messages are about to be sent; `sending.carried` takes headers for them.

        Args:
            sending: the messages, and the headers to add.

        Returns:
            A context manager that exits when they are sent, or with the error of the call.

        Examples:
            >>> from contextlib import contextmanager
            >>> class Timer(Observer):
            ...     @contextmanager
            ...     def sending(self, sending):
            ...         yield
            ...         print("sent", sending.count)
            >>> timer = broker.observe(Timer())
            >>> sent = broker.queue("orders").send({"total": 1.0})
            sent 1
        """
        del sending
        return nullcontext()

    def handling(self, delivery: Leased[Any]) -> AbstractContextManager[object]:
        """A worker is about to call a handler, or a `with` block of a delivery begins.

        Args:
            delivery: the delivery.

        Returns:
            A context manager that exits when the call or the block ends, or with its error. The message is
            settled after that.

        Examples:
            >>> from contextlib import contextmanager
            >>> class Timer(Observer):
            ...     @contextmanager
            ...     def handling(self, delivery):
            ...         yield
            ...         print("handled", delivery.id)
            >>> timer = broker.observe(Timer())
            >>> for delivery in broker.queue("orders").claim():
            ...     with delivery:
            ...         print(delivery.body["total"])
            9.5
            handled order-41
        """
        del delivery
        return nullcontext()

    def settled(self, settled: Settled) -> None:
        """A message was settled: by a worker, by a `with` block or manually.

        Args:
            settled: the message, and how it was settled.

        Examples:
            >>> class Log(Observer):
            ...     def settled(self, settled):
            ...         if settled.outcome == "dead":
            ...             print(settled.queue, settled.id, settled.cause)
            >>> log = broker.observe(Log())
            >>> (delivery,) = broker.queue("orders").claim()
            >>> settlement = delivery.poison("no address")
            orders order-41 no address
        """
