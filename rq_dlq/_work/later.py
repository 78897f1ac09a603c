"""Messages in the form of a later version: reads leave them out, and log how many."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rq_dlq.values import record
from rq_dlq.values.later import needed, upgrade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.values.message import Row

logger = logging.getLogger("rq_dlq")


def version_needed(row: Row) -> str:
    """The version that it takes to read a message; empty: this one."""
    return needed(row.state) or record.version_needed(row.record)


def readable(rows: Sequence[Row], home: str) -> list[Row]:
    """The messages that this version can read; the number of the others is logged.

    Args:
        home: the queue's name.
    """
    versions = [version_needed(row) for row in rows]
    if not any(versions):
        return list(rows)
    count = len(versions) - versions.count("")
    logger.warning("%s", upgrade(f"{home}: each of {count} messages here", max(versions)))
    return [row for row, version in zip(rows, versions, strict=True) if not version]
