"""A table as one case: nothing of it is left out, and what failed is named."""

from __future__ import annotations

import asyncio

import pytest

from tests.tables import each_row


class Hostile:
    """Its `repr` fails."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    hostile = Hostile()

    @each_row("left", [1, 2])
    @each_row("right, sign", [(1, "a"), (hostile, "b"), (2, "c")])
    def differs(left: object, right: object, sign: str, seen: list[object]) -> None:
        seen.append((left, right, sign))
        if left == right:
            pytest.fail("the same")

    seen: list[object] = []
    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows") as raised:
        differs(seen=seen)
    assert seen == [(left, *row) for left in (1, 2) for row in ((1, "a"), (hostile, "b"), (2, "c"))]
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["differs, in the row right=1, sign='a'", "differs, in the row left=1"],
        ["differs, in the row right=2, sign='c'", "differs, in the row left=2"],
    ]


def test_all_rows_of_two_tables_with_a_fixture_in_a_coroutine() -> None:
    tried = list[str]()

    @each_row("letter", "ab")
    @each_row(("number", "sign"), [(1, "+"), (2, "-")])
    async def check(prefix: str, letter: str, number: int, sign: str) -> None:
        tried.append(f"{prefix}{letter}{number}{sign}")

    asyncio.run(check(prefix="-"))
    assert tried == ["-a1+", "-a2-", "-b1+", "-b2-"]
    with pytest.raises(AssertionError, match="without rows"):
        each_row("number", [])
