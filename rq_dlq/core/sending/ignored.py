"""A key that a queue ignores: its first send is warned of, once for each queue that a broker sends to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq.core.queues import calls

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps

logger = logging.getLogger("rq_dlq")


def warn_if_ignored(queue: QueueState[Any]) -> Steps[None]:
    """Look, when a message with a key is first sent to a queue, whether the queue heeds keys."""
    if queue.name in queue.blocked.looked_at:
        return
    queue.blocked.looked_at.add(queue.name)
    if not (yield calls.per_key(queue.keys)):
        logger.warning(
            "%s ignores the keys of its messages: pass per_key=PerKey(order=True), say, to broker.queue, or "
            "`rq-dlq policy set %s --per-key order`",
            *(queue.name, queue.name),
        )
