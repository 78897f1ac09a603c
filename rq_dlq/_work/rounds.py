"""Rounds of maintenance: look at every queue for what is due, and do it in steps of bounded size.

To look costs a few plain reads for each queue, whatever it holds; a script runs only where something is due.
Any number of processes may do this at once: each script takes what is still there when it runs.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq import _calls
from rq_dlq._keys import QueueKeys
from rq_dlq._work.steps import Batch, Steps
from rq_dlq._work.upkeep import ROLES, SEVERAL, STEP, Role, script, step
from rq_dlq.codec import NO_JSON
from rq_dlq.errors import BrokerRefused
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.dead_letter import REPORT_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

logger = logging.getLogger("rq_dlq.maintenance")
GROUP = 25  # queues that one round trip looks at
TOGETHER = 20  # scripts in one round trip, which move STEP messages in all
ENOUGH = 100  # round trips of work, after which a round looks again what is due
QUIET = 600  # rounds until it is said again that a queue refuses
USUAL_POLICY = _calls.encode_policy(RedeliveryPolicy().as_wire())
# By role: an index, what is done where its first entry is due, and which setting says how long that is kept.
INDEXES: dict[Role, tuple[tuple[str, str, str], ...]] = {
    "redelivery": (("leases", "swept", ""), ("scheduled", "promoted", "")),
    "expiry": (("expiring", "expired", ""),),
    "retention": (("dead", "retired", "dead_for"), ("expired", "retired", "expired_for")),
    "commits": (("committed", "written", ""),),
}


class Watched:
    """A queue that is maintained.

    Attributes:
        policy: by which a lapse is judged where none stands in Redis.
        looks: the reads that tell what is due.
    """

    def __init__(self, keys: QueueKeys, roles: Iterable[Role] = ROLES, policy: bytes = USUAL_POLICY) -> None:
        self.keys = keys
        self.policy = policy
        self._indexes = [index for role in roles for index in INDEXES[role]]
        heads = [_calls.first_score(keys, index) for index, _, _ in self._indexes]
        self.looks: Sequence[_calls.Command[Any]] = (
            _calls.clock(),  # of its own node, in a cluster
            *heads,
            _calls.strategy(keys),
            _calls.discarded(keys),
        )
        self._discarded: int | None = None
        self._quiet = 0

    def due(self, replies: Sequence[Any]) -> tuple[list[str], float | None]:
        """What is to be done now, and in how many milliseconds something else falls due."""
        now, *heads, text, discarded = replies
        strategy = _strategy(text)
        self._quiet = max(0, self._quiet - 1)
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
        return list(names), min(later, default=None)

    def _report(self, strategy: dict[str, Any], discarded: int) -> None:
        """Say so each time the queue has dropped another `report_interval` of messages (I14)."""
        said = strategy.get("report_interval")
        interval = said if isinstance(said, int) and said > 0 else REPORT_INTERVAL
        before, self._discarded = self._discarded, discarded
        if before is not None and discarded // interval > before // interval:
            logger.warning("%s: %d messages discarded so far", self.keys.home, discarded)

    def refuse(self, error: BrokerRefused) -> None:
        """Say that the server refuses to maintain it, once in a while; the others go on."""
        if self._quiet == 0:
            logger.warning("%s cannot be maintained: %s", self.keys.home, error)
        self._quiet = QUIET


def _strategy(text: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or b"{}")
    except NO_JSON:
        value = None
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


@dataclass
class Watch:
    """All queues of a namespace, as they are found.

    Attributes:
        done: how many messages were swept, promoted, expired, retired, written.
    """

    namespace: str
    roles: Sequence[Role]
    queues: dict[str, Watched] = field(default_factory=dict[str, Watched])
    done: Counter[str] = field(default_factory=Counter[str])

    def find(self) -> Steps[None]:
        """Look which queues there are."""
        homes: list[str] = yield _calls.registered(self.namespace)
        known = self.queues
        self.queues = {
            home: known.get(home) or Watched(QueueKeys(self.namespace, home), self.roles) for home in homes
        }


@dataclass
class Due:
    """What is to be done: queues, and what about them. `soonest`: the milliseconds until there is more."""

    work: deque[tuple[Watched, str]] = field(default_factory=deque[tuple[Watched, str]])
    soonest: float | None = None


def one_round(watch: Watch, stopped: Callable[[], bool]) -> Steps[float | None]:
    """Do what is due in all queues, or a good part of it.

    Args:
        stopped: asked between two steps.

    Returns:
        The milliseconds until something else falls due; 0: there is more already; None: nothing is known.
    """
    yield from watch.find()
    due = yield from look(list(watch.queues.values()), stopped)
    yield from work_off(due.work, watch.done, stopped=stopped)
    return 0 if due.work else due.soonest


def look(queues: Sequence[Watched], stopped: Callable[[], bool] = bool) -> Steps[Due]:
    """Look what is due, a group of queues at a time."""
    due = Due()
    groups = deque(queues[start : start + GROUP] for start in range(0, len(queues), GROUP))
    while groups and not stopped():
        group = groups.popleft()
        try:
            replies = iter((yield Batch([read for queue in group for read in queue.looks])))
        except BrokerRefused as error:
            if len(group) == 1:
                group[0].refuse(error)
            else:  # one that is damaged does not hold up the others
                groups.extendleft([queue] for queue in group)
            continue
        for queue in group:
            names, later = queue.due(list(islice(replies, len(queue.looks))))
            due.work.extend((queue, name) for name in names)
            due.soonest = min((span for span in (due.soonest, later) if span is not None), default=None)
    return due


def work_off(
    work: deque[tuple[Watched, str]],
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
            done[item[1]] += count
            if count >= limit:
                work.append(item)


def _step_all(part: Sequence[tuple[Watched, str]], limit: int) -> Steps[list[int]]:
    if not any(name in SEVERAL for _, name in part):
        try:
            calls = [script(name, queue.keys, queue.policy, limit) for queue, name in part]
            return (yield Batch(calls))  # type: ignore[no-any-return]
        except BrokerRefused:
            pass  # one of them; those that were done find less the second time
    counts: list[int] = []
    for queue, name in part:
        try:
            counts.append((yield from step(name, queue.keys, queue.policy, limit)))
        except BrokerRefused as error:
            queue.refuse(error)
            counts.append(0)
    return counts
