"""A row that fails is seen, and named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.tables import each
from tests.conftest import Clock


def failed(group: BaseExceptionGroup[Any]) -> list[str]:
    """The notes of what failed."""
    return [note for error in group.exceptions for note in error.__notes__]


def test_all_rows_have_their_turn() -> None:
    seen = []

    @each("number, name", [(1, "a"), (2, "b"), (3, "c")])
    def case(number: int, name: str) -> None:
        seen.append(name)
        assert number != 1
        if number == 3:
            with pytest.raises(KeyError):
                pass

    with pytest.raises(BaseExceptionGroup) as raised:
        case()
    assert failed(raised.value) == ["in the row number=1, name='a'", "in the row number=3, name='c'"]
    assert seen == ["a", "b", "c"]


async def test_each_row_begins_anew_and_is_audited(broker: Any, clock: Clock, raw: Any) -> None:
    begin = clock.now

    @each("harm", ["messages", "leases", ""])
    async def case(harm: str, broker: Any) -> None:
        assert (clock.now, raw.keys("rq:*")) == (begin, [])
        await broker.queue("a").send("x")
        assert await broker.queue("a").claim()
        clock.advance("1s")
        raw.delete(f"rq:{{a}}:{harm}")

    with pytest.raises(BaseExceptionGroup) as raised:
        await case(broker=broker, raw=raw, clock=clock)
    assert failed(raised.value) == ["in the row harm='messages'", "in the row harm='leases'"]
