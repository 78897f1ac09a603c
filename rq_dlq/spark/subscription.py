"""The queues that a stream reads: names, and patterns whose queues change while the query runs.

Of a stream of messages also what is ready there. The queues are looked up before each batch, in the list of
all names, by one call. An offset keeps the position of a queue that is gone, so a later one of the same name
is noticed, which has nothing of the query. So offsets grow where `failOnDataLoss=false` and many queues come
and go. A queue of a pattern that the query never read is not missed: it cannot be told from one that never
was. An idle source sleeps once, however many queues it has; only one with a single queue is woken by a
message, the others look again after 250 ms.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.queue import QueueState
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.step import Pipeline, Wait
from rq_dlq.core.upkeep.maintain import maintain
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark.queues import chosen

if TYPE_CHECKING:
    from rq_dlq.core.steps.call import Command
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.values.counts import QueueStats

T = TypeVar("T")
logger = logging.getLogger("rq_dlq.spark")
LET_IN = 32  # messages that a claim asks for where a gate or a slot is due


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


class QueueBacklog(NamedTuple):
    """What a look saw of a queue: waiting messages, seconds since the first became due, and dead letters."""

    backlog: int
    oldest: float
    dead: int


class Backlog(Subscription[QueueState[Any]]):
    """The ready messages in the queues of a query, and how many of them the next batch takes, as steps."""

    def __init__(self, options: StreamOptions, made: Callable[[str], QueueState[Any]]) -> None:
        super().__init__(options, made)
        self._left: dict[str, int] | None = None  # by queue, the rest that was ready at AvailableNow
        self._watched: dict[str, MaintainedQueue] = {}
        self._seen: dict[str, QueueBacklog] = {}  # by queue, at the last look

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

    def lag(self) -> Steps[dict[str, dict[str, float]]]:
        """The `QueueBacklog` of each queue, by name and queue; of several, at the last look at them."""
        if self.is_alone:
            yield from self._look_at(self.queues)
        seen = {family: self._seen[family] for family in self.queues if family in self._seen}
        return {
            name: {family: getattr(each, name) for family, each in seen.items()}
            for name in QueueBacklog._fields
        }

    def is_worth_a_batch(self) -> Steps[bool]:
        """Whether enough messages are ready, or have waited long enough."""
        options = self._options
        if options.min_messages == 1 or self.is_bounded:  # AvailableNow must end
            return True
        queues = self.queues
        yield from self._ready()
        found = yield Pipeline([calls.stats(queue.keys, family) for family, queue in queues.items()])
        stats: list[QueueStats] = [stats for _, stats in found]
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
        if seen := self._seen.get(family):
            self._seen[family] = seen._replace(backlog=max(0, seen.backlog - claimed))
        if self._left is not None:
            self._left[family] -= claimed or self._left[family]

    def _ready(self) -> Steps[dict[str, int]]:
        """How many messages of each queue are ready, after the maintenance that is due."""
        queues = self.queues
        ready, due = yield from self._look_at(queues)
        if due:
            yield from together([maintain(queues[family]) for family in due])
            for family in due:
                self._watched[family].rest()
            ready |= (yield from self._look_at(due))[0]
        return ready

    def _look_at(self, families: Collection[str]) -> Steps[tuple[dict[str, int], list[str]]]:
        """How many messages of these queues are ready, and which queues have maintenance that is due."""
        ready: dict[str, int] = {}
        due: list[str] = []
        watched = {family: self._watch(family) for family in families}
        reads = {family: (*each.looks, *_counts(each.keys)) for family, each in watched.items()}
        replies = iter((yield Pipeline([*chain.from_iterable(reads.values())])))
        for family, each in watched.items():
            *looks, ready[family], scheduled, dead, head, gate, slot = islice(replies, len(reads[family]))
            oldest = round(calls.waited(looks[0], head) or 0.0, 3)
            self._seen[family] = QueueBacklog(ready[family] + scheduled, oldest, dead)
            if any(at is not None and at <= looks[0] for at in (gate, slot)):
                ready[family] = max(ready[family], LET_IN)
            if each.due(looks)[0]:
                due.append(family)
        return ready, due

    def _watch(self, family: str) -> MaintainedQueue:
        if family not in self._watched:
            queue = self.queues[family]
            self._watched[family] = MaintainedQueue(queue.keys, policy=queue.policy)
        return self._watched[family]


def _counts(keys: QueueKeys) -> Sequence[Command[Any]]:
    """Reads how many messages wait, and when a claim can let in more, of a dependency or a key."""
    return (
        page_calls.size(keys, "ready"),
        page_calls.size(keys, "scheduled"),
        page_calls.size(keys, "dead"),
        calls.first_score(keys, "ready"),
        calls.first_score(keys, "gates"),
        calls.first_score(keys, "slots"),
    )
