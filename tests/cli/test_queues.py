"""`rq-dlq queue …` and `rq-dlq peek`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import rq_dlq
from rq_dlq.cli import _show
from rq_dlq.values.counts import QueueStats
from rq_dlq.values.readable import why_still
from tests.cli.conftest import Shell


def test_ls_lists_queues_with_their_counts(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send_many(["a", "b"])
    broker.queue("mails").send("c", delay="1h")
    orders, mails = (shell.json("queue", "ls")[i] for i in (1, 0))
    assert (orders["name"], orders["ready"]) == ("orders", 2)
    assert (mails["name"], mails["scheduled"]) == ("mails", 1)
    assert "orders" in shell("queue", "ls").stdout
    lines = shell("queue", "ls", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["mails", "orders"]


def test_ls_of_nothing_talks_on_stderr_only(shell: Shell) -> None:
    result = shell("queue", "ls")
    assert result.stdout == ""
    assert "no queues" in result.stderr


def test_show_tells_all_counts(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["a", "b"])
    orders.ack(orders.claim(1))
    row = shell.json("queue", "show", "orders")
    assert (row["ready"], row["totals"]["sent"], row["totals"]["acked"]) == (1, 2, 1)
    assert "totals acked" in shell("queue", "show", "DLQ.orders").stdout


def test_outcomes_tells_the_last_events(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["a", "b", "c"])
    assert "orders keeps no outcomes" in shell("queue", "outcomes", "orders").stderr
    shell("policy", "set", "orders", "--outcomes", "100")
    assert shell("queue", "outcomes", "orders").stderr == "orders has no outcomes yet\n"
    first, second, third = orders.claim(3)
    first.ack()
    second.poison("bad")
    third.release()
    rows = shell.json("queue", "outcomes", "orders", "--last", "2")
    assert [(row["event"], row["id"], row["reason"]) for row in rows] == [
        ("dead", second.id, "poison"),
        ("released", third.id, ""),
    ]
    assert "poisoned" in shell("queue", "outcomes", "orders").stdout
    assert "it has only messages that failed" in shell("queue", "outcomes", "DLQ.orders", code=2).stderr


def test_a_queue_that_nobody_ever_used_is_told(shell: Shell) -> None:
    for words in (("queue", "show"), ("queue", "purge", "--all", "--yes"), ("peek",), ("dlq", "groups")):
        assert "there is no queue 'nope'" in shell(*words, "nope", code=1).stderr


def test_purge_wants_yes_where_nobody_can_be_asked(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("a")
    orders.send("b", delay="1h")
    assert "exactly one of --where, --all" in shell("queue", "purge", "orders", "--yes", code=2).stderr
    assert "add --yes" in shell("queue", "purge", "orders", "--all", code=2).stderr
    assert orders.stats().waiting == 2
    assert "removed 2 messages" in shell("queue", "purge", "orders", "--all", "--yes").stderr
    assert orders.stats().waiting == 0


def test_peek_shows_bodies_and_claims_nothing(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send({"total": 5}, headers={"tenant": "a"}, priority=9)
    orders.send_many([b"text", b"\xff", "x" * 1000])
    rows = shell.json("peek", "orders")
    assert [row["body"] for row in rows] == [{"total": 5}, "text", {"base64": "/w=="}, "x" * 1000]
    assert (rows[0]["headers"], rows[0]["priority"]) == ({"tenant": "a"}, 9)
    assert len(shell.json("peek", "orders", "--limit", "1")) == 1
    assert "x" * 301 not in shell("peek", "orders").stdout
    assert orders.stats().ready == 4


def test_peek_looks_at_dead_letters_too(
    shell: Shell, broker: rq_dlq.Broker, dead: Callable[..., list[str]]
) -> None:
    ids = dead("a", "b")
    broker.queue("orders").send("alive")
    assert [row["id"] for row in shell.json("peek", "DLQ.orders")] == ids


def test_pause_and_resume(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("a")
    assert [row["paused"] for row in shell.json("queue", "ls")] == [False]
    assert "orders is paused" in shell("queue", "pause", "orders", "--by", "ana").stderr
    assert "was already paused" in shell("queue", "pause", "orders").stderr
    assert orders.claim() == []
    row = shell.json("queue", "show", "orders")
    assert (row["paused"], row["until"]) == (True, None)
    (heading, line) = (line.split() for line in shell("queue", "ls").stdout.splitlines())
    assert line[:3] == ["orders", "yes", "1"]
    assert "until" not in heading, "no pause ends by itself"
    said = shell("queue", "pause", "orders", "--until", "2099-01-31T08:00Z").stderr
    assert (
        "orders is paused until 2099-01-31 08:00:00 UTC: `rq-dlq queue resume orders` resumes it sooner"
        in said
    )
    assert shell.json("queue", "show", "orders")["until"].startswith("2099-01-31T08:00:00")
    (heading, line) = (line.split() for line in shell("queue", "ls").stdout.splitlines())
    assert (heading[:3], line[:4]) == (["name", "paused", "until"], ["orders", "yes", "01-31", "08:00:00Z"])
    assert "orders is resumed" in shell("queue", "resume", "orders").stderr
    assert "was not paused" in shell("queue", "resume", "orders").stderr
    assert [delivery.body for delivery in orders.claim()] == ["a"]


def test_reset_begins_the_totals_anew(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["a", "b", "c"])
    orders.ack(orders.claim(2))
    assert "; it has 1 message" in shell("queue", "reset", "orders").stderr
    totals = orders.stats().totals
    assert (totals["sent"], totals.get("acked", 0)) == (1, 0)


def test_only_queues_that_are_used_are_paused_and_reset(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("a")
    for verb in ("pause", "resume", "reset"):
        assert "there is no queue 'nope'" in shell("queue", verb, "nope", code=1).stderr
        assert "it has only messages that failed" in shell("queue", verb, "DLQ.orders", code=2).stderr
    assert broker.queues() == ["orders"]


def test_rm_deletes_an_empty_queue(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("a")
    orders.ack(orders.claim())
    assert "deleted orders" in shell("queue", "rm", "orders").stderr
    assert broker.queues() == []
    assert "there is no queue 'orders'" in shell("queue", "rm", "orders", code=1).stderr


def test_rm_of_what_is_not_empty_wants_all_and_yes(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["a", "b"])
    orders.claim()[0].poison("bad")
    refused = shell("queue", "rm", "orders", code=1).stderr
    assert "not empty: 1 ready, 1 dead" in refused
    assert "rq-dlq queue rm orders --force" in refused
    assert (
        "Delete orders with all its messages (2 now) permanently?"
        in shell("queue", "rm", "orders", "--force", code=2).stderr
    )
    assert broker.queues() == ["orders"]
    assert "2 messages" in shell("queue", "rm", "orders", "--force", "--yes").stderr
    assert broker.queues() == []
    broker.queue("orders").send("a")
    assert (
        "it has only messages that failed"
        in shell("queue", "rm", "DLQ.orders", "--force", "--yes", code=2).stderr
    )


def test_rm_of_what_has_schedules_wants_force(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("schedule", "add", "orders", "nightly", "--cron", "0 2 * * *")
    assert "it is not empty: 1 schedule. " in shell("queue", "rm", "orders", code=1).stderr
    assert len(broker.schedules()) == 1
    asked = shell("queue", "rm", "orders", "--force", code=2).stderr
    assert "Delete orders with its messages (none now) and 1 schedule permanently?" in asked
    told = shell("queue", "rm", "orders", "--force", "--yes").stderr
    assert told == "deleted orders, with 0 messages and 1 schedule\n"
    assert (broker.queues(), broker.schedules()) == ([], [])


def test_show_says_why_nothing_moves(shell: Shell, broker: rq_dlq.Broker) -> None:
    def still() -> str | None:
        said: str | None = shell.json("queue", "show", "orders")["stands_still"]
        return said

    orders = broker.queue("orders")
    orders.send("late", delay="1h")
    assert (still() or "").startswith("nothing is ready: 1 message scheduled, the next due in ")
    orders.send("now")
    assert "no consumer holds a message" in (still() or "")
    orders.pause()
    assert (still() or "").startswith("it is paused until it is resumed: `rq-dlq queue resume orders`")
    orders.pause(until="1h")
    assert re.match(r"it is paused until (..-.. )?..:.. UTC: `rq-dlq queue resume", still() or "")
    orders.resume()
    orders.claim()
    assert still() is None


def test_show_counts_what_is_blocked(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders", per_key=rq_dlq.PerKey(order=True, on_dead="hold"))
    orders.send_many([rq_dlq.Message(n, key="customer-7") for n in range(4)])
    assert shell.json("queue", "show", "orders")["blocked"] == 3
    shown = shell("queue", "show", "orders")
    assert "blocked" in shown.stdout
    assert "3 messages blocked: `rq-dlq key ls orders` lists their keys" in shown.stderr
    orders.poison(orders.claim(), "no")
    said = shell.json("queue", "show", "orders")["stands_still"]
    assert said == "nothing is ready: 3 messages blocked, and no consumer holds a message"
    orders.select(key="customer-7").purge()
    assert "blocked:" not in shell("queue", "show", "orders").stderr


def test_what_is_overdue_waits_for_a_consumer() -> None:
    late = QueueStats("orders", 0, 3, 0, 0, 0, oldest=None, next_due=0.0, totals={}, overdue=4.0)
    assert why_still(late, datetime.now(UTC)).startswith("no consumer holds a message")
    said = why_still(replace(late, next_due=5.0), datetime.now(UTC))
    assert said == "nothing is ready: 3 messages scheduled, the next due in 5s"


@pytest.mark.parametrize("words", [("queue", "ls"), ("dlq", "ls")])
def test_a_narrow_terminal_has_names_whole_and_figures_below(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    name = "customer-notifications.email.europe"
    queue = broker.queue(name)
    queue.send_many(range(1_234))
    queue.select(all=True).dead_letter()
    queue.send_many(range(3), delay="1h")
    queue.pause()
    for width, beside in (
        (120, "name paused ready scheduled leased dead expired oldest next due"),
        (80, "name paused ready scheduled leased dead expired"),
        (60, "name paused ready dead"),
        (40, "name ready dead"),
    ):
        monkeypatch.setattr(_show, "UNKNOWN_WIDTH", width)
        heading, *lines = shell(*words).stdout.splitlines()
        assert heading.split() == beside.split()
        assert lines[0].split()[0] == name
        assert all(len(line) <= width for line in lines)
        said = " ".join(" ".join(lines).split())
        assert "1,234" in said
        assert ("scheduled 3" in said) is ("scheduled" not in beside)
        assert ("next due" in said) is (width < 120)
        assert ("paused yes" in said) is (width < 60)
        assert not {"leased", "expired", "oldest"} & {*said.split()}  # they are 0
