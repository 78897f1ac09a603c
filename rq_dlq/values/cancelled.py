"""The result of a cancel."""

from __future__ import annotations

from typing import Any, Self


class Cancelled(str):
    """The result of a cancel, a word, and which message it is about.

    "cancelled"; or, if nothing was changed: "dead", "expired", "acked" if the queue keeps the result of the
    message or remembers its ack (`dedup_window`), or "unknown". When pickled, it is plain text.

    Attributes:
        birth: the number of the message's send (`Sent.birth`); None: unknown.

    Examples:
        >>> sent = orders.send({"total": 7.0}, id="order-42")
        >>> cancelled = orders.cancel(sent)
        >>> cancelled, cancelled.birth == sent.birth
        ('cancelled', True)
    """

    __slots__ = ("birth",)
    birth: int | None

    def __new__(cls, word: str, birth: int | None = None) -> Self:
        """Make it from the word and the birth."""
        cancelled = super().__new__(cls, word)
        cancelled.birth = birth
        return cancelled

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)
