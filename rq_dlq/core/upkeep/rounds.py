"""Rounds of maintenance: find what is due in every queue, and do it in steps of bounded size.

Finding it costs a few plain reads per queue, whatever it holds; a script runs only if something is due.
Any number of processes may do this at once: each script takes what is still there when it runs.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq._keys import QueueKeys
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import encode_policy
from rq_dlq.core.schedules.schedules import fire_due_of
from rq_dlq.core.steps.driving import lost_among, unrepeated
from rq_dlq.core.steps.step import CHANGED, Batch, NodeUnavailable, Steps, chunks
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.core.upkeep.upkeep import (
    CHECKS,
    INDEXES,
    PAIRS,
    ROLES,
    SEVERAL,
    STEP,
    MaintenanceRole,
    script,
    step,
)
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import REPORT_INTERVAL
from rq_dlq.values.codec import NO_JSON

if TYPE_CHECKING:
    from rq_dlq.core.steps.call import Command

logger = logging.getLogger("rq_dlq.maintenance")
GROUP = 25  # queues that one round trip reads
TOGETHER = 20  # scripts in one round trip, which move STEP messages in all
ENOUGH = 100  # round trips of work, after which a round reads again what is due
CHECK_AGAIN = 60_000  # milliseconds until a queue is checked again for what no index shows
QUIET = 600  # rounds until a queue that cannot be maintained is logged again
USUAL_POLICY = encode_policy(RedeliveryPolicy().as_wire())


class MaintainedQueue:
    """A queue that is maintained.

    Attributes:
        policy: judges a lapse if Redis has no policy for the queue.
        looks: the reads that show what is due.
    """

    def __init__(
        self, keys: QueueKeys, roles: Iterable[MaintenanceRole] = ROLES, policy: bytes = USUAL_POLICY
    ) -> None:
        self.keys = keys
        self.policy = policy
        self._indexes = [index for role in roles for index in INDEXES[role]]
        self._pairs = [pair for role in roles for pair in PAIRS.get(role, ())]
        self._checks = [name for role in roles for name in CHECKS.get(role, ())]
        heads = [queue_calls.first_score(keys, index) for index, _, _ in self._indexes]
        sizes = [page_calls.size(keys, index) for *pair, _ in self._pairs for index in pair]
        self.looks: Sequence[Command[Any]] = (
            queue_calls.clock(),  # of its own node, in a cluster
            *heads,
            *sizes,
            upkeep_calls.strategy(keys),
            upkeep_calls.discarded(keys),
        )
        self._now = 0
        self._check_at: int | None = None  # by the server's clock
        self._discarded: int | None = None
        self._quiet = 0

    def due(self, replies: Sequence[Any]) -> tuple[list[str], float | None]:
        """What is due now, by name, and in how many milliseconds the next is; None: not known."""
        now, *found, text, discarded = replies
        heads, sizes = found[: len(self._indexes)], found[len(self._indexes) :]
        strategy = _strategy(text)
        self._report(strategy, discarded)
        names: dict[str, None] = {}
        later: list[float] = []
        for (_, name, setting), head in zip(self._indexes, heads, strict=True):
            kept = strategy.get(setting) if setting else 0
            if head is None or isinstance(kept, bool) or not isinstance(kept, int | float):
                continue
            if head + kept <= now:
                names[name] = None
            else:
                later.append(head + kept - now)
        for (*_, name), size, other in zip(self._pairs, sizes[::2], sizes[1::2], strict=True):
            if size != other:
                names[name] = None
        if self._is_unchecked(now):
            names.update(dict.fromkeys(self._checks))
        return list(names), min(later, default=None)

    def _is_unchecked(self, now: int) -> bool:
        """Whether to look for what no index shows; the first time after a part of the usual span.

        So the queues that a process begins to maintain are not all checked in the same round.
        """
        self._now = now
        if self._check_at is None or self._check_at > now + CHECK_AGAIN:  # the clock stepped back
            half = CHECK_AGAIN // 2
            self._check_at = now + half + zlib.crc32(self.keys.family.encode()) % half
        return self._check_at <= now

    def note(self, name: str, count: int) -> None:
        """Note how many messages a step concerned: a check that finds none rests."""
        if name in self._checks and not count:
            self._check_at = self._now + CHECK_AGAIN

    def _report(self, strategy: dict[str, Any], discarded: int) -> None:
        """Log each time the queue has discarded another `report_interval` of messages (I14)."""
        stored = strategy.get("report_interval")
        interval = stored if isinstance(stored, int) and stored > 0 else REPORT_INTERVAL
        before, self._discarded = self._discarded, discarded
        if before is not None and discarded // interval > before // interval:
            logger.warning("%s: %d messages discarded so far", self.keys.family, discarded)

    def refuse(self, error: BrokerRefused | BrokerUnavailable) -> None:
        """Log once in a while that its server cannot or will not maintain it; the others go on."""
        if self._quiet == 0:
            logger.warning("%s cannot be maintained: %s", self.keys.family, error)
            self._quiet = QUIET

    def next_round(self) -> None:
        """Another round begins."""
        self._quiet = max(0, self._quiet - 1)


def _strategy(text: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or b"{}")
    except NO_JSON:
        value = None
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


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
        (families,) = yield Batch([queue_calls.registered(self.namespace)], apart=True)
        if isinstance(families, NodeUnavailable):  # other nodes may have the queues that are known
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
    """What is due.

    Attributes:
        work: queues, each with the name of what is due in it.
        soonest: milliseconds until there is more; None: not known.
    """

    work: deque[tuple[MaintainedQueue, str]] = field(default_factory=deque[tuple[MaintainedQueue, str]])
    soonest: float | None = None


def one_round(watch: MaintainedNamespace, stopped: Callable[[], bool]) -> Steps[float | None]:
    """Do what is due in all queues, or a good part of it.

    Args:
        stopped: checked between two steps.

    Returns:
        Milliseconds until more is due; 0: it is already; None: not known.
    """
    yield from watch.find()
    due = yield from look(list(watch.queues.values()), stopped)
    yield from work_off(due.work, watch.done, stopped=stopped)
    return 0 if due.work else due.soonest


def look(queues: Sequence[MaintainedQueue], stopped: Callable[[], bool] = bool) -> Steps[Due]:
    """Read what is due, a group of queues at a time.

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
            replies: Iterator[Any] = iter((yield Batch(reads, apart=True)))
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
    """Fire the schedules of these queues; milliseconds until the next is due, None: there is none.

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
    """The next round tries again what could not be reached; where that is all, the process has to wait."""
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
    """Do what is due, queue by queue in turn, in `enough` round trips at most; the rest stays in `work`."""
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
            calls = [script(name, queue.keys, queue.policy, limit) for queue, name in part]
            for (queue, _), result in zip(part, (yield Batch(calls, apart=True)), strict=True):
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
