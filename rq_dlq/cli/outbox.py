"""`rq-dlq outbox`: the relay of an outbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rq_dlq.cli._app import agree, load_outbox
from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.cli._health import health_options
from rq_dlq.cli._logs import log_times
from rq_dlq.cli._options import import_timeout_option, log_format_option
from rq_dlq.cli._processes import environment
from rq_dlq.cli._unread import ending_unread
from rq_dlq.outbox.relay import Relay
from rq_dlq.telemetry.health import announced

if TYPE_CHECKING:
    from rq_dlq.telemetry.health import Address


@click.command(cls=CliCommand)
@click.argument("app", metavar="MODULE:OUTBOX")
@click.option("--burst", is_flag=True, help="Stop when the outbox is empty.")
@click.option(
    "--period",
    default="200ms",
    metavar="SPAN",
    show_default=True,
    help="The time between two looks at an empty outbox; 10ms or more.",
)
@import_timeout_option
@health_options
@log_format_option
@pass_context
def outbox(
    context: Context,
    app: str,
    *,
    burst: bool,
    period: str,
    import_timeout: float,
    health: Address | None,
    heartbeat_file: Path | None,
) -> None:
    """Send what programs wrote to an outbox, a table of their database.

    MODULE:OUTBOX is the Python module and the name of the outbox in it, such as `shop:outbox`.

    Each row is sent once, wherever this process is killed. Any number of these processes may run. SIGTERM and
    Ctrl-C stop it after the current call.
    """
    log_times(context.verbose, context.log_format)
    os.environ.update(environment(context))  # read by the app, which is imported next
    found = load_outbox(app, import_timeout)
    agree(context, found.broker, app)
    run = Relay(found, burst=burst, period=period)
    with (
        ending_unread(run.stop, run.vitals),
        announced(run.vitals, address=health, heartbeat_file=heartbeat_file),
    ):
        run.run()
