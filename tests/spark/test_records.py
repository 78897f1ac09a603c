"""Records that are decoded together, beside each decoded alone."""

from __future__ import annotations

import pytest

from rq_dlq.spark.records import CONTENT_TYPES, Records
from rq_dlq.values import record as records
from tests.tables import each_row

BIRTH = (1_700_000_000_000 << records.NUMBER_BITS) + 7
ENDS = 1_700_000_060_000


@pytest.mark.parametrize("count", [1, 100])
def test_each_form(count: int) -> None:
    forms = [
        records.sent(BIRTH, records.pack_head(priority, headers, raw=raw, persistent=True) + body, expires)
        for priority in (0, 9)
        for headers in (b"", b'{"a":"b"}')
        for raw in (False, True)
        for expires in (None, ENDS)
        for body in (b"", b"x", b"x" * 300)
    ]
    found = Records(forms * count)
    contents = [records.content_of(record) for record in forms * count]
    assert found.body.to_pylist() == [content.body for content in contents]
    assert found.headers.to_pylist() == [[("a", "b")] if content.headers else [] for content in contents]
    assert found.priority.to_pylist() == [
        record[records.FLAGS] & records.PRIORITY for record in forms * count
    ]
    raw = [record[records.FLAGS] & records.BYTES != 0 for record in forms * count]
    assert found.content_type.to_pylist() == [CONTENT_TYPES[each] for each in raw]
    assert set(found.enqueued.tolist()) == {BIRTH >> records.NUMBER_BITS}
    assert [n for n, ends in enumerate(found._ends) if ends == ENDS] == [
        n for n, record in enumerate(forms * count) if records.expiry_of(record)
    ]


@each_row("cells", [[], [b""], [b"short"], [b"", records.sent(BIRTH, b"\4body"), b"cut"]])
def test_damaged(cells: list[bytes]) -> None:
    found = Records(cells)
    expected = [records.content_of(cell).body if len(cell) >= records.BARE else None for cell in cells]
    assert found.body.to_pylist() == expected
    assert found.enqueued_at.is_null().to_pylist() == [body is None for body in expected]
