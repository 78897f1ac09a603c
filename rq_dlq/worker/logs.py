"""The log of a program that set up none."""

from __future__ import annotations

import logging

from rq_dlq.values.visible import visible_entry

logger = logging.getLogger("rq_dlq")


class _Visible(logging.Formatter):
    """Escapes what would steer a terminal, or begin a line: errors quote messages."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_entry(super().format(record))


def show_log() -> None:
    """Send the log to stderr if nobody has set up logging, and say so."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.info("no logging is set up, so the log goes here; to choose, call logging.basicConfig(…) first")
