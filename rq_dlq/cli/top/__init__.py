"""`rq-dlq top`: queues, groups and redrives, live in the terminal.

`reading` reads from Redis, in a thread; `tables` and `picture` make the layout; `terminal` has the screen
and signals; `keys` handles key presses; `watch` is the loop.
"""

from __future__ import annotations

import time

import click

from rq_dlq.cli._context import UNREACHABLE, CliCommand, CommandFailed, Context, pass_context
from rq_dlq.cli._options import seconds


@click.command(cls=CliCommand)
@click.option(
    "--every",
    default="2s",
    metavar="SPAN",
    show_default=True,
    callback=seconds(100),
    help="The time between two readings.",
)
@click.option(
    "--once", is_flag=True, help="Print one picture and exit; the default if stdout is not a terminal."
)
@pass_context
def top(context: Context, *, every: float, once: bool) -> None:
    """Watch all queues and their problems, the worst first.

    It changes nothing. Keys: q quits, s changes the order of the queues, / filters them by a part of their
    names.
    """
    from rq_dlq.cli.top.picture import picture  # noqa: PLC0415 - other commands need not wait for it
    from rq_dlq.cli.top.reading import TopReader  # noqa: PLC0415
    from rq_dlq.cli.top.tables import Look  # noqa: PLC0415
    from rq_dlq.cli.top.watch import watch  # noqa: PLC0415

    if context.output.format != "table":
        raise click.UsageError("top is for people; for programs there is `rq-dlq queue ls -o json`")
    console, look = context.output.stdout, Look()
    reader = TopReader(context.broker, every)  # fails now if there is no server; later it would wait
    if not once and console.is_terminal:
        watch(console, reader, look)
        return
    time.sleep(every)  # rates need two readings
    reader.read()
    console.print(picture(reader.last, look, console.width))
    if reader.last.gaps:
        raise CommandFailed("some of the queues could not be read", UNREACHABLE)
