"""`rq-dlq doctor`: checks whether a server is fit for queues, and what a crash would lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from rq_dlq.cli._context import FAILED, UNREACHABLE, CliCommand, Context, pass_context, sentence
from rq_dlq.client.broker import Broker
from rq_dlq.client.durability import DURABILITIES
from rq_dlq.doctor import Check, examine
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.client.durability import Durability

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command(cls=CliCommand)
@click.option(
    "--durability",
    type=click.Choice(DURABILITIES),
    default="memory",
    help="Check the server for this profile; by default it lists the profiles that the server can provide.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="With --durability replicated: how many replicas must confirm.",
)
@click.option("--queue", default="doctor", help="Check the user's rights on this queue, without changes.")
@click.option(
    "--repair", is_flag=True,
    help="Make the lists of queues and aliases anew from the queues, if something else is in their place.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@pass_context
def doctor(
    context: Context, durability: Durability, replicas: int | None, queue: str, *, repair: bool, as_json: bool
) -> None:
    """Check whether the server is fit for queues.

    It prints advice for each problem.

    Exit codes: 0 it is fit, possibly with warnings; 1 a check fails; 3 it cannot be reached.
    """
    if as_json:
        context.output.format = "json"
    settings = replace(context.broker.settings, durability=durability, replicas=replicas or 1)
    checks: list[Check] = []
    reached = True
    with context.output.stderr.status("checking the server"):
        try:
            checks += examine(Broker(settings=settings), queue, mends=repair)
        except RqDlqError as error:
            checks.append(Check("server", "fail", sentence(error)))
            reached = False
    _show(context, checks)
    if not reached:
        click.get_current_context().exit(UNREACHABLE)
    if any(check.state == "fail" for check in checks):
        click.get_current_context().exit(FAILED)


def _show(context: Context, checks: Sequence[Check]) -> None:
    if context.output.format != "table":
        context.output.rows([asdict(check) for check in checks], (), "")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for check in checks:
        found = Text(check.found)
        if check.advice:
            found.append(f"\n→ {check.advice}", STYLES[check.state])
        table.add_row(Text(check.state, STYLES[check.state]), Text(check.name, "bold"), found)
    context.output.stdout.print(table)
