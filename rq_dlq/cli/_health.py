"""Options of commands that run long, for those who watch over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rq_dlq.cli._options import address

F = TypeVar("F", bound="Callable[..., Any]")


def health_options(command: F) -> F:
    """The options `--health` and `--heartbeat-file`."""
    command = click.option(
        "--heartbeat-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Touch this file every second while the process lives.",
    )(command)
    return click.option(
        "--health",
        metavar="[HOST:]PORT",
        callback=address,
        help="Answer GET /livez and /readyz there; a port alone is one of 127.0.0.1.",
    )(command)
