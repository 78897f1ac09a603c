"""The offsets that Spark stores, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq.core.batches.batches import ClaimedBatch
from rq_dlq.errors import InvalidInput, UpgradeRequired
from rq_dlq.spark.offsets import FORMAT, Offset, QueueOffset
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.schemas import HISTORY
from rq_dlq.values.version import __version__
from tests.spark.versions import since
from tests.tables import each_row

OFFSET = Offset("query", {"orders": QueueOffset(3, 2, 600, 1)})


def test_an_offset_is_read_as_it_was_stored_also_by_an_earlier_version() -> None:
    stored = OFFSET.as_json()
    assert Offset.of(stored) == OFFSET
    del stored["queues"]["orders"]["before"]
    assert Offset.of(stored).position("orders") == QueueOffset(3, 2, 600, 0)


@each_row("stored", [5, "5", None, ["query", "queues"], {"orders": "1-1"}])
def test_an_offset_of_another_source_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidInput, match="the checkpoint is not of a stream of messages"):
        Offset.of(stored)


@since(4, 2)
@each_row("stored", [5, "5", None, OFFSET.as_json()])
def test_a_history_refuses_it_too(stored: Any) -> None:
    from rq_dlq.spark.stream_history import HistoryStreamReader  # noqa: PLC0415 - an older Spark cannot

    options = StreamOptions.of({"queue": "orders", "view": "history", "url": "redis://127.0.0.1:1"})
    reader = HistoryStreamReader(options, HISTORY)
    with pytest.raises(InvalidInput, match="the checkpoint is not of a stream of a history"):
        reader.latestOffset(stored, reader.getDefaultReadLimit())


def test_an_offset_names_its_format_and_keeps_that_of_an_earlier_version() -> None:
    stored = OFFSET.as_json()
    assert "format" not in stored
    assert Offset.of(stored).after([]).as_json() == stored  # Spark takes another text for new messages
    assert OFFSET.after([ClaimedBatch("query.1", "bills")]).as_json()["format"] == FORMAT


LATER = [
    {"format": FORMAT + 1, "claims": []},
    {**OFFSET.as_json(), "format": FORMAT + 1},
    {**OFFSET.as_json(), "more": 1},
    {"query": "query", "queues": {"orders": {"batch": 1, "later": 1}}},
    {"query": "query", "queues": {"orders": [3, 2]}},
    {"query": "query", "queues": ["orders"]},
]


@each_row("stored", LATER)
def test_an_offset_of_a_later_version_is_refused(stored: Any) -> None:
    said = rf"a later version of rq_dlq wrote the checkpoint .*: this is {__version__}, which reads formats"
    with pytest.raises(UpgradeRequired, match=said):
        Offset.of(stored)


@since(4, 2)
def test_a_history_refuses_a_later_one_too() -> None:
    from rq_dlq.spark.stream_history import _check_form  # noqa: PLC0415 - an older Spark cannot

    _check_form({"format": "1-1"})  # a queue of this name
    with pytest.raises(UpgradeRequired, match=f"has format {FORMAT + 1}"):
        _check_form({"format": FORMAT + 1, "orders": {"after": "1-1"}})
