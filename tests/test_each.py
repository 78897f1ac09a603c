"""A table as one case: nothing of it is left out, and what failed is named."""

from __future__ import annotations

import pytest

from tests.each import each


class Hostile:
    """Its `repr` fails."""

    def __repr__(self) -> str:
        raise RuntimeError


def refuse_two(left: object, right: object) -> None:
    if left != right:
        raise ValueError("two numbers")


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    hostile = Hostile()

    @each("left", [1, 2])
    @each("right, sign", [(1, "a"), (hostile, "b"), (2, "c")])
    def differs(left: object, right: object, sign: str, seen: list[object]) -> None:
        seen.append((left, right, sign))
        with pytest.raises(ValueError, match="two numbers"):
            refuse_two(left, right)

    seen: list[object] = []
    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows") as raised:
        differs(seen=seen)
    assert seen == [(left, *row) for left in (1, 2) for row in ((1, "a"), (hostile, "b"), (2, "c"))]
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["differs, right, sign = (1, 'a')", "differs, left = 1"],
        ["differs, right, sign = (2, 'c')", "differs, left = 2"],
    ]
