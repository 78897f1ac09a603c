"""In which form servers get the verbs in each test: as Redis Functions, or as a script of the same text."""

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


def use(name: str) -> None:
    """Have the brokers of this process begin in this form; on Redis 6.2 they have the text in any case."""
    Functions.first = NAMES.index(name)


@dataclass(frozen=True)
class Forms:
    """The forms among which each file of tests draws one; without `$RQ_DLQ_TEST_FORM` all have functions.

    Args:
        names: some of `NAMES`.
        draw: of the same files and the same text the draws are the same.
    """

    names: Sequence[str]
    draw: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As the variables say."""
        return cls((variables.get(VARIABLE) or NAMES[0]).split(","), variables.get(DRAW, ""))

    def take(self, test: str, only: str = "") -> str:
        """Have this test, and warm processes that it starts, use its form; return its name.

        Args:
            test: the file draws.
            only: the form that the test needs; empty: any.
        """
        drawn = place(f"{self.draw} form", test.split("::", 1)[0]) % len(self.names)
        os.environ[VARIABLE] = name = only or self.names[drawn]
        use(name)
        return name
