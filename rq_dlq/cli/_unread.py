"""Handles a log whose reader has ended, as in `rq-dlq worker app:broker 2>&1 | head -1`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rq_dlq.cli._context import FAILED
from rq_dlq.cli._logs import ToStderr

if TYPE_CHECKING:
    from rq_dlq.doctor.vitals import Vitals


@contextmanager
def ending_unread(end: Callable[[], object], vitals: Vitals) -> Generator[None]:
    """End a long-running command in an orderly way when its log is no longer read.

    Until then, log lines raise no errors: an error would fail the message whose handler wrote the line. If
    stdout and the log are the same file, the handlers' output is dropped, too, and does not fail them.

    Args:
        end: makes the command finish its running work.
        vitals: show whether the command is already stopping, as after a Ctrl-C that also ended the reader.

    Raises:
        SystemExit: the command ended for this reason.
    """
    unread = False

    def broken() -> None:
        nonlocal unread
        unread = unread or vitals.stage != "stopping"
        _write_nowhere()
        end()

    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, ToStderr)]
    for handler in handlers:
        handler.broken = broken
    try:
        yield
    finally:
        for handler in handlers:
            handler.broken = None
    if unread:
        sys.exit(FAILED)


def _write_nowhere() -> None:
    """Replace stderr, and stdout if it is the same file, so that Python does not fail when it exits."""
    log = sys.stderr.fileno()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if os.path.sameopenfile(log, sys.stdout.fileno()):
        os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, log)
    os.close(nowhere)
