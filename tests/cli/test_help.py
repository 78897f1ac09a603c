"""What `--help` ends with runs as it is; the shell completes what there is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.cli._examples import EXAMPLES
from tests.cli.conftest import ROOT, Shell

LONG = {"bench", "demo", "dlq tail", "maintain", "mcp", "web", "worker", ""}
"""Their examples take long, or end by Ctrl-C: the tests of these commands run them."""


def paths(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(words), command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from paths(below, (*words, name))


@pytest.fixture
def shop(broker: rq_dlq.Broker) -> rq_dlq.Broker:
    """A queue of orders, of which one is done and two are dead, and one for copies."""
    broker.queue("orders.copy").open()
    orders = broker.queue("orders", per_key=rq_dlq.PerKey(limit=8), outcomes=100)
    orders.send(39, id="order-39", result=True)
    orders.claim()[0].ack(result={"total": 5.0})
    orders.send_many(
        rq_dlq.Message(n, id=f"order-{n}", headers={"tenant": "a"}, key="customer-7") for n in range(40, 50)
    )
    orders.poison(orders.claim(2), "out of stock")
    with broker.gather(then=(broker.queue("reports"), rq_dlq.Message(7, id="report-7"))) as gather:
        gather.send(orders, 50, id="order-50", delay="1h")
    return broker


@pytest.mark.usefixtures("shop")
def test_each_help_ends_with_an_example(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.directory)
    Path("broker.xml").write_text((ROOT / "examples" / "broker.xml").read_text())
    Path("orders.jsonl").write_text('{"n": 1}\n')
    Path("letters.jsonl").write_text(shell("dlq", "export", "orders", "-o", "jsonl").stdout)
    assert {*EXAMPLES} - {"worker ls"} == dict(paths(main)).keys(), "rq_dlq/cli/_examples.py: one for each"
    first = ["schedule add"]
    last = ["schedule rm", "queue purge", "dlq purge", "policy rm", "queue rm"]
    rest = [words for words in EXAMPLES if words not in {*first, *last, *LONG}]
    for words in [*first, *rest, *last]:
        line = f"rq-dlq {words} {EXAMPLES[words]}".strip()
        shell(*shlex.split(line)[1:])
    said = CliRunner().invoke(main, ["dlq", "groups", "--help"], prog_name="rq-dlq").stdout
    assert said.endswith("\n\nExample:\n  rq-dlq dlq groups orders\n")


def completed(shell: Shell, line: str) -> list[str]:
    *words, last = line.split(" ")
    given = ["--url", shell.url, "--namespace", shell.namespace, *words]
    completion = ShellComplete(main, {}, "rq-dlq", "_RQ_DLQ_COMPLETE")
    return [item.value for item in completion.get_completions(given, last)]


def test_the_shell_completes_what_there_is(shop: rq_dlq.Broker, shell: Shell) -> None:
    (group,) = shop.queue("orders").dlq.groups()
    assert completed(shell, "dlq groups o") == ["orders", "orders.copy"]
    assert completed(shell, "queue pause orders.") == ["orders.copy"]
    assert completed(shell, "dlq mute orders ") == [group.fingerprint]
    assert completed(shell, "dlq ls orders --group ") == [group.fingerprint]
    assert completed(shell, "dlq show orders order-40") == ["order-40"]
    assert completed(shell, "msg show orders order-4")[-2:] == ["order-40", "order-41"]  # the dead ones
    assert completed(shell, "dlq redrive --group ") == []  # of which queue?


def test_completion_starts_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RQ_DLQ_URL", raising=False)
    monkeypatch.setenv("RQ_DLQ_HOME", str(tmp_path))
    completion = ShellComplete(main, {}, "rq-dlq", "_RQ_DLQ_COMPLETE")
    assert completion.get_completions(["peek"], "") == []
    assert completion.get_completions(["peek", "--url", f"unix://{tmp_path}/none"], "") == []
    assert [*tmp_path.iterdir()] == []
