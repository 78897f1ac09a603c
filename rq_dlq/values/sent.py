"""What a send returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from rq_dlq.values.durations import Duration

Known = Literal["ready", "scheduled", "leased", "dead", "expired", "acked"]
"""Where the message is whose id a send found in the queue; acked: its ack is remembered (`dedup_window`)."""
PLACES: frozenset[str] = frozenset(Known.__args__)  # type: ignore[attr-defined]


class Sent(str):
    """The id of a message, as a send returns it: text that also knows whether the message is new.

    It cannot be changed. In bodies and headers, in logs and pickled it is plain text; encoders other than
    ours may want `str(sent)`.

    Examples:
        >>> sent = orders.send({"total": 9.5}, id="order-41")
        >>> sent, sent.new, sent.known
        ('order-41', False, 'ready')
    """

    __slots__ = ()

    @property
    def new(self) -> bool | None:
        """False: the queue knew the id, so nothing was sent. None: a session decides it at its commit."""
        return True

    @property
    def known(self) -> Known | None:
        """Where the known message was: ready, scheduled, leased, dead, expired or acked.

        None: the message is new, or a later version of the library wrote the known one.
        """
        return None

    def result(self, *, wait: Duration | None = None) -> Any:
        """The result of the message, if it was asked for: as `Queue.result`.

        Args:
            wait: how long to wait until the message is done; None: do not wait.

        Returns:
            A JSON value, or bytes; None, if nothing was returned.

        Raises:
            InvalidInput: the message was sent without `result=True`, by a queue that does not declare
                `results`, or its session is not committed.

        Examples:
            >>> sent = orders.send({"total": 7.0}, id="order-42", result=True)
            >>> sent.result(wait="10ms")
            Traceback (most recent call last):
            rq_dlq.errors.ResultUnavailable: message order-42 of 'orders' is not done yet: …
        """
        del wait
        message = f"message {self} was sent without result=True, or in a session: use queue.result(id)"
        raise InvalidInput(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class SentBefore(Sent):
    """The id of a message that the queue knew, so nothing was sent."""

    __slots__ = ("_place",)
    _place: Known | None

    def __new__(cls, message_id: str, place: Known | None) -> Self:
        """The id, and where its message is."""
        sent = super().__new__(cls, message_id)
        sent._place = place
        return sent

    @property
    def new(self) -> bool:
        """False."""
        return False

    @property
    def known(self) -> Known | None:
        """Where the known message was."""
        return self._place


class Unsent(Sent):
    """The id of a message that a session will send when it is committed."""

    __slots__ = ()

    @property
    def new(self) -> None:
        """None."""
        return
