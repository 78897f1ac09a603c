"""`rq-dlq maintain`: broker-side redelivery, expiry and retention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.cli._health import health_options
from rq_dlq.cli._logs import log_times
from rq_dlq.cli._options import log_format_option
from rq_dlq.cli._unread import ending_unread
from rq_dlq.errors import InvalidInput
from rq_dlq.telemetry.health import announced
from rq_dlq.worker.maintenance import ROLES, Maintenance, MaintenanceRole, roles_of

if TYPE_CHECKING:
    from rq_dlq.telemetry.health import Address


def _roles(ctx: click.Context, param: click.Parameter, text: str) -> list[MaintenanceRole]:
    try:
        return roles_of(name.strip() for name in text.split(","))
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(cls=CliCommand)
@click.option(
    "--roles",
    default=",".join(ROLES),
    metavar="ROLE,ROLE,…",
    callback=_roles,
    help=(
        f"Its roles; by default all of: {', '.join(ROLES)}. Without `expiry` this process does not expire "
        "messages; claims still do."
    ),
)
@click.option(
    "--period",
    default="1s",
    metavar="SPAN",
    show_default=True,
    help="The time between two rounds; 10ms or more.",
)
@health_options
@log_format_option
@pass_context
def maintain(
    context: Context,
    roles: list[MaintenanceRole],
    period: str,
    health: Address | None,
    heartbeat_file: Path | None,
) -> None:
    """Maintain the queues of the namespace.

    It redelivers the messages of dead workers, expires messages, drops old dead letters, sends the messages
    of schedules, and finishes interrupted sends and redrives. Any number of these processes may run. SIGTERM
    and Ctrl-C stop it after the current step.
    """
    log_times(context.verbose, context.log_format)
    run = Maintenance(context.broker, roles, period)  # checks the period
    with context.broker as broker:
        broker.queues()  # fails now if there is no server; later it would wait
    with (
        ending_unread(run.stop, run.vitals),
        announced(run.vitals, address=health, heartbeat_file=heartbeat_file),
    ):
        run.run()
