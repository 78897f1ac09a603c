"""In which form servers get the verbs in each test: as Redis Functions, or as a script of the same text.

Of several forms one file in eight draws another than the first, which most users have. As a script each call
takes the server seven times as long: with half of the files the tests took a third more CPU. What depends
on the form has tests of its own (`tests/format/test_side_by_side.py`, `tests/test_loading.py`, those marked
`form`); a draw finds what these do not know of.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rq_dlq._redis.loading import Functions
from tests.part import place
from tests.servers.choice import DRAW

VARIABLE = "RQ_DLQ_TEST_FORM"
NAMES = ("functions", "text")
IN = 8
"""One file in so many has another form than the first."""


def use(name: str) -> None:
    """Have the brokers of this process begin in this form; on Redis 6.2 they have the text in any case."""
    Functions.first = NAMES.index(name)


@dataclass(frozen=True)
class Forms:
    """The forms among which each file of tests draws one; without `$RQ_DLQ_TEST_FORM` all have functions.

    Args:
        names: some of `NAMES`; the first is that of most files.
        draw: of the same files and the same text the draws are the same.
    """

    names: Sequence[str]
    draw: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As the variables say."""
        return cls((variables.get(VARIABLE) or NAMES[0]).split(","), variables.get(DRAW, ""))

    def form_of(self, file: str) -> str:
        """The name of the form with which a file runs."""
        lot, others = place(f"{self.draw} form", file), self.names[1:]
        return others[lot // IN % len(others)] if others and lot % IN == 0 else self.names[0]

    def take(self, test: str, only: str = "") -> str:
        """Have this test, and warm processes that it starts, use its form; return its name.

        Args:
            test: the file draws.
            only: the form that the test needs; empty: any.
        """
        os.environ[VARIABLE] = name = only or self.form_of(test.split("::", 1)[0])
        use(name)
        return name
