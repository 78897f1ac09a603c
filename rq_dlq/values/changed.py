"""What a verb on chosen messages returns."""

from __future__ import annotations

from typing import Any, Self


class Changed(int):
    """How many messages a verb changed: a number that also knows how many it left, since they are in work.

    Pickled it is a plain number; encoders other than ours may want `int(changed)`.

    Attributes:
        in_work: how many more were chosen, by their ids or a condition, and left as they are, since somebody
            works on them. `Queue.cancel` takes such a message back; `places` without "leased" means none.

    Examples:
        >>> changed = orders.select(ids=["order-41"]).prioritize(9)
        >>> changed, changed.in_work
        (1, 0)
        >>> (delivery,) = orders.claim()
        >>> changed = orders.purge(where="body.total > 5")
        >>> changed, changed.in_work
        (0, 1)
    """

    in_work: int

    def __new__(cls, number: int, in_work: int = 0) -> Self:
        """Both numbers."""
        changed = super().__new__(cls, number)
        changed.in_work = in_work
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)
