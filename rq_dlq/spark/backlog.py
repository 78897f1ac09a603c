"""The ready messages in the queues of a streaming query, and how many of them the next batch takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.steps.step import Batch, Wait
from rq_dlq.core.upkeep.maintain import maintain

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.spark.subscription import Subscription
    from rq_dlq.values.counts import QueueStats

LOOK = 250  # milliseconds between two checks of several idle queues: Spark would ask 90 times a second


class Backlog:
    """The backlog of the queues of a query, as steps."""

    def __init__(self, options: StreamOptions, subscription: Subscription[QueueState[Any]]) -> None:
        self._options = options
        self._subscription = subscription
        self._left: dict[str, int] | None = None  # by queue, the rest that was ready at AvailableNow

    @property
    def is_alone(self) -> bool:
        """Whether it is one queue without a bound: then a claim finds ready messages itself, and waits."""
        return len(self._subscription.queues) == 1 and self._left is None

    @property
    def is_bounded(self) -> bool:
        """Whether the query ends when it has taken the messages that were ready at its start."""
        return self._left is not None

    def bound(self) -> Steps[None]:
        """Take no more messages than are ready now."""
        yield from self._subscription.look()
        self._left = yield from self._ready()

    def waiting(self) -> Steps[dict[str, int]]:
        """The number of waiting messages, by queue."""
        return {family: stats.waiting for family, stats in (yield from self._counts()).items()}

    def is_worth_a_batch(self) -> Steps[bool]:
        """Whether enough messages are ready, or have waited long enough."""
        options = self._options
        if options.min_messages == 1 or self.is_bounded:  # AvailableNow must end
            return True
        stats = (yield from self._stats()).values()
        waited = max((each.oldest or 0.0 for each in stats), default=0.0)
        return sum(each.ready for each in stats) >= options.min_messages or waited * 1000 >= options.max_delay

    def limits(self, most: int) -> Steps[dict[str, int]]:
        """How many messages to claim from each queue that has some: its share of the limit."""
        queues = self._subscription.queues
        if self.is_alone:
            return dict.fromkeys(queues, most)
        ready = self._left if self._left is not None else (yield from self._ready())
        ready = {family: count for family, count in ready.items() if count and family in queues}
        share = min(1.0, most / max(1, sum(ready.values())))
        return {family: math.ceil(count * share) for family, count in ready.items()}

    def note(self, family: str, claimed: int) -> None:
        """Note how many messages were claimed. None: no ready messages are left."""
        if self._left is not None:
            self._left[family] -= claimed or self._left[family]

    def pause(self) -> Wait:
        """The time before the next check of idle queues."""
        some = QueueKeys(self._options.namespace, self._options.queues[0])
        return Wait(some.silent, max(1, min(LOOK, self._options.max_wait)))

    def _ready(self) -> Steps[dict[str, int]]:
        return {family: stats.ready for family, stats in (yield from self._stats()).items()}

    def _stats(self) -> Steps[dict[str, QueueStats]]:
        """The counts of each queue, after its maintenance: due messages are ready."""
        for queue in self._subscription.queues.values():
            yield from maintain(queue)
        return (yield from self._counts())

    def _counts(self) -> Steps[dict[str, QueueStats]]:
        queues = self._subscription.queues
        found = yield Batch([calls.stats(queue.keys, family) for family, queue in queues.items()])
        return {family: stats for family, (_, stats) in zip(queues, found, strict=True)}
