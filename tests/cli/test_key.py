"""`rq-dlq key …`, and the rule for keys on the command line."""

from __future__ import annotations

import re
import shlex

import rq_dlq
from tests.cli.conftest import Shell


def test_keys_are_listed_and_shown(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("send", "orders", typed="x")
    assert "no message of orders waits" in shell("key", "ls", "orders").stderr
    shell("policy", "set", "orders", "--per-key", "order hold")
    shell("send", "orders", "--key", "customer-7", typed="one\ntwo\nthree\n")
    assert broker.queue("orders").settings().per_key == rq_dlq.PerKey(order=True, on_dead="hold")
    (row,) = shell.json("key", "ls", "orders")
    assert (row["key"], row["blocked"], row["seats"]) == ("customer-7", 2, 1)
    assert shell.json("key", "show", "orders", "customer-7") == row
    assert "customer-7" in shell("key", "ls", "orders", "--exact").stdout
    assert {one["key"] for one in shell.json("msg", "ls", "orders")} == {None, "customer-7"}
    counted = shell.json("msg", "ls", "orders", "--count-by", "key")
    assert {"value": "customer-7", "count": 3} in counted
    shell("policy", "set", "orders", "--per-key", "order hold rate 1/h")
    broker.queue("orders").claim(9)
    (row,) = shell.json("key", "ls", "orders")
    assert row["next_at"] > "2"
    shell("policy", "set", "orders", "--per-key", "none")
    assert broker.queue("orders").settings().per_key is None


def test_a_key_with_a_line_break_has_one_row(shell: Shell, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("orders", per_key=rq_dlq.PerKey(order=True))
    queue.send_many([rq_dlq.Message(n, key="a\nb  9") for n in range(2)])
    assert r"a\nb" in shell("key", "ls", "orders").stdout


def test_an_error_suggests_what_works(shell: Shell) -> None:
    """Typed as it stands."""
    shell("send", "orders", typed="x")
    said = shell("policy", "set", "orders", "--per-key", "sometimes", code=2).stderr
    rules = [one or other for one, other in re.findall('"(.+?)"|(?:Pass|,) (order|fair)', said)]
    assert len(rules) == 7
    for rule in rules:
        shell("policy", "set", "orders", "--per-key", rule)
    said = shell("policy", "set", "orders", "--per-key", "limit 8 rate x", code=2).stderr
    assert "unlimited" not in said
    for rate in re.findall('"(.+?)"', said):
        shell("policy", "set", "orders", "--per-key", f"limit 8 rate {rate}")
    assert "True" not in shell("policy", "set", "orders", "--per-key", "fair 0", code=2).stderr
    for line in ("key show orders ''", "key limit orders '' 3", "queue pause orders --key ''"):
        assert "use text of 1 to 200 bytes\n" in shell(*shlex.split(line), code=2).stderr


def test_a_paused_key_says_so(shell: Shell, broker: rq_dlq.Broker) -> None:
    """Until when, and by whom if an operator did it."""
    orders = broker.queue("orders", per_key=rq_dlq.PerKey(order=True))
    orders.send_many(["one", "two"], key="p")
    shell("queue", "pause", "orders", "--key", "p", "--until", "2h", "--by", "anna")
    assert orders.claim() == []
    (row,) = shell.json("key", "ls", "orders")
    assert (row["blocked"], row["seats"], row["paused"], row["paused_by"]) == (2, 0, True, "anna")
    assert row["until"] > "2"
    assert shell.json("key", "show", "orders", "p") == row
    said = shell("key", "show", "orders", "p").stdout
    assert re.search(r"paused +yes\s+until +2.+ UTC\s+paused by +anna", said)
    shell("queue", "resume", "orders", "--key", "p")
    row = shell.json("key", "show", "orders", "p")
    assert (row["paused"], row["until"], row["paused_by"]) == (False, None, "")


def test_an_export_keeps_the_key(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("x", id="a", key="customer-7")
    orders.poison(orders.claim(), "no")
    lines = shell("dlq", "export", "orders").stdout
    assert orders.dlq.purge(all=True) == 1
    shell("dlq", "import", "orders", "-", typed=lines)
    assert [letter.key for letter in orders.dlq.browse()] == ["customer-7"]


def test_one_key_is_limited(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("send", "orders", typed="x")
    broker.queue("orders", per_key=rq_dlq.PerKey(order=True))
    said = shell("key", "limit", "orders", "k", "3", code=2).stderr
    assert "orders does not limit keys" in said
    shell(*shlex.split(said.partition("`rq-dlq ")[2].partition("`")[0]))
    said = shell("key", "limit", "orders", "k", "3").stderr
    assert said == "key k of orders: at most 3 at a time\n"
    assert shell.json("key", "show", "orders", "k")["limit"] == 3
    assert "by the rule" in shell("key", "limit", "orders", "k", "--default").stderr
    assert broker.queue("orders").key("k").stats().limit is None
    assert "pass N, or --default" in shell("key", "limit", "orders", "k", code=2).stderr
