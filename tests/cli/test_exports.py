"""`rq-dlq dlq tail`, `export` and `import`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import redis

import rq_dlq
from tests.cli.conftest import Shell

Die = Callable[..., list[str]]


def lines(text: str) -> list[dict[str, Any]]:
    """What stands in JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def test_tail_writes_what_is_there_and_then_what_comes(shell: Shell, dead: Die) -> None:
    ids = dead("a", "b", "c")
    with shell.process("dlq", "tail", "orders", "--lines", "2", "-o", "jsonl") as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["id"] for _ in range(2)]
        new = dead("d", why="no such user 17")
        new += dead("e")
        seen += [json.loads(process.stdout.readline())["id"] for _ in range(2)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert seen == [*ids[1:], *new]
    assert (process.returncode, out, err) == (0, "", "")


def test_tail_of_a_group_as_text(shell: Shell, dead: Die) -> None:
    dead("a", why="no such user 17")
    (group,) = shell.json("dlq", "groups", "orders")
    with shell.process("dlq", "tail", "orders", "--group", group["fingerprint"]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        dead("b")
        dead("c", why="no such user 18")
        found = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert f"{group['fingerprint']}  poison  no such user 18" in found


def test_an_export_has_all_of_a_letter(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send({"n": [1, 2.50]}, id="a", headers={"tenant": "x\u202e"}, priority=7)
    orders.send(b"\xff\x00", id="b")
    orders.poison(orders.claim(2), ValueError("no"))
    done = shell("dlq", "export", "orders")
    first, second = lines(done.stdout)
    assert "exported 2 dead letters of orders" in done.stderr
    assert (first["id"], first["body"], first["headers"]) == ("a", {"n": [1, 2.5]}, {"tenant": "x\u202e"})
    assert (first["priority"], first["reason"], first["delivery_count"]) == (7, "poison", 1)
    assert [(event["event"], event["cause"]["type"]) for event in first["history"]] == [
        ("poisoned", "ValueError")
    ]
    assert (second["id"], second["body_base64"]) == ("b", "/wA=")
    assert "body" not in second


def test_an_export_of_some(shell: Shell, dead: Die) -> None:
    dead("a", why="no such user 17")
    dead("b", "c")
    group = shell.json("dlq", "groups", "orders")[0]["fingerprint"]
    assert [row["body"] for row in lines(shell("dlq", "export", "orders", "--group", group).stdout)] == [
        "b",
        "c",
    ]
    words = ("--where", "message LIKE '%user%'", "--reason", "poison")
    assert [row["body"] for row in lines(shell("dlq", "export", "orders", *words).stdout)] == ["a"]
    assert "no group" in shell("dlq", "export", "orders", "--group", "nope", code=1).stderr


def test_a_damaged_letter_is_named(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    (bad, _) = dead("a", "b")
    with redis.Redis(unix_socket_path=shell.url.removeprefix("unix://")) as client:
        client.hset(broker.queue("orders")._core.keys["messages"], bad, b"x")
    done = shell("dlq", "export", "orders", code=1)
    assert [row["body"] for row in lines(done.stdout)] == ["b"]
    assert f"1 damaged message could not be exported: {bad}" in done.stderr


def test_what_was_exported_comes_back_as_it_was(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    orders = broker.queue("orders")
    orders.send({"n": [1, 2.50], "none": None}, id="a", headers={"tenant": "x\u202e"}, priority=7)
    orders.send(b"\xff\x00", id="b", persistent=False)
    orders.poison(orders.claim(2), ValueError("no"))
    orders.dlq.redrive(ids=["a"], by="anna")
    orders.poison(orders.claim(1), "again\t")
    dead("x" * 3_000, why="long")
    file = shell.directory / "letters.jsonl"
    file.write_text(shell("dlq", "export", "orders").stdout)
    groups, letters = orders.dlq.groups(), orders.dlq.browse()
    assert "imported 3 dead letters" in shell("dlq", "import", "other", str(file)).stderr
    orders.dlq.purge(all=True)
    assert "imported 3 dead letters" in shell("dlq", "import", "DLQ.orders", str(file)).stderr
    again = shell("dlq", "import", "orders", str(file)).stderr
    assert "imported 0 dead letters" in again
    assert "3 ids already in the queue, not changed: " in again
    assert shell("dlq", "export", "orders").stdout == file.read_text()
    assert [(one.fingerprint, one.count, one.error) for one in orders.dlq.groups()] == [
        (one.fingerprint, one.count, one.error) for one in groups
    ]
    for letter, before in zip(orders.dlq.browse(), letters, strict=True):
        assert (letter.id, letter.body, letter.headers) == (before.id, before.body, before.headers)
        assert letter.history == before.history
    assert orders.dlq.redrive(all=True).counts.moved == 3
    assert {delivery.id for delivery in orders.claim(3)} == {letter.id for letter in letters}
    assert broker.queue("other").stats().dead == 3


def test_what_expired_comes_back(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("x", ttl="1h")
    orders.select(all=True).expire()
    line = shell("dlq", "export", "EXP.orders").stdout
    orders.expired.purge(all=True)
    shell("dlq", "import", "orders", "-", typed=line)
    assert shell("dlq", "export", "EXP.orders").stdout == line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ""}, "id"),
        ({"part": "live"}, "Invalid enum value 'live'"),
        ({"fingerprint": "x y"}, "fingerprint"),
        ({"died_at": "1970-01-01T00:00:00Z"}, "not a possible time of a message"),
        ({"nacked": -1}, "nacked"),
        ({"priority": 10}, "priority"),
    ],
)
def test_a_line_that_is_none_keeps_all_out(
    shell: Shell, broker: rq_dlq.Broker, dead: Die, change: dict[str, Any], said: str
) -> None:
    dead("a", "b")
    first, second = lines(shell("dlq", "export", "orders").stdout)
    text = "".join(f"{json.dumps(row)}\n" for row in ({**first, "id": "new"}, {**second, **change}))
    done = shell("dlq", "import", "orders", "-", typed=text, code=1)
    assert "line 2: " in done.stderr
    assert said in done.stderr
    assert "1 bad line, so nothing was imported" in done.stderr
    assert broker.queue("orders").stats().dead == 2


def test_a_time_to_live_comes_back(shell: Shell, broker: rq_dlq.Broker) -> None:
    """A redrive can keep it."""
    orders = broker.queue("orders")
    orders.send("sent", id="a", ttl="1h")
    orders.send("given", id="b")
    orders.poison(orders.claim(2))
    orders.dlq.redrive(ids=["b"], ttl="2h")
    orders.poison(orders.claim(1))
    text = shell("dlq", "export", "orders").stdout
    ends = [row["expires_at"] for row in lines(text)]
    orders.dlq.purge(all=True)
    shell("dlq", "import", "orders", "-", typed=text)
    assert shell("dlq", "export", "orders").stdout == text
    orders.dlq.redrive(all=True, ttl="keep")
    kept = [delivery.expires_at for delivery in orders.claim(2)]
    assert kept == [datetime.fromisoformat(end) for end in ends]


def test_known_ids_are_cut_with_their_number(shell: Shell, dead: Die) -> None:
    dead(*range(13))
    text = shell("dlq", "export", "orders").stdout
    told = shell("dlq", "import", "orders", "-", typed=text).stderr
    assert "13 ids already in the queue, not changed" in told
    assert told.endswith(" and 3 more\n")
    told = shell("dlq", "import", "orders", "-", typed="{\n" * 13, code=1).stderr
    assert "… and 3 more\nError: 13 bad lines" in told
