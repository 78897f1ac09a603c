"""The log of a program that set up none."""

from __future__ import annotations

import logging
import time

from rq_dlq.values.visible import visible_entry

logger = logging.getLogger("rq_dlq")


class LogFormatter(logging.Formatter):
    """An entry with its time (UTC). What would steer a terminal, or begin an entry, is escaped."""

    converter = time.gmtime  # type: ignore[assignment]  # of the base class, which has the local time

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%SZ")

    def format(self, record: logging.LogRecord) -> str:
        """The entry."""
        return visible_entry(super().format(record))


def show_log() -> None:
    """Send the log to stderr if nobody has set up logging, and say so."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.getLogger().addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.info("no logging is set up, so the log goes here; to choose, call logging.basicConfig(…) first")
