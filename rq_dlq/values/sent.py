"""The return value of a send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.values.durations import Duration

Known = Literal["ready", "scheduled", "leased", "dead", "expired", "acked"]
"""The state of an earlier message with the same id; acked: its result is kept, or `dedup_window`
remembers its ack."""

Did = Literal["replaced", "postponed", "redriven", "again"]
"""What a send with `on_duplicate` did to the earlier message.

Replaced: it has the new body, headers, priority and time to live; postponed: and it waits anew; redriven;
again: one more run of it follows."""
OnDuplicate = Literal["drop", "raise", "replace", "debounce", "redrive", "again"]
"""What happens to a message whose id is sent again; see `Queue.send`."""


class Sent(str):
    """The id of a sent message: text that also tells whether the message is new.

    It is immutable. In bodies, headers and logs, and when pickled, it is plain text; other encoders may need
    `str(sent)`.

    Examples:
        >>> sent = orders.send({"total": 9.5}, id="order-41")
        >>> sent, sent.new, sent.known
        ('order-41', False, 'ready')
    """

    __slots__ = ("_birth",)
    _birth: int

    @property
    def birth(self) -> int | None:
        """The number of this send, unique in the queue: a later message with the same id has a greater one.

        So `Queue.result`, `explain` and `cancel` of this object mean this message; those of its text mean the
        newest message with the id. None: unknown, for example before a session's commit.

        Examples:
            >>> first = orders.send({"total": 7.0}, id="order-42")
            >>> orders.cancel("order-42")
            'cancelled'
            >>> second = orders.send({"total": 8.0}, id="order-42")
            >>> second.birth > first.birth, orders.cancel(first)
            (True, 'unknown')
        """
        return getattr(self, "_birth", 0) or None

    @property
    def new(self) -> bool | None:
        """False: the queue already has this id, so nothing was sent. None: a session's commit decides."""
        return True

    @property
    def known(self) -> Known | None:
        """The state of the earlier message: ready, scheduled, leased, dead, expired or acked.

        None: the message is new, or a later version of the library wrote the earlier message.
        """
        return None

    @property
    def did(self) -> Did | None:
        """What the send did to the earlier message: replaced, postponed, redriven or again (`on_duplicate`).

        None: nothing, or the message is new.

        Examples:
            >>> sent = orders.send({"total": 12.5}, id="order-41", on_duplicate="replace")
            >>> sent.new, sent.known, sent.did
            (False, 'ready', 'replaced')
        """
        return None

    def result(self, *, wait: Duration | None = None) -> Any:
        """The result of the message, if it was requested; like `Queue.result`.

        Args:
            wait: how long to wait until the message is done; None: do not wait.

        Returns:
            A JSON value or bytes; None if the handler returned None.

        Raises:
            InvalidInput: the message was sent without `result=True` and by a queue that does not declare
                `results`.

        Examples:
            >>> sent = orders.send({"total": 7.0}, id="order-42", result=True)
            >>> sent.result(wait="10ms")
            Traceback (most recent call last):
            rq_dlq.errors.ResultUnavailable: message order-42 of 'orders' is not done yet: …
        """
        del wait
        hint = "if its queue keeps the results of all messages, use queue.result(id)"
        raise InvalidInput(f"message {self} was sent without result=True: {hint}")

    def _known_as(self, before: SentBefore) -> Sent:
        """What a send returns in place of this, since the queue already had the id."""
        return before

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def sent_with(message_id: str, birth: int) -> Sent:
    """The id of a message that was sent, with its birth."""
    sent = Sent(message_id)
    sent._birth = birth  # noqa: SLF001 - no argument of it: users do not make one
    return sent


def all_sent_with(ids: Iterable[str], births: Iterable[int]) -> list[Sent]:
    """As `sent_with`, of many messages, without a call of a function for each."""
    made = [*map(Sent, ids)]
    for sent, birth in zip(made, births, strict=True):
        sent._birth = birth  # noqa: SLF001 - as above
    return made


def birth_meant(message_id: str) -> int:
    """The birth of the message that is meant, if a send returned this id; 0: the newest with this id."""
    return (message_id.birth or 0) if isinstance(message_id, Sent) else 0


class SentBefore(Sent):
    """The id of a message that was not sent, since the queue already has this id."""

    __slots__ = ("_did", "_place")
    _place: Known | None
    _did: Did | None

    def __new__(cls, message_id: str, place: Known | None, birth: int = 0, did: Did | None = None) -> Self:
        """Make it from the id, the state and the birth of the earlier message; 0: unknown.

        Args:
            did: what was done to that message; None: nothing.
        """
        sent = super().__new__(cls, message_id)
        sent._place, sent._birth, sent._did = place, birth, did
        return sent

    @property
    def new(self) -> bool:
        """False."""
        return False

    @property
    def known(self) -> Known | None:
        """The state of the earlier message."""
        return self._place

    @property
    def did(self) -> Did | None:
        """What was done to the earlier message."""
        return self._did


class Unsent(Sent):
    """The id of a message that a session will send when it is committed."""

    __slots__ = ()

    @property
    def new(self) -> None:
        """None."""
        return
