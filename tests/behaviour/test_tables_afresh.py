"""Each row of a table meets an empty server, and is audited."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Clock
from tests.tables import each_row_afresh


def failed(group: BaseExceptionGroup[Any]) -> list[str]:
    """The notes of what failed."""
    return [note for error in group.exceptions for note in error.__notes__]


async def test_each_row_begins_anew_and_is_audited(broker: Any, clock: Clock, raw: Any) -> None:
    begin = clock.now

    @each_row_afresh("harm", ["messages", "leases", ""])
    async def case(harm: str, broker: Any) -> None:
        assert (clock.now, raw.keys("rq:*")) == (begin, [])
        await broker.queue("a").send("x")
        assert await broker.queue("a").claim()
        clock.advance("1s")
        raw.delete(f"rq:{{a}}:{harm}")

    with pytest.raises(BaseExceptionGroup) as raised:
        await case(broker=broker, raw=raw, clock=clock)
    assert failed(raised.value) == ["case, in the row harm='messages'", "case, in the row harm='leases'"]
