"""Blocks that are cut off: by a cancellation, Ctrl-C, SystemExit, or since their generator is closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from rq_dlq._work.queue import Queue

logger = logging.getLogger("rq_dlq")


def is_cut_off(error: BaseException | None) -> bool:
    """Whether this error cuts off the block that it ends: it is not an `Exception`.

    It goes on then, whatever becomes of the messages. What is left to do has one short try, and its failure
    is logged: the leases cover the messages.
    """
    return error is not None and not isinstance(error, Exception)


def log_failure(queue: Queue[Any], failure: Exception) -> None:
    """Log why messages could not be given back on the way out."""
    logger.warning("%s: cannot give back the messages of a block that was cut off: %s", queue.name, failure)
