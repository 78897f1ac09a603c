"""`rq-dlq audit`, and who does what the other commands do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.values.user import user_at_host
from tests.cli.conftest import Shell

LOOK = {
    "gather ls", "gather show",
    "acl", "audit", "bench", "demo", "dlq export", "dlq groups", "dlq ls", "dlq show", "dlq tail", "doctor",
    "error", "key ls", "key show", "mcp", "metrics", "msg explain", "msg ls", "msg result", "msg show",
    "peek", "policy explain", "policy ls", "policy preview", "policy simulate", "queue ls",
    "queue outcomes", "queue show", "schedule ls", "top", "web", "worker ls",
}  # fmt: skip
WORK = {"load", "maintain", "outbox", "send", "worker", "worker run"}


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        else:
            yield " ".join((*above, name)), command


def test_each_command_that_changes_something_takes_who() -> None:
    without = {name for name, one in commands(main) if "by" not in {param.name for param in one.params}}
    assert without - LOOK - WORK == set()


def test_what_operators_did(shell: Shell, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    queue = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    queue.send_many(range(9))
    queue.nack(queue.claim(5), "boom")
    file = tmp_path / "letters"
    file.write_text(shell("dlq", "export", "orders").stdout)
    shell("dlq", "purge", "orders", "--all", "--yes", "--by", "ana")
    shell("dlq", "import", "orders", str(file))
    shell("msg", "cancel", "orders", "--where", "body = 8", "--yes")
    shell("msg", "move", "orders", "--all", "--yes", "--to", "orders", code=2)
    shell("queue", "reset", "orders", "--by", "ben")
    shell("policy", "set", "orders", "--max-in-flight", "3")
    shell("schedule", "add", "orders", "nightly", "--every", "1h")
    shell("queue", "rm", "orders", "--force", "--yes")
    text = shell("audit").stdout
    me = user_at_host()
    records = [json.loads(line) for line in shell("audit", "-o", "jsonl").stdout.splitlines()]
    assert [(one["did"], one["by"], one["number"], one["queue"]) for one in records] == [
        ("deleted", me, 8, "orders"),
        ("scheduled", me, 0, "orders"),
        ("set a policy", me, 0, ""),
        ("reset", "ben", 0, "orders"),
        ("purged", me, 1, "orders"),
        ("imported", me, 5, "orders"),
        ("purged", "ana", 5, "orders"),
    ]
    assert [row for row in text.splitlines() if "ana" in row and "purged" in row and "orders" in row]
    assert all(words in text for words in ("8 messages", "policy orders", "5 messages (dead: all)"))
    assert shell("audit", "orders", "--limit", "1").stdout.count("orders") == 1
    assert "there are no records of cheese" in shell("audit", "cheese").stderr
