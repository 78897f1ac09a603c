"""What `.option(…)` may say, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.spark.option_values import queue_text
from rq_dlq.spark.options import ReadOptions, StreamOptions, WriteOptions, shard_of, shards_of
from rq_dlq.spark.partitions import tasks_for
from rq_dlq.spark.queues import chosen
from tests.tables import each_row

NOON = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000)


def test_names_of_any_case() -> None:
    found = ReadOptions.of(
        {"QUEUE": "orders", "numpartitions": "3", "errorclass": "ValueError", "VIEW": "DLQ"}
    )
    assert (found.queues, found.partitions, found.error_class, found.view) == (
        ("orders",),
        3,
        "ValueError",
        "dlq",
    )


def test_the_usual() -> None:
    found = ReadOptions.of({"queue": "orders"})
    assert (found.view, found.shards, found.partitions, found.history) == ("queue", 0, 0, "struct")
    assert (found.since, found.until, found.url, found.batch) == (None, None, None, "")


def test_lists_and_patterns() -> None:
    assert ReadOptions.of({"queue": "a, {shop}.b ,c*"}).queues == ("a", "{shop}.b", "c*")
    assert ReadOptions.of({"queue": ' ["a;b", "c*"]'}).queues == ("a;b", "c*")
    assert ReadOptions.of({"queue": "[a],[]"}).queues == ("[a]", "[]")
    assert StreamOptions.of({"queue": queue_text(["[a]"])}).queues == ("[a]",)
    assert StreamOptions.of({"queue": "a, b*"}).queues == ("a", "b*")


def test_a_name_stands_for_its_shards_and_a_pattern_for_what_is_there() -> None:
    there = ["a:0", "a:1", "orders", "orders.eu", "orders.us", "payments"]
    assert chosen(there, ["payments", "orders.*", "orders*"], 0) == (
        ["payments", "orders.eu", "orders.us", "orders"],
        [],
    )
    assert chosen(there, ["a"], 3) == (["a:0", "a:1"], ["a:2"])
    assert chosen(there, ["b", "b*", "order."], 0) == ([], ["b", "b*", "order."])
    assert chosen(there, ["a"], 2) == (["a:0", "a:1"], [])


def test_a_write_goes_to_one_queue() -> None:
    for given in ("a*", "a,b"):
        with pytest.raises(RqDlqError, match="is not the name of one queue; only what reads takes several"):
            WriteOptions.of({"queue": given})


@each_row("text", ["2026-11-21T12:00:00Z", "2026-11-21T12:00:00", "2026-11-21T13:00+01:00", str(NOON)])
def test_times_are_utc_unless_they_say_otherwise(text: str) -> None:
    assert ReadOptions.of({"queue": "a", "since": text}).since == NOON


@each_row(("text", "more"), [("12:00:00.000001", 1), ("12:00:00.001", 1), ("12:00:00.0011", 2)])
def test_less_than_a_millisecond_is_rounded_up(text: str, more: int) -> None:
    """So a filter of rows by the same bound keeps the same: times of messages are whole milliseconds."""
    found = ReadOptions.of({"queue": "a", "since": f"2026-11-21T{text}", "until": f"2026-11-21T{text}Z"})
    assert (found.since, found.until) == (NOON + more, NOON + more)


def test_the_url_is_never_shown() -> None:
    for kind in (ReadOptions, StreamOptions):
        assert "secret" not in repr(kind.of({"queue": "a", "url": "redis://:secret@host"}))


@each_row(
    ("given", "said"),
    [
        ({"nope": "1"}, "unknown option 'nope': the options are url, namespace"),
        ({"maxMessagesPerTrigger": "1"}, "unknown option 'maxMessagesPerTrigger'"),
        ({"view": "dead"}, "'dead' is not one of queue, scheduled, leased, dlq"),
        ({"queue": ""}, "option queue is missing: pass the name of a queue"),
        ({"queue": "a,,b"}, "pass the name of a queue"),
        ({"queue": "a b"}, "cannot name a queue"),
        ({"queue": '["a", " "]'}, "cannot name a queue"),
        ({"queue": '["a", ""]'}, "pass the name of a queue"),
        ({"queue": '["a"'}, "is not a list of names, separated by commas or in JSON"),
        ({"reason": "poisoned", "view": "dlq"}, "'poisoned' is not one of exhausted, poison, unprocess"),
        ({"numPartitions": "-1"}, "a whole number from 0"),
        ({"numPartitions": "many"}, "a whole number from 0"),
        ({"fetchSize": "0"}, "a whole number from 1 to 500"),
        ({"fetchSize": "501"}, "a whole number from 1 to 500"),
        ({"since": "yesterday"}, "is not an ISO time"),
        ({"until": ""}, "is not an ISO time"),
        ({"since": "2030"}, "'2030' is not milliseconds since 1970, which have 12 digits or more"),
        ({"since": "20300101"}, "write a date as 2026-11-21"),
        ({"until": "1893456000"}, "write a date as 2026-11-21"),
        ({"path": "orders"}, "pass the name of the queue as an option"),
        ({"history": "xml", "view": "dlq"}, "one of struct, json, none"),
        ({"history": "json"}, "option history is only for dlq, expired, not for queue"),
        (
            {"fingerprint": "1", "view": "queue"},
            "option fingerprint is only for dlq, expired, history, not",
        ),
        ({"reason": "poison"}, "option reason is only for dlq, expired, history, not for queue"),
        ({"ids": "a,,b"}, "option ids: 'a,,b' is not a list of ids"),
        ({"ids": "[1]"}, "is not a list of ids"),
        ({"ids": '["a"'}, "is not a list of ids"),
        ({"ids": "a", "since": "2026-11-21"}, "option ids works without since and until"),
        (
            {"ids": "a", "view": "leased"},
            "ids is only for queue, scheduled, dlq, expired, not for leased",
        ),
        (
            {"since": "2026-11-21", "view": "metrics"},
            "leased, dlq, expired, history, not for metrics",
        ),
        ({"batch": "b"}, "option batch is only for leased, not for queue"),
        ({"queue": "a*", "shards": "2"}, "not with patterns"),
        ({"shards": "1000000"}, "a whole number from 0 to 1,000"),
    ],
)
def test_bad_input(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("*", r"\*")):
        ReadOptions.of({"queue": "orders"} | given)


@each_row(
    ("text", "ids"),
    [("a", ["a"]), ("a, b,a", ["a", "b"]), ('["a,b", " c"]', ["a,b", " c"]), ("", []), (" ", [])],
)
def test_ids(text: str, ids: list[str]) -> None:
    assert ReadOptions.of({"queue": "orders", "ids": text}).ids == tuple(ids)


def test_streams() -> None:
    found = StreamOptions.of(
        {"queue": "orders", "shards": "2", "lease": "90s", "failondataloss": "False", "maxWait": "0"}
    )
    assert (found.lease, found.fail_on_loss, found.max_wait) == (90_000, False, 0)
    assert shards_of("orders", found.shards) == ["orders:0", "orders:1"]
    assert [shard_of(family, found.shards) for family in ("orders:0", "orders:1")] == [0, 1]
    assert shards_of("orders", 0) == ["orders"]
    assert shard_of("orders:1", 0) == 0


@each_row(("text", "value"), [("1000", 1_000), ("512k", 512 << 10), ("64MB", 64 << 20), ("1 g", 1 << 30)])
def test_bytes(text: str, value: int) -> None:
    assert StreamOptions.of({"queue": "orders", "maxBytesPerTrigger": text}).max_bytes == value


@each_row(
    ("given", "said"),
    [
        ({"queue": "a*", "shards": "2"}, "option shards works with names of queues, not with patterns"),
        ({"queue": "a,,b"}, "pass the name of a queue"),
        ({"since": "1"}, "unknown option 'since'"),
        ({"lease": "soon"}, "lease: 'soon' is not a duration"),
        ({"lease": "1ms"}, "out of range"),
        ({"maxMessagesPerTrigger": "0"}, "a whole number from 1"),
        ({"maxBytesPerTrigger": "much"}, "is not a number of bytes"),
        ({"maxBytesPerTrigger": "0"}, "is not a number of bytes"),
        ({"maxBytesPerTrigger": "inf"}, "is not a number of bytes"),
        ({"failOnDataLoss": "maybe"}, "one of true, false"),
        ({"queue": ""}, "pass the name of a queue"),
        ({"view": "dlq"}, "option view: 'dlq' is not one of queue, history"),
        ({"maxBatchFailures": "0"}, "a whole number from 1"),
        ({"startingOffsets": "latest"}, "option startingOffsets is only for history, not for queue"),
        ({"handler": "jobs.totals"}, "a function that tasks can import, as module:function"),
        ({"handler": "jobs:totals", "view": "history"}, "option handler is only for queue, not for history"),
        ({"handlercolumns": "body"}, "option handlerColumns works with option handler: pass both"),
    ],
)
def test_bad_input_of_streams(given: dict[str, Any], said: str) -> None:
    with pytest.raises(RqDlqError, match=said):
        StreamOptions.of({"queue": "orders"} | given)


@each_row(
    ("messages", "cores", "tasks"),
    [
        (50_000, 0, 2), (50_000, 2, 2), (50_000, 32, 32), (50_000, 400, 50), (10**6, 8, 40), (900, 8, 1),
        (0, 8, 1),
    ],
)  # fmt: skip
def test_tasks_follow_the_cores(messages: int, cores: int, tasks: int) -> None:
    assert tasks_for(messages, cores) == tasks
