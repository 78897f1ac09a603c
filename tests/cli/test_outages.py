"""Dependencies on the command line: sent, listed, paused and resumed; the breaker as a policy."""

from __future__ import annotations

import re

import rq_dlq
from tests.cli.conftest import Shell


def test_a_dependency_is_paused_and_listed(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("send", "orders", "--dependency", "pay ments", typed="one\ntwo\n")
    assert "no dependency is down" in shell("queue", "ls", "--dependencies").stderr
    said = shell("queue", "pause", "orders", "--dependency", "pay ments", "--until", "2h").stderr
    assert "pay ments in orders is paused" in said
    assert "rq-dlq queue resume orders --dependency 'pay ments'" in said
    orders = broker.queue("orders")
    assert orders.claim(9) == []
    (row,) = shell.json("queue", "ls", "--dependencies")
    assert (row["dependency"], row["queue"], row["open"], row["paused"]) == (
        "pay ments",
        "orders",
        True,
        True,
    )
    assert row["waiting"] == 2
    assert row["until"] is not None
    assert "is resumed" in shell("queue", "resume", "orders", "--dependency", "pay ments").stderr
    assert "was not paused" in shell("queue", "resume", "orders", "--dependency", "pay ments").stderr
    assert len(orders.claim(9)) == 2


def test_a_key_and_a_queue_are_paused_until_a_time(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("send", "orders", "--key", "tenant-a", typed="one\n")
    said = shell("queue", "pause", "orders", "--key", "tenant-a", "--until", "2h").stderr
    assert "key tenant-a of orders is paused for 2h: `rq-dlq queue resume orders --key tenant-a`" in said
    assert broker.queue("orders").claim() == []
    assert "is resumed" in shell("queue", "resume", "orders", "--key", "tenant-a").stderr
    past = shell("queue", "pause", "orders", "--until", "2001-01-31T08:00+01:00", code=2)
    assert "that has passed. Pass a later time" in past.stderr
    assert len(broker.queue("orders").claim()) == 1
    refused = shell("queue", "pause", "orders", "--key", "a", "--dependency", "b", code=1)
    assert "--key or --dependency, not both" in refused.stderr
    assert "until" in shell("queue", "pause", "orders", "--until", "soon", code=2).stderr


def test_an_outage_on_each_screen(shell: Shell, broker: rq_dlq.Broker) -> None:
    """The queue's own, the list, the table of dependencies, a message, the audit."""
    orders = broker.queue("orders", breaker=rq_dlq.Breaker(distinct=2, probe="1h", longest_probe="1h"))
    orders.send_many([rq_dlq.Message(n, id=f"o{n}") for n in range(5)], dependency="payments")
    for one in orders.claim(2):
        one.nack(ConnectionError("refused"), delay=0)
    assert orders.claim(9) == []
    shown = shell.json("queue", "show", "orders")
    assert re.match(r"payments down since ..:.. UTC, 5 wait, the oldest .*; nothing to do", shown["outages"])
    assert shown["stands_still"] is None, "the outage says why"
    assert shown["oldest"] is not None
    assert "`rq-dlq key ls" not in shell("queue", "show", "orders").stderr
    (row,) = shell.json("queue", "ls")
    assert row["oldest"] is not None
    (row,) = shell.json("queue", "ls", "--dependencies")
    assert (row["condition"], row["waiting"], row["behind"], row["died"]) == ("down", 5, 0, 0)
    assert (row["open"], row["paused"], row["hangs"], row["charged_until"]) == (True, False, [], None)
    assert row["error"] == "ConnectionError: refused"
    table = shell("queue", "ls", "--dependencies").stdout
    assert re.search("state +waiting", table)
    assert re.search("payments +orders +down +5", table)
    said = shell("msg", "explain", "orders", "o3").stdout
    assert re.search("it waits for payments: down since ..:.. UTC, 5 wait, .*next probe in (1h|59m)", said)
    assert "went down" in shell("audit", "orders").stdout
    assert shell.json("audit", "orders")[0]["did"] == "opened"


def test_a_breaker_is_a_policy(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("policy", "set", "orders", "--breaker", "distinct=9 within=1m")
    assert broker.queue("orders").settings().breaker == rq_dlq.Breaker(distinct=9, within="1m")
    shell("policy", "set", "orders", "--breaker", "on")
    assert broker.queue("orders").settings().breaker == rq_dlq.Breaker()
    assert "Pass Breaker()" in shell("policy", "set", "orders", "--breaker", "sometimes", code=2).stderr
    shell("policy", "set", "orders", "--breaker", "none")
    assert broker.queue("orders").settings().breaker is None


def test_an_export_keeps_the_dependency(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("x", id="a", key="k", dependency="payments")
    orders.poison(orders.claim(), "no")
    lines = shell("dlq", "export", "orders").stdout
    assert orders.dlq.purge(all=True) == 1
    shell("dlq", "import", "orders", "-", typed=lines)
    assert [(letter.key, letter.dependency) for letter in orders.dlq.browse()] == [("k", "payments")]


def test_it_is_sent_again_and_again(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("schedule", "add", "orders", "tick", '"x"', "--every", "1h", "--dependency", "payments")
    assert [one.name for one in broker.schedules()] == ["tick"]


def test_one_that_is_down_is_probed_and_resumed_if_asked(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders", breaker=rq_dlq.Breaker(distinct=2))
    orders.send_many(["a", "b", "c"], dependency="payments")
    assert "no message waits" in shell("queue", "probe", "orders", "--dependency", "payments").stderr
    assert "add --dependency" in shell("queue", "probe", "orders", code=2).stderr
    for one in orders.claim(2):
        one.nack("no answer", delay=0)
    assert orders.claim(9) == []
    said = shell("queue", "probe", "orders", "--dependency", "payments", "--by", "anna").stderr
    assert "payments in orders: one message is let in" in said
    assert len(orders.claim(9)) == 1
    refused = shell("queue", "resume", "orders", "--dependency", "payments", code=2).stderr
    assert "payments in orders is down, and is probed by itself. Let 2 messages in" in refused
    assert "`rq-dlq queue probe orders --dependency payments` lets one in" in refused
    said = shell("queue", "resume", "orders", "--dependency", "payments", "--yes", "--by", "anna").stderr
    assert "payments in orders is resumed: failures will be charged until " in said
    assert [(one.did, one.by, one.number) for one in broker.audit()] == [
        ("closed", "anna", 2), ("probed", "anna", 1), ("opened", "breaker", 0),
    ]  # fmt: skip
