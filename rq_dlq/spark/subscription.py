"""The queues that a stream reads: names, and patterns whose queues change while the query runs.

Of a stream of messages also what is ready there.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.queue import QueueState
from rq_dlq.core.steps.step import Batch, Wait
from rq_dlq.core.upkeep.maintain import maintain
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark.queues import chosen

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.values.counts import QueueStats

T = TypeVar("T")
logger = logging.getLogger("rq_dlq.spark")


def lose(options: StreamOptions, message: str, advice: str) -> None:
    """End a query that lost something, or, without `failOnDataLoss`, only log it."""
    if options.fail_on_loss:
        raise DataLoss(f"{message}. {advice}")
    logger.warning("%s", message)


class Subscription(Generic[T]):
    """The queues of a stream that there are now.

    Args:
        made: creates, for a name, the object that the stream works with.

    Attributes:
        queues: these, by name. It is replaced as a whole, since two threads read it.
    """

    def __init__(self, options: StreamOptions, made: Callable[[str], T]) -> None:
        self._options = options
        self._made = made
        self.queues: Mapping[str, T] = {}
        self._missed: set[str] = set()  # warnings that were logged

    def look(self, known: Collection[str] = (), read: Collection[str] | None = None) -> Steps[None]:
        """See which queues there are now.

        Args:
            known: the queues of the checkpoint.
            read: the queues that the query has read; None: not known yet, so none is missed.
        """
        options = self._options
        if strange := {*known}.difference(chosen([*known], options.queues, options.shards)[0]):
            raise InvalidInput(
                f"the checkpoint is for {', '.join(sorted(strange))}, but the query reads "
                f"{', '.join(options.queues)}: use the checkpoint of these queues, or a new one"
            )
        there: list[str] = yield calls.registered(options.namespace)
        found, missing = chosen(there, options.queues, options.shards)
        if read is not None:
            missed = {name for name in missing if "*" not in name} | {*read}.difference(there)
            if missed - self._missed:
                names = ", ".join(map(repr, sorted(missed)))
                advice = (
                    "Set failOnDataLoss=false to continue without it, and with it if it exists again; or use "
                    "a new checkpoint, and remove the name from the option queue"
                )
                lose(options, f"there is no queue {names} any more: its unread messages are lost", advice)
            self._missed = missed
        if [*self.queues] != found:
            old = self.queues
            self.queues = {name: old[name] if name in old else self._made(name) for name in found}

    def pause(self, milliseconds: int) -> Wait:
        """The time before the next look at idle queues: so long, but at most `maxWait`."""
        some = QueueKeys(self._options.namespace, self._options.queues[0])
        return Wait(some.silent, max(1, min(milliseconds, self._options.max_wait)))


class Backlog(Subscription[QueueState[Any]]):
    """The ready messages in the queues of a query, and how many of them the next batch takes, as steps."""

    def __init__(self, options: StreamOptions, made: Callable[[str], QueueState[Any]]) -> None:
        super().__init__(options, made)
        self._left: dict[str, int] | None = None  # by queue, the rest that was ready at AvailableNow

    @property
    def is_alone(self) -> bool:
        """Whether it is one queue without a bound: then a claim finds ready messages itself, and waits."""
        return len(self.queues) == 1 and self._left is None

    @property
    def is_bounded(self) -> bool:
        """Whether the query ends when it has taken the messages that were ready at its start."""
        return self._left is not None

    def bound(self) -> Steps[None]:
        """Take no more messages than are ready now."""
        yield from self.look()
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
        if self.is_alone:
            return dict.fromkeys(self.queues, most)
        ready = self._left if self._left is not None else (yield from self._ready())
        ready = {family: count for family, count in ready.items() if count and family in self.queues}
        share = min(1.0, most / max(1, sum(ready.values())))
        return {family: math.ceil(count * share) for family, count in ready.items()}

    def note(self, family: str, claimed: int) -> None:
        """Note how many messages were claimed. None: no ready messages are left."""
        if self._left is not None:
            self._left[family] -= claimed or self._left[family]

    def _ready(self) -> Steps[dict[str, int]]:
        return {family: stats.ready for family, stats in (yield from self._stats()).items()}

    def _stats(self) -> Steps[dict[str, QueueStats]]:
        """The counts of each queue, after its maintenance: due messages are ready."""
        for queue in self.queues.values():
            yield from maintain(queue)
        return (yield from self._counts())

    def _counts(self) -> Steps[dict[str, QueueStats]]:
        queues = self.queues
        found = yield Batch([calls.stats(queue.keys, family) for family, queue in queues.items()])
        return {family: stats for family, (_, stats) in zip(queues, found, strict=True)}
