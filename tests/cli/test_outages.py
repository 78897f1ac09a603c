"""Dependencies on the command line: sent, listed, paused and resumed; the breaker as a policy."""

from __future__ import annotations

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
    assert "key tenant-a of orders is paused" in shell("queue", "pause", "orders", "--key", "tenant-a").stderr
    assert broker.queue("orders").claim() == []
    assert "is resumed" in shell("queue", "resume", "orders", "--key", "tenant-a").stderr
    shell("queue", "pause", "orders", "--until", "2001-01-31T08:00+01:00")  # over since long
    assert len(broker.queue("orders").claim()) == 1
    refused = shell("queue", "pause", "orders", "--key", "a", "--dependency", "b", code=1)
    assert "--key or --dependency, not both" in refused.stderr
    assert "until" in shell("queue", "pause", "orders", "--until", "soon", code=2).stderr


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
