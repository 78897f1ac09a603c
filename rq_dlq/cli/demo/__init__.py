"""`rq-dlq demo`: the main job on real flights, in twenty seconds, with everything going wrong that can.

`app` finds the example that it plays, `payments` is the service that fails, `crew` the worker processes,
`stage` all of these at work, `play` what happens when, `view` what one sees of it, `sums` what comes out.
"""

from __future__ import annotations

import secrets
import signal
from typing import TYPE_CHECKING

import click

from rq_dlq.cli._context import FAILED, Command, Context, pass_context

if TYPE_CHECKING:
    from types import FrameType

SENDING = 12.0  # seconds


@click.command(cls=Command)
@click.option("--rows", type=click.IntRange(20), help="Only so many of the 1,959 flights.")
@click.option(
    "--seconds",
    type=click.FloatRange(6, 600),
    default=SENDING,
    show_default=True,
    help="How long the flights are sent.",
)
@pass_context
def demo(context: Context, rows: int | None, seconds: float) -> None:
    """Settle real flights while a payment service fails and a worker is killed.

    It runs on the embedded server, or where --url says, in a namespace of its own that is removed afterwards.
    """
    from rq_dlq.cli.demo import app, play, sums, view  # noqa: PLC0415 - only who plays it waits for it
    from rq_dlq.cli.demo.stage import Stage  # noqa: PLC0415
    from rq_dlq.embedded import ensure  # noqa: PLC0415

    for number in (signal.SIGTERM, signal.SIGHUP):  # a terminal that is closed is one, too
        signal.signal(number, _interrupt)
    url = context.url or ensure().url  # never $RQ_DLQ_URL: that may be where real work is done
    namespace = f"rq-dlq-demo-{secrets.token_hex(4)}"
    example = app.find()
    with Stage(example, url, namespace, rows) as stage, view.view_of(context.output, stage) as seen:
        figures = play.perform(stage, seen, seconds)
    checks = sums.checks(figures)
    sums.show(context.output, figures, checks)
    context.output.say(example.by_hand())
    if not all(check.holds for check in checks):
        click.get_current_context().exit(FAILED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
