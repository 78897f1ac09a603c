"""No command writes what others sent so that it steers the terminal, or begins a line of its own."""

from __future__ import annotations

import io
from collections.abc import Iterator

import click
import pytest
from rich.table import Table
from rich.text import Text

import rq_dlq
from rq_dlq import Breaker, PerKey
from rq_dlq.cli import main
from rq_dlq.cli._console import SafeConsole
from tests.cli.conftest import Shell

STEERS = frozenset("\x1b\x07\x9b\x00\r\u202e\u2028\u200b")
HOSTILE = "\x1b]0;mine\x07\x9b0m\u202e\u2028\u200b\r\nFORGED \x1b[2J"

ROWS = (
    ("audit", "orders"),
    ("dlq", "groups", "orders"),
    ("dlq", "jobs", "orders"),
    ("dlq", "ls", "orders"),
    ("dlq", "redrive", "orders", "--all", "--dry-run"),
    ("dlq", "show", "orders", "dead"),
    ("doctor",),
    ("key", "limit", "orders", HOSTILE, "2"),
    ("key", "ls", "orders"),
    ("key", "show", "orders", HOSTILE),
    ("metrics",),
    ("msg", "explain", "orders", "blocked"),
    ("msg", "explain", "orders", "dead"),
    ("msg", "explain", "orders", "parked"),
    ("msg", "ls", "orders"),
    ("msg", "show", "orders", "dead"),
    ("peek", "orders"),
    ("policy", "explain", "orders"),
    ("policy", "ls"),
    ("queue", "ls"),
    ("queue", "ls", "--dependencies"),
    ("queue", "outcomes", "orders"),
    ("queue", "pause", "orders", "--by", HOSTILE, "--dependency", HOSTILE),
    ("queue", "pause", "orders", "--by", HOSTILE, "--key", HOSTILE),
    ("queue", "probe", "orders", "--dependency", HOSTILE),
    ("queue", "show", "orders"),
    ("schedule", "ls"),
    ("top",),
)
WITHOUT = {
    "reads no queue": ("acl", "error", "policy import", "policy preview", "policy simulate"),
    "shows its own messages": ("bench", "demo"),
    "names libraries, whose names have no such characters": ("load",),
    "writes a file, or JSON": ("dlq export", "dlq import", "mcp"),
    "goes on; its log has tests of its own": ("dlq tail", "maintain", "outbox", "web", "worker"),
    "says numbers": (
        "dlq mute", "dlq purge", "dlq unmute", "queue purge", "queue reset", "queue resume", "queue rm",
        "send",
    ),
    "names patterns and schedules, which have no such characters": (
        "policy rm", "policy set", "policy undeclare", "schedule add", "schedule pause", "schedule resume",
        "schedule rm",
    ),
    "names ids, which have no such characters": (
        "gather ls", "gather show", "msg cancel", "msg copy", "msg dead-letter", "msg deliver-now",
        "msg expire", "msg move", "msg prioritize", "msg result",
    ),
}  # fmt: skip
"""The commands without a row, by the reason."""


def leaves(command: click.Command, *path: str) -> Iterator[str]:
    """The commands of a group, and of the groups within."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, *path, name)


@pytest.fixture
def hostile(broker: rq_dlq.Broker) -> rq_dlq.Broker:
    """A queue in which each text that a sender, a handler or an operator chooses is hostile."""
    orders = broker.queue("orders", breaker=Breaker(distinct=2), per_key=PerKey(limit=1), outcomes=9)
    for name in ("dead", "other", "held", "blocked"):
        orders.send({HOSTILE: HOSTILE}, id=name, headers={HOSTILE: HOSTILE}, key=HOSTILE)
    error = type(HOSTILE, (Exception,), {})(HOSTILE)
    for _ in ("dead", "other"):
        orders.poison(orders.claim(), error)
    orders.claim()
    orders.send({}, id="parked", dependency=HOSTILE)
    orders.dependency(HOSTILE).pause(by=HOSTILE)
    orders.claim()
    return broker


def test_no_command_writes_them(shell: Shell, hostile: rq_dlq.Broker) -> None:
    for words in ROWS:
        said = shell(*words).output
        assert not STEERS & {*said}, words
        assert not [line for line in said.splitlines() if line.startswith("FORGED")], words
    assert hostile.queue("orders").stats().dead == 2


def test_every_command_has_a_row_or_a_reason() -> None:
    rows = {name for name in leaves(main) if any(" ".join(row).startswith(name) for row in ROWS)}
    without = {name for names in WITHOUT.values() for name in names}
    assert rows | without == {*leaves(main)}
    assert not rows & without


def test_the_console_escapes_what_a_command_forgot() -> None:
    said = io.StringIO()
    table = Table.grid()
    table.add_row(Text("a\x1b[2J and more"))
    SafeConsole(file=said).print(table, Text("c\x9b"), style="bold")
    assert not STEERS & {*said.getvalue()}
    assert r"a\x1b" in said.getvalue()
    assert r"c\x9b" in said.getvalue()
