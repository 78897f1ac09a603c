"""Health options of long-running commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rq_dlq.cli._extras import of_extra
from rq_dlq.cli._options import address
from rq_dlq.errors import ConfigurationError
from rq_dlq.telemetry.health import Answer, Pages

if TYPE_CHECKING:
    from rq_dlq import asyncio
    from rq_dlq.client.broker import Broker

F = TypeVar("F", bound="Callable[..., Any]")


def health_options(command: F) -> F:
    """The options `--health` and `--heartbeat-file`."""
    command = click.option(
        "--heartbeat-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Touch this file every second while /livez is ok.",
    )(command)
    return click.option(
        "--health",
        metavar="[HOST:]PORT",
        callback=address,
        help=(
            "Answer GET /livez and /readyz on this address (a worker also answers /metrics). A port alone "
            "means 127.0.0.1."
        ),
    )(command)


def metrics_of(broker: Broker | asyncio.Broker) -> Pages:
    """The page /metrics, with metrics of a broker's handlers and of the program itself."""
    try:
        with of_extra("metrics", "/metrics"):
            from prometheus_client import REGISTRY  # noqa: PLC0415

            from rq_dlq.telemetry.metrics import WorkerMetrics, exposition  # noqa: PLC0415
    except ConfigurationError as error:
        missing = f"{error}\n".encode()
        return {"/metrics": lambda: Answer(404, missing)}
    if not any(isinstance(observer, WorkerMetrics) for observer in broker._client.observers):
        broker.observe(WorkerMetrics())
    return {"/metrics": lambda: exposition(REGISTRY)}
