"""What sees messages go through a process: for traces, metrics, and reports of what died."""

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
        queue: its name.
        id: of the message; None: the call sends several.
        headers: those that the caller passed; in a batch, a `Message` may have others.
        staged: a session keeps the message, and its commit sends it.
        carried: headers that observers put into the messages. A message that has one of these names keeps its
            own, and gets none of them.
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
        queue: its name.
        id: the message's.
        outcome: what became of it; see `Settlement.outcome`.
        delay: seconds until it is redelivered; None: it is not.
        error: what it was settled by; None: an ack or a release, or a failure without an error.
        cause: what its history says of that error; `cause.fingerprint` names its kind, and so the group of
            the dead letter.
        delivery: if a handler or a `with` block had it; else None: it was settled by hand, or its body could
            not be decoded.

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
    """Sees what a process does with messages; `broker.observe` takes it. Override what you need.

    The methods run in the thread, or in the task of the event loop, that does the work, so they should return
    soon. An error that they raise is logged, and changes nothing. What other processes do is not seen here,
    nor what Redis does by itself: a lease that lapses, a message that expires.

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
            sending: the messages, and what is carried with them.

        Returns:
            A context that is left when they are sent, or with the error of the call.

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
            delivery: the one that is handled.

        Returns:
            A context that is left when the call or the block ends, or with its error. The message is settled
            after that.

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
        """A message was settled: by a worker, a `with` block or by hand.

        Args:
            settled: the message, how it was settled, and when.

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
