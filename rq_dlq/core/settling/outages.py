"""Failures that count against a dependency, and the log of dependencies that count as down."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq.values.failure import behind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.settlement import Settlement

logger = logging.getLogger("rq_dlq")


def counts_against(queue: QueueState[Any], error: BaseException | str | None) -> bool:
    """Whether a failure counts against the dependency of a message."""
    root = behind(error) if isinstance(error, BaseException) else error
    return not queue.struck_by or isinstance(root, queue.struck_by)


def log_opened(queue: QueueState[Any], settlements: Iterable[Settlement]) -> None:
    """Log the dependencies that count as down since these failures."""
    for opened in {one.opened for one in settlements if one.opened}:
        logger.warning(
            "%s: %s counts as down: its messages wait, uncharged; `rq-dlq queue ls --dependencies` shows "
            "more",
            *(queue.name, opened),
        )
