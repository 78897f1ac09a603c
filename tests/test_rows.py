"""A test of many rows tries each of them, and says which one failed."""

from __future__ import annotations

import asyncio

import pytest

from tests.rows import for_each


def test_the_row_that_fails_is_named() -> None:
    tried = list[tuple[int, str]]()

    @for_each(("number", "text"), [(1, "1"), (2, "two"), (3, "3")])
    def check(number: int, text: str) -> None:
        tried.append((number, text))
        assert str(number) == text

    with pytest.raises(AssertionError) as failed:
        check()
    assert failed.value.__notes__ == ["the row: {'number': 2, 'text': 'two'}"]
    assert tried == [(1, "1"), (2, "two")]


def test_all_rows_of_two_tables_with_a_fixture_in_a_coroutine() -> None:
    tried = list[str]()

    @for_each("letter", "ab")
    @for_each("number", [1, 2])
    async def check(prefix: str, letter: str, number: int) -> None:
        tried.append(f"{prefix}{letter}{number}")

    asyncio.run(check(prefix="-"))
    assert tried == ["-a1", "-a2", "-b1", "-b2"]
    with pytest.raises(AssertionError, match="without rows"):
        for_each("number", [])
