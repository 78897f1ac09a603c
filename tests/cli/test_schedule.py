"""`rq-dlq schedule …`."""

from __future__ import annotations

import rq_dlq
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


def test_what_is_wrong_is_told(shell: Shell) -> None:
    assert "is not JSON" in shell("schedule", "add", "orders", "t", "{", "--every", "1h", code=2).stderr
    told = shell("schedule", "add", "orders", "t", code=2).stderr
    assert "choose when it sends with exactly one of --cron, --every" in told
    assert "Bad minute" in shell("schedule", "add", "orders", "t", "--cron", "99 * * * *", code=2).stderr
    assert "there is no queue 'orders'" in shell("schedule", "rm", "orders", "t", code=1).stderr
    shell("send", "orders", "-", typed="x")
    for verb in ("pause", "resume", "rm"):
        assert "orders has no schedule 't'" in shell("schedule", verb, "orders", "t", code=1).stderr
