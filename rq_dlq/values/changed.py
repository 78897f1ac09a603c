"""The result of a verb on chosen messages."""

from __future__ import annotations

from typing import Any, Self


class Changed(int):
    """The number of messages that a verb changed, with the number of leased ones that it left unchanged.

    When pickled, it is a plain number; other encoders may need `int(changed)`.

    Attributes:
        leased: the number of chosen messages that are being processed, and were left unchanged.
            To cancel one of them, use `Queue.cancel`. 0 if `places` leaves out "leased".

    Examples:
        >>> changed = orders.select(ids=["order-41"]).prioritize(9)
        >>> changed, changed.leased
        (1, 0)
        >>> (delivery,) = orders.claim()
        >>> changed = orders.purge(where="body.total > 5")
        >>> changed, changed.leased
        (0, 1)
    """

    leased: int

    def __new__(cls, number: int, leased: int = 0) -> Self:
        """Make it from both numbers."""
        changed = super().__new__(cls, number)
        changed.leased = leased
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)
