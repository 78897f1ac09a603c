"""`rq-dlq send`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rq_dlq
from rq_dlq.client import queue as queue_module
from rq_dlq.errors import BrokerUnavailable
from rq_dlq.values.failure import moment
from tests.cli.conftest import Shell
from tests.tables import each_row


def bodies(broker: rq_dlq.Broker, queue: str = "orders") -> list[Any]:
    return [message.body for message in broker.queue(queue).peek(1_000)]


def test_a_line_is_a_message(shell: Shell, broker: rq_dlq.Broker) -> None:
    result = shell("send", "orders", typed="one\ntwo three\r\n\nünf")
    assert bodies(broker) == ["one", "two three", "", "ünf"]
    assert result.stdout == ""
    assert "sent 4 messages to orders" in result.stderr


def test_a_file_of_json_lines(shell: Shell, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"id": 1}\n\n[2]\n"three"\n4\n')
    shell("send", "orders", str(file), "--jsonl")
    assert bodies(broker) == [{"id": 1}, [2], "three", 4]


def test_csv_rows_are_objects(shell: Shell, broker: rq_dlq.Broker) -> None:
    text = '\ufeffcity,zip,size,note\n"New\nYork",00501,8.5,\nRome,100,-3,"a ""b"""\n'
    shell("send", "orders", "-", "--csv", typed=text.encode())
    assert bodies(broker) == [
        {"city": "New\nYork", "zip": "00501", "size": 8.5, "note": None},
        {"city": "Rome", "zip": 100, "size": -3, "note": 'a "b"'},
    ]


@pytest.mark.parametrize(
    ("form", "typed", "named"),
    [
        ("--jsonl", b'1\n{"a": \n3\n{"b"}\n', ["line 2: not JSON", "line 4: not JSON"]),
        ("--csv", b"a,b\n1,2\n3\n", ["line 3: 1 cell, but the first row has 2"]),
        (None, b"fine\n\xff\xfe\n", ["line 2: not UTF-8 text"]),
    ],
)
def test_broken_lines_are_named_and_nothing_is_sent(
    shell: Shell, broker: rq_dlq.Broker, form: str | None, typed: bytes, named: list[str]
) -> None:
    words = ["send", "orders", *([form] if form else [])]
    told = shell(*words, code=1, typed=typed).stderr
    assert all(text in told for text in named)
    assert "nothing was sent" in told
    assert broker.queues() == []
    told = shell(*words, "--skip-bad", typed=typed).stderr
    assert all(text in told for text in named)
    assert len(bodies(broker)) == len(typed.splitlines()) - len(named) - (form == "--csv")


