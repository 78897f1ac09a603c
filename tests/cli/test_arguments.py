"""The errors of commands name options, not arguments of Python."""

from __future__ import annotations

import shlex

import click

import rq_dlq
from rq_dlq.cli._arguments import with_options
from tests.cli.conftest import Shell
from tests.tables import each_row


@each_row(
    ("line", "said"),
    [
        ("schedule add q n --every 1h --timezone UTC+1", '--timezone="…" goes with --cron="…"'),
        ("schedule add q n --every 0s", "Error: --every: '0s' is out of range"),
        ("policy set q --initial-delay 2s --max-delay 1s", "(2s) is longer than --max-delay (1s)"),
        ("policy set q --dlq-name 'a b'", "Error: --dlq-name: 'a b' cannot name a queue"),
        ("policy set q --expiry-name 'a b'", "Error: --expiry-name: 'a b' cannot name a queue"),
        ("dlq redrive q --all --yes --min-success 0.5", "Error: --min-success needs a canary or a rate"),
        ("dlq redrive q --all --yes --create", "Error: --create creates the queue --to"),
        ("dlq redrive q --all --yes --rate 0", "Error: --rate 0.0: pass messages a second"),
        ("dlq purge q --older-than x --yes", "Error: --older-than: 'x' is not a duration"),
        ("maintain --period 1ms", "Error: --period: '1ms' is out of range"),
        ("queue pause q --by ''", "Error: --by '': pass a name"),
        ("queue pause q --by \udcff", "Error: --by '\\udcff': pass a name"),  # not UTF-8
    ],
)
def test_an_error_names_the_option(shell: Shell, broker: rq_dlq.Broker, line: str, said: str) -> None:
    broker.queue("q").send(1)
    assert said in shell(*shlex.split(line), code=2).stderr


@each_row(
    ("text", "told"),
    [
        ("rate 0: at this rate", "--rate 0: at this rate"),
        ("the rate is 'max_rate'", "the rate is 'max_rate'"),
        ("all=True takes rate=…", "--all takes --rate=…"),
        ("raise max_rate. Or x.max_rate", "raise --max-rate. Or x.max_rate"),
        ("ratex, `rate`, url", "ratex, --rate, url"),
        ("name: either of two", "name: either of two"),
    ],
)
def test_only_what_is_an_argument_is_named_so(text: str, told: str) -> None:
    @click.command()
    @click.option("--rate")
    @click.option("--max-rate")
    @click.option("--all", "everything", is_flag=True)
    @click.option("--one-name", "one__name")
    @click.option("--other-name", "other__name")
    @click.option("--url", hidden=True)
    def command() -> None:
        """It is not run."""

    with command.make_context("command", []) as ctx:
        assert with_options(text, ctx) == told
