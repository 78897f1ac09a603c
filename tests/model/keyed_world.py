"""The world of the model in order of keys: some of its messages wait for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.model.world import World


class KeyedWorld(World):
    """A queue with `per_key` and a message in every state.

    T holds l1, l2 and l3, each the first of its key. r1, e1 and what is sent as n1 are blocked behind two of
    them; s1 will be when it is due, and d1 and x1 if they are redriven. r2 is ready.
    """

    key_of: ClassVar[Mapping[str, str]] = {
        "d1": "a", "l1": "a", "r1": "a", "n1": "a", "l2": "b", "e1": "b", "l3": "c", "s1": "c", "x1": "r",
        "r2": "r", "gone": "g", "s2": "s", "n2": "n",
    }  # fmt: skip

    def _begin(self) -> None:
        self.configure(per_key="order")
        super()._begin()
