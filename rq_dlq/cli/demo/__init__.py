"""`rq-dlq demo`: processes real flights in twenty seconds, while a service fails and a worker is killed.

`app` finds the example, `payments` is the service that fails, `crew` are the worker processes, `stage` sets
all of these up, `play` is the sequence of events, `view` shows it, `sums` checks the result.
"""

from __future__ import annotations

import secrets

import click

from rq_dlq.cli._context import FAILED, Command, Context, pass_context
from rq_dlq.cli._options import Number
from rq_dlq.cli._scratch import interrupt_on_signals, server_of

SENDING = 12.0  # seconds


@click.command(cls=Command)
@click.option("--rows", type=click.IntRange(20), help="Use only this many of the 1,959 flights.")
@click.option(
    "--seconds",
    type=Number(6, 600),
    default=SENDING,
    show_default=True,
    help="How long to send flights.",
)
@pass_context
def demo(context: Context, rows: int | None, seconds: float) -> None:
    """Settle real flights while a payment service fails and a worker is killed.

    It runs on the embedded server, or the one at --url (not at $RQ_DLQ_URL), in its own namespace, which it
    removes afterwards.
    """
    from rq_dlq.cli.demo import app, play, sums, view  # noqa: PLC0415 - other commands need not wait for it
    from rq_dlq.cli.demo.stage import Stage  # noqa: PLC0415

    interrupt_on_signals()
    url = server_of(context)
    namespace = f"rq-dlq-demo-{secrets.token_hex(4)}"
    example = app.find()
    stage = Stage(example, url, namespace, rows)
    with stage.up(), view.view_of(context.output, stage) as seen:
        figures = play.perform(stage, seen, seconds)
    checks = sums.checks(figures)
    sums.show(context.output, figures, checks)
    context.output.say(example.by_hand())
    if not all(check.holds for check in checks):
        click.get_current_context().exit(FAILED)
