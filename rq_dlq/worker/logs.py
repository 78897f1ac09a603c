"""The log of a program without logging configuration."""

from __future__ import annotations

import logging
import time

from rq_dlq.values.visible import visible_entry

logger = logging.getLogger("rq_dlq")


class LogFormatter(logging.Formatter):
    """A log entry with its time (UTC). Terminal control characters and line breaks are escaped."""

    converter = time.gmtime  # type: ignore[assignment]  # of the base class, which has the local time

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%SZ")

    def format(self, record: logging.LogRecord) -> str:
        """The entry."""
        return visible_entry(super().format(record))


def show_log() -> None:
    """Send the log to stderr if logging is not configured, and log that."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.getLogger().addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.info(
        "logging is not configured, so the log goes to stderr; to change that, call logging.basicConfig(…) "
        "first"
    )