def test_a_column_that_is_named_twice_loses_nothing(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("send", "orders", "--csv", typed="a,b,a\n1,2,3\n", code=1).stderr
    assert "line 1: the first row names 'a' twice" in told
    assert broker.queues() == []


def test_a_message_too_large_is_a_broken_line(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("send", "orders", typed="ok\n" + "x" * 2_000_000, code=1).stderr
    assert "line 2: a message of 2,000,002 bytes" in told
    assert broker.queues() == []


def test_only_some_broken_lines_are_named(shell: Shell) -> None:
    told = shell("send", "orders", "--jsonl", typed="{\n" * 30, code=1).stderr
    assert "… and 20 more" in told
    assert "30 lines are not messages" in told


def test_options_reach_the_messages(shell: Shell, broker: rq_dlq.Broker) -> None:
    options = ["--priority", "7", "--header", "tenant=a", "--header", "query=x=y", "--ttl", "1h"]
    shell("send", "orders", *options, typed="one\n")
    (message,) = broker.queue("orders").peek()
    assert message.priority == 7
    assert message.headers == {"tenant": "a", "query": "x=y"}
    assert message.expires_at is not None
    shell("send", "orders", "--delay", "1h", typed="later\n")
    assert broker.queue("orders").stats().scheduled == 1


def test_times_with_and_without_a_zone(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a zone is this machine's."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        shell("send", "orders", "--at", "2100-01-01 09:00", "--expires-at", "2100-01-02T00:00Z", typed="x")
    finally:
        monkeypatch.undo()
        time.tzset()
    (message,) = broker.queue("orders").select(all=True).browse()
    assert moment(message.due) == datetime(2100, 1, 1, tzinfo=UTC)
    assert message.expires_at == datetime(2100, 1, 2, tzinfo=UTC)
    told = shell("send", "orders", "--expires-at", "2020-01-01", typed="x", code=2).stderr
    assert "--expires-at 2020-01-01" in told
    assert "has passed" in told


@each_row(
    "words",
    [
        ["orders", "--priority", "10"],
        ["orders", "--header", "nonsense"],
        ["orders", "--delay", "soon"],
        ["orders", "--at", "soon"],
        ["orders", "--at", "2100-01-01", "--delay", "1h"],
        ["orders", "no-such-file"],
        ["orders", "--jsonl", "--csv"],
        ["two words"],
        ["DLQ.orders"],
    ],
)
def test_what_makes_no_sense_is_code_2(shell: Shell, broker: rq_dlq.Broker, words: list[str]) -> None:
    shell("send", *words, typed="one\n", code=2)
    assert broker.queues() == []


def test_ids_and_counts_for_programs(shell: Shell, broker: rq_dlq.Broker) -> None:
    ids = shell("send", "orders", "--ids", typed="a\nb\n").stdout.split()
    assert ids == [message.id for message in broker.queue("orders").peek()]
    told = json.loads(shell("-o", "jsonl", "send", "orders", "--jsonl", "--skip-bad", typed="1\n{\n").stdout)
    assert told == {"queue": "orders", "sent": 1, "skipped": 1}
    told = json.loads(shell("-o", "json", "send", "bills", "--ids", typed="a\nb\n").stdout)
    assert told["ids"] == [message.id for message in broker.queue("bills").peek()]
    lines = shell("-o", "jsonl", "send", "mails", "--ids", typed="a\nb\n").stdout.splitlines()
    ids = [message.id for message in broker.queue("mails").peek()]
    told = [json.loads(line) for line in lines]
    assert told == [*({"id": one} for one in ids), {"queue": "mails", "sent": 2, "skipped": 0}]


def test_lines_whose_ids_are_known_replace_what_waits(shell: Shell, broker: rq_dlq.Broker) -> None:
    words = ["send", "orders", "--jsonl", "--id-field", "order"]
    shell(*words, typed='{"order": 7, "n": 1}\n{"order": "b", "n": 1}\n')
    told = shell(*words, typed='{"order": 7, "n": 2}\n{"order": "c", "n": 2}\n').stderr
    assert "sent 1 message to orders; 1 id known (ready: 1)" in told
    told = shell(*words, "--on-duplicate", "replace", typed='{"order": 7, "n": 3}\n').stderr
    assert "sent 0 messages to orders; 1 id known (replaced: 1)" in told
    queue = broker.queue("orders")
    assert {one.id: one.body["n"] for one in queue.peek()} == {"7": 3, "b": 1, "c": 2}
    queue.claim(9)
    words += ["--on-duplicate", "again"]
    said = json.loads(shell("-o", "json", *words, typed='{"order": 7}\n{"order": "b"}\n').stdout)
    assert said == {"queue": "orders", "sent": 0, "skipped": 0, "known": {"again": 2}}
    told = shell(*words, typed='{"n": 1}\n{"order": 1.5}\n', code=1).stderr
    assert told.count("no text or whole number in the field 'order', which is its id") == 2


def test_the_longest_wait_of_what_is_sent_again(shell: Shell, broker: rq_dlq.Broker) -> None:
    """It counts from the first send, which is over by the second."""
    words = ["send", "orders", "--id", "m", "--on-duplicate", "debounce"]
    shell(*words, "--delay", "30m", typed="one\n", code=2)  # ten minutes, unless it is said
    first = [*words, "--delay", "1h", "--max-delay", "90m"]
    shell(*first, typed="one\n")
    told = shell(*words, "--delay", "30m", "--max-delay", "30m", typed="two\n").stderr
    assert "1 id known (postponed: 1)" in told
    (message,) = broker.queue("orders").select(all=True).browse()
    assert message.body == "two"
    assert (moment(message.due) - message.enqueued_at).total_seconds() == pytest.approx(1800, abs=0.001)


@each_row(
    "words, says",
    [
        (["--on-duplicate", "replace"], "pass --id="),
        (["--on-duplicate", "never", "--id", "m"], "--on-duplicate"),
        (["--on-duplicate", "debounce", "--id", "m"], "pass --delay="),
        (["--on-duplicate", "replace", "--id", "m", "--max-delay", "1m"], "--max-delay is for"),
        (["--max-delay", "1m", "--id", "m"], "--max-delay is for"),
        (["--id", "m", "--id-field", "order"], "either --id or --id-field"),
    ],
)
def test_options_for_known_ids_that_make_no_sense(
    shell: Shell, broker: rq_dlq.Broker, words: list[str], says: str
) -> None:
    assert says in " ".join(shell("send", "orders", *words, typed="one\n", code=2).stderr.split())
    assert broker.queues() == []  # it was refused before the queue was opened


def test_an_id_is_that_of_one_message(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("send", "orders", "--id", "m", typed="a\nb\n", code=1).stderr
    assert "--id is the id of one message, and there are 2: use --id-field" in " ".join(told.split())
    assert broker.queues() == []


def test_a_message_in_the_place_of_the_file_is_told_the_way(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("send", "orders", '{"id": 1}', code=2).stderr
    assert """pipe it: echo '{"id": 1}' | rq-dlq send QUEUE""" in " ".join(told.split())
    assert broker.queues() == []


def test_a_server_that_goes_away_is_code_4_and_tells_how_far_it_came(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_many = queue_module.Queue.send_many

    def failing(self: Any, batch: list[Any], **options: Any) -> list[str]:
        if "1500\n" in typed and batch[0] == "1000":
            message = "gone"
            raise BrokerUnavailable(message)
        return [*send_many(self, batch, **options)]

    monkeypatch.setattr(queue_module.Queue, "send_many", failing)
    typed = "".join(f"{number}\n" for number in range(2_500))
    told = shell("send", "orders", typed=typed, code=4).stderr
    assert "after 1,000 of 2,500 messages" in told
    assert broker.queue("orders").stats().ready == 1_000


def test_an_interruption_tells_how_many_may_be_sent(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(queue_module.Queue, "send_many", interrupted)
    told = shell("send", "orders", "-", typed="a\nb\n", code=4).stderr
    assert "stopped part-way, after 0 of 2 messages (or up to 2 more): interrupted" in told


@pytest.mark.parametrize("words", [["send", "q"], ["dlq", "import", "q", "-"]])
def test_a_closed_stdin_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """As `<&-` closes it, and a program that starts others."""
    monkeypatch.setattr("rq_dlq.cli._input.sys", SimpleNamespace(stdin=None))
    assert "standard input is closed" in shell(*words, code=2).stderr
