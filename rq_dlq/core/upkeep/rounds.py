"""Rounds of maintenance: find the due work of every queue, and do it in steps of bounded size.

Finding it costs a few plain reads per queue, whatever it holds; a verb runs only if something is due.
Any number of processes may do this concurrently: each call takes the work that is left when it runs.
`upkeep` has the steps, and `watched` what is due; `maintain` does them on request for one queue. Rounds are
for many queues, and run in two kinds of processes, `worker/upkeep` and `worker/maintenance`.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.schedules.schedules import fire_due_of
from rq_dlq.core.steps.driving import lost_among, unrepeated
from rq_dlq.core.steps.step import CHANGED, NodeUnavailable, Pipeline, Steps, chunks
from rq_dlq.core.upkeep.upkeep import (
    SEVERAL,
    STEP,
    MaintenanceRole,
    call,
    step,
)
from rq_dlq.core.upkeep.watched import QUIET, MaintainedQueue
from rq_dlq.errors import BrokerRefused

logger = logging.getLogger("rq_dlq.maintenance")
GROUP = 25  # queues that one round trip reads
TOGETHER = 20  # calls in one round trip, which move STEP messages in all
ENOUGH = 100  # round trips of work, after which a round reads the due work again


@dataclass
class MaintainedNamespace:
    """All queues of a namespace that are maintained.

    Attributes:
        done: how many messages were swept, promoted, expired, retired, grouped, written, fired.
    """

    namespace: str
    roles: Sequence[MaintenanceRole]
    queues: dict[str, MaintainedQueue] = field(default_factory=dict[str, MaintainedQueue])
    done: Counter[str] = field(default_factory=Counter[str])
    _unread: int = 0  # rounds for which the list of queues could not be read

    def find(self) -> Steps[None]:
        """Read which queues there are."""
        (families,) = yield Pipeline([queue_calls.registered(self.namespace)], apart=True)
        if isinstance(families, NodeUnavailable):  # other nodes may have known queues
            if not self.queues:
                raise families
            if self._unread % QUIET == 0:
                logger.warning("the list of queues cannot be read, so new ones are not seen: %s", families)
            self._unread += 1
            return
        self._unread = 0
        known = self.queues
        self.queues = {
            family: known.get(family) or MaintainedQueue(QueueKeys(self.namespace, family), self.roles)
            for family in families
        }


@dataclass
class Due:
    """The due work.

    Attributes:
        work: queues, each with the name of its due work.
        soonest: milliseconds until there is more; None: unknown.
    """

    work: deque[tuple[MaintainedQueue, str]] = field(default_factory=deque[tuple[MaintainedQueue, str]])
    soonest: float | None = None


def one_round(watch: MaintainedNamespace, stopped: Callable[[], bool]) -> Steps[float | None]:
    """Do the work that is due in all queues, or a good part of it.

    Args:
        stopped: checked between two steps.

    Returns:
        Milliseconds until more is due; 0: it is already; None: unknown.
    """
    yield from watch.find()
    due = yield from look(list(watch.queues.values()), stopped)
    yield from work_off(due.work, watch.done, stopped=stopped)
    return 0 if due.work else due.soonest


def look(queues: Sequence[MaintainedQueue], stopped: Callable[[], bool] = bool) -> Steps[Due]:
    """Read the due work, a group of queues at a time.

    Raises:
        BrokerUnavailable: no queue can be reached.
    """
    due = Due()
    lost: dict[MaintainedQueue, NodeUnavailable] = {}
    groups = deque(chunks(queues, GROUP))
    for queue in queues:
        queue.next_round()
    while groups and not stopped():
        group = groups.popleft()
        try:
            reads = [read for queue in group for read in queue.looks]
            replies: Iterator[Any] = iter((yield Pipeline(reads, apart=True)))
        except BrokerRefused as error:
            if len(group) == 1:
                group[0].refuse(error)
            else:  # a damaged one must not hold up the others
                groups.extendleft([queue] for queue in group)
            continue
        for queue in group:
            found: list[Any] = list(islice(replies, len(queue.looks)))
            if failure := lost_among(found):
                lost[queue] = failure
                continue
            names, later = queue.due(found)
            due.work.extend((queue, name) for name in names)
            due.soonest = min((span for span in (due.soonest, later) if span is not None), default=None)
    _pass_over(lost, queues)
    return due


def fire_due(queues: Sequence[MaintainedQueue]) -> Steps[float | None]:
    """Fire the schedules of these queues; milliseconds until the next is due, None: no schedule is.

    Raises:
        BrokerUnavailable: no queue can be reached.
    """
    soonest: list[float] = []
    lost: dict[MaintainedQueue, NodeUnavailable] = {}
    for queue in queues:
        try:
            soonest += yield from unrepeated(fire_due_of(queue.keys))
        except NodeUnavailable as error:
            lost[queue] = error
        except BrokerRefused as error:
            queue.refuse(error)
    _pass_over(lost, queues)
    return min(soonest, default=None)


def _pass_over(lost: Mapping[MaintainedQueue, NodeUnavailable], queues: Sequence[MaintainedQueue]) -> None:
    """The next round retries unreachable queues; if nothing else is left, the process must wait."""
    for queue, error in lost.items():
        if len(lost) == len(queues):
            raise error
        queue.refuse(error)


def work_off(
    work: deque[tuple[MaintainedQueue, str]],
    done: Counter[str],
    enough: int = ENOUGH,
    stopped: Callable[[], bool] = bool,
) -> Steps[None]:
    """Do the due work, queue by queue in turn, in at most `enough` round trips; the rest stays in `work`."""
    for _ in range(enough):
        if not work or stopped():
            return
        part = [work.popleft() for _ in range(min(TOGETHER, len(work)))]
        limit = STEP // len(part)
        for item, count in zip(part, (yield from _step_all(part, limit)), strict=True):
            queue, name = item
            queue.note(name, count)
            done[name] += count
            if count >= min(limit, CHANGED):
                work.append(item)


def _step_all(part: Sequence[tuple[MaintainedQueue, str]], limit: int) -> Steps[list[int]]:
    counts: list[int] = []
    if not any(name in SEVERAL for _, name in part):
        try:
            calls = [call(name, queue.keys, queue.policy, limit) for queue, name in part]
            for (queue, _), result in zip(part, (yield Pipeline(calls, apart=True)), strict=True):
                if isinstance(result, NodeUnavailable):
                    queue.refuse(result)
                counts.append(0 if isinstance(result, NodeUnavailable) else result)
        except BrokerRefused:
            pass  # one of them; those that were done find less the second time
        else:
            return counts
    for queue, name in part:
        try:
            counts.append((yield from unrepeated(step(name, queue.keys, queue.policy, limit))))
        except (BrokerRefused, NodeUnavailable) as error:
            queue.refuse(error)
            counts.append(0)
    return counts
