"""`rq-dlq metrics`: metrics of all queues, for Prometheus."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import click

from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.cli._extras import of_extra
from rq_dlq.cli._logs import log_times
from rq_dlq.cli._options import address
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.visible import visible
from rq_dlq.worker.stopping import TICK, Stop, heeding_signals

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("rq_dlq.metrics")


@click.command(cls=CliCommand)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    callback=address,
    help="Serve them at http://HOST:PORT/metrics until SIGTERM or Ctrl-C. A port alone means 127.0.0.1.",
)
@pass_context
def metrics(context: Context, listen: tuple[str, int] | None) -> None:
    """Print metrics of all queues for Prometheus, or serve them.

    docs/metrics.md lists the metrics, the alert rules and the dashboard.
    """
    with of_extra("metrics", "`rq-dlq metrics`"):
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        from rq_dlq.telemetry.metrics import QueueCollector  # noqa: PLC0415
    registry = CollectorRegistry()
    collector = QueueCollector(context.broker)
    registry.register(collector)
    if listen is not None:
        log_times(context.verbose, context.log_format)
        _serve(registry, *listen)
        return
    collector.read()  # raises if Redis cannot be read
    if context.output.format == "table":
        click.echo(visible(generate_latest(registry).decode()), nl=False)
        return
    samples = [sample for family in registry.collect() for sample in family.samples]
    rows = [{"name": one.name, "labels": one.labels, "value": one.value} for one in samples]
    context.output.rows(rows, (), "")


def _serve(registry: CollectorRegistry, host: str, port: int) -> None:
    """Serve the metrics until a signal.

    Raises:
        ConfigurationError: the address is in use, or does not belong to this machine.
    """
    from prometheus_client import start_http_server  # noqa: PLC0415 - an extra

    stop = Stop()
    with heeding_signals(stop, logger):  # first: a client that gets an answer may send a signal
        try:
            server, _ = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        logger.info("listening on http://%s:%d/metrics", host, server.server_port)
        while not stop.finishing.is_set():
            time.sleep(TICK)
    server.shutdown()
    server.server_close()
