"""`rq-dlq schedule …`."""

from __future__ import annotations

import pytest

import rq_dlq
from rq_dlq.cli import _show
from tests.cli.conftest import Shell


def test_a_schedule_is_added_shown_and_removed(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert "there are no schedules" in shell("schedule", "ls").stderr
    words = ["schedule", "add", "mail", "digest", '{"lang": "de"}', "--header", "task=digest"]
    said = shell(
        *words, "--cron", "0 7 * * mon-fri", "--timezone", "Europe/Berlin", "--missed", "skip"
    ).stderr
    assert said.startswith("schedule digest of mail sends next at 20")
    (row,) = shell.json("schedule", "ls")
    (found,) = broker.schedules()
    assert row["body"] == found.body == {"lang": "de"}
    assert row["headers"] == {"task": "digest"}
    assert (row["queue"], row["name"], row["missed"]) == ("mail", "digest", "skip")
    assert row["rule"] == "0 7 * * mon-fri Europe/Berlin"
    assert (row["last_at"], row["last_id"], row["paused"], row["declared"]) == (None, None, False, False)
    assert "digest" in shell("schedule", "ls", "mail").stdout
    assert "there is no queue 'orders'" in shell("schedule", "ls", "orders", code=1).stderr
    shell("send", "orders", typed="x")
    assert "orders has no schedules: " in shell("schedule", "ls", "orders").stderr
    assert "removed schedule digest of mail" in shell("schedule", "rm", "mail", "digest").stderr
    assert "mail has no schedule 'digest'" in shell("schedule", "rm", "mail", "digest", code=1).stderr
    assert broker.schedules() == []


def test_a_schedule_is_paused_and_resumed(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("schedule", "add", "orders", "t", "--every", "1h")
    said = shell("schedule", "pause", "orders", "t").stderr
    assert "is paused: `rq-dlq schedule resume orders t` resumes it" in said
    assert "was already paused" in shell("schedule", "pause", "orders", "t").stderr
    assert "is paused" in shell("schedule", "add", "orders", "t", "--every", "2h").stderr
    assert broker.schedules()[0].next_at is None
    assert "is resumed" in shell("schedule", "resume", "orders", "t").stderr
    assert "was not paused" in shell("schedule", "resume", "orders", "t").stderr


@pytest.mark.parametrize(
    ("width", "beside", "below"),
    [
        (120, "queue name rule missed next at last at paused declared", []),
        (80, "queue name rule next at", ["missed last"]),
        (60, "queue name next at", ["0 7 * * mon-fri Europe/Berlin", "missed last"]),
    ],
)
def test_a_narrow_terminal_has_names_whole_and_rules_below(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int, beside: str, below: list[str]
) -> None:
    rule = ("--cron", "0 7 * * mon-fri", "--timezone", "Europe/Berlin")
    shell("schedule", "add", "shop.orders", "nightly-stock-check-1", *rule)
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", width)
    heading, row, *lines = shell("schedule", "ls").stdout.splitlines()
    assert heading.split() == beside.split()
    assert row.split()[:2] == ["shop.orders", "nightly-stock-check-1"]
    assert [line.strip() for line in lines] == below


def test_a_queue_stands_above_where_there_is_no_room(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("schedule", "add", "shop.orders", "nightly-stock-check-1", "--every", "1h")
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 40)
    _, *lines = shell("schedule", "ls").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["shop.orders", "nightly-stock-check-1", "every", "missed"]


def test_what_is_wrong_is_told(shell: Shell) -> None:
    assert "is not JSON" in shell("schedule", "add", "orders", "t", "{", "--every", "1h", code=2).stderr
    told = shell("schedule", "add", "orders", "t", code=2).stderr
    assert "choose when it sends with exactly one of --cron, --every" in told
    assert "Bad minute" in shell("schedule", "add", "orders", "t", "--cron", "99 * * * *", code=2).stderr
    assert "there is no queue 'orders'" in shell("schedule", "rm", "orders", "t", code=1).stderr
    shell("send", "orders", "-", typed="x")
    for verb in ("pause", "resume", "rm"):
        assert "orders has no schedule 't'" in shell("schedule", verb, "orders", "t", code=1).stderr
