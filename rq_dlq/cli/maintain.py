"""`rq-dlq maintain`: broker-side redelivery, expiry and retention."""

from __future__ import annotations

import click

from rq_dlq.cli._context import Command, Context, log_times, pass_context
from rq_dlq.errors import InvalidInput
from rq_dlq.maintenance import ROLES, Maintenance, Role, roles_of


def _roles(ctx: click.Context, param: click.Parameter, text: str) -> list[Role]:
    try:
        return roles_of(name.strip() for name in text.split(","))
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(cls=Command)
@click.option(
    "--roles",
    default=",".join(ROLES),
    show_default=True,
    callback=_roles,
    help="What it does; without `expiry` nothing scans for it, though claims still see to it.",
)
@click.option("--period", default="1s", show_default=True, help="How late it may be; from 10ms.")
@pass_context
def maintain(context: Context, roles: list[Role], period: str) -> None:
    """Keep the queues of the namespace moving: bring back what lost workers held, expire, drop what is old.

    Any number of these may run at once. SIGTERM and Ctrl-C stop it after the step it is at.
    """
    log_times()
    run = Maintenance(context.broker, roles, period)  # checks the period
    with context.broker as broker:
        broker.queues()  # later it waits for its server; one that was never there is a mistake
    run.run()
