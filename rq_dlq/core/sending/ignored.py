"""Warns of keys and dependencies that a queue ignores, once for each queue and broker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.core.queues import calls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.key import Of

logger = logging.getLogger("rq_dlq")
_HEEDS: Final[Mapping[Of, tuple[str, str, str]]] = {
    "key": ("keys", "per_key=PerKey(order=True), say,", "--per-key order"),
    "dependency": ("dependencies", "breaker=Breaker()", "--breaker on"),
}


def warn_if_ignored(queue: QueueState[Any], said: Collection[Of]) -> Steps[None]:
    """Look, when a message with a key or a dependency is first sent, whether the queue heeds it."""
    new: list[Of] = [of for of in said if (queue.name, of) not in queue.client.blocked.looked_at]
    if not new:
        return
    queue.client.blocked.looked_at.update((queue.name, of) for of in new)
    heeded = yield calls.heeded(queue.keys)
    for of in sorted(set(new) - heeded):
        what, setting, option = _HEEDS[of]
        logger.warning(
            "%s ignores the %s of its messages: pass %s to broker.queue, or `rq-dlq policy set %s %s`",
            *(queue.name, what, setting, queue.name, option),
        )
