"""The log of a command, on stderr."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from rq_dlq.values.visible import visible_entry

if TYPE_CHECKING:
    from collections.abc import Callable


class ToStderr(logging.Handler):
    """Writes to the current stderr, which tests replace.

    Attributes:
        broken: called when nothing reads stderr any more; if it is set, no line raises an error.
    """

    broken: Callable[[], None] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            entry = self.format(record)  # escaped by our formatter
            click.echo(entry if self.formatter else visible_entry(entry), err=True)
        except OSError as error:
            if self.broken is None:
                raise
            if isinstance(error, BrokenPipeError):
                self.broken()


def show_log(verbose: int) -> None:
    """Send the log to stderr: warnings; with -v also info, with -vv everything."""
    root = logging.getLogger()
    if not any(isinstance(handler, ToStderr) for handler in root.handlers):
        root.addHandler(ToStderr())
    logging.getLogger("rq_dlq").setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])


def log_times(verbose: int, log_format: str) -> None:
    """Set up the log of a long-running command: lines have the time, and one more level is shown."""
    from rq_dlq.worker.logs import LogFormatter  # noqa: PLC0415

    formatter: logging.Formatter = LogFormatter()
    if log_format == "json":
        from rq_dlq.telemetry.json_logs import JSONFormatter  # noqa: PLC0415

        formatter = JSONFormatter()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, ToStderr):
            handler.setFormatter(formatter)
    show_log(verbose + 1)
