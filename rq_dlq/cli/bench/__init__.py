"""`rq-dlq bench`: the limits of a server, and the fraction of them that the queues reach.

It is for operators, who have the package and no checkout; `tests/benchmarks` is for contributors.
`limits` measures the server without queues, `figures` measures the queues, and `view` shows both.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from rq_dlq.cli._context import CliCommand, CommandFailed, Context, pass_context
from rq_dlq.cli._options import Number
from rq_dlq.cli._scratch import interrupt_on_signals, remove, server_of

SECONDS = 20.0
BUSY = 50  # commands of other clients per second: above it, the server is in use


@click.command(cls=CliCommand)
@click.option(
    "--seconds",
    type=Number(1, 3600),
    default=SECONDS,
    show_default=True,
    help="About how long to measure.",
)
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Write the table as a picture.")
@click.option("--yes", is_flag=True, help="Measure even if other clients use the server.")
@pass_context
def bench(context: Context, seconds: float, svg: Path | None, *, yes: bool) -> None:
    """Measure how fast queues are on a server.

    Each figure is shown with the limit of the server itself.

    It runs on the embedded server, or the one at --url (not at $RQ_DLQ_URL), in its own namespace, which it
    removes afterwards. It puts load on the server: a server with other clients is refused, unless --yes is
    passed.
    """
    from rq_dlq.cli.bench import figures, view  # noqa: PLC0415 - other commands need not wait for it
    from rq_dlq.cli.bench.limits import commands_a_second  # noqa: PLC0415
    from rq_dlq.client.broker import Broker  # noqa: PLC0415

    interrupt_on_signals()
    with Broker(server_of(context), namespace=f"rq-dlq-bench-{secrets.token_hex(4)}") as broker:
        others = commands_a_second(broker)
        if others > BUSY and not yes:
            raise CommandFailed(
                f"other clients run {others:,} commands a second on this server, and a benchmark would slow "
                "them down: use another server, or pass --yes"
            )
        try:
            found = view.watched(context.output, figures.measure(broker, seconds))
        finally:
            remove(broker)
    view.show(context.output, found, svg)
