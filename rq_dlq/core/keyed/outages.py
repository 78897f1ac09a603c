"""What is known of the dependencies of a queue's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import UnreachableQueue, each_queue
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.queues.views import find
from rq_dlq.core.steps.step import Batch, Steps
from rq_dlq.values.dependency import DependencyStats
from rq_dlq.values.failure import moment
from rq_dlq.values.key import lane_of, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.keyed.calls import Lane
    from rq_dlq.core.queues.queue import QueueState


def of_dependency(queue: QueueState[Any], name: str) -> Steps[DependencyStats]:
    """What is known of one.

    Raises:
        InvalidMessage: this cannot be a dependency.
        InvalidInput: the queue is one of dead letters.
    """
    packed(name, "dependency")
    yield from find(queue)
    only_live(queue, "look for dependencies of")
    number = lane_of(name, "dependency")
    lane, waiting = yield Batch([calls.special(queue.keys, number), calls.blocked(queue.keys, number)])
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    return _stats(queue.keys.family, name, lane, waiting, now)


def everywhere(namespace: str) -> Steps[list[DependencyStats | UnreachableQueue]]:
    """Those of all queues of which something is known: that are open, paused or drain."""
    families: list[str] = yield queue_calls.registered(namespace)

    def read(names: Sequence[str]) -> Steps[list[DependencyStats | UnreachableQueue]]:
        keys = [QueueKeys(namespace, name) for name in names]
        found = yield Batch([calls.specials(one) for one in keys])
        stats: list[DependencyStats | UnreachableQueue] = []
        for one, lanes in zip(keys, found, strict=True):
            known = {number: lane for number, lane in lanes.items() if lane.of == "dependency"}
            now, _ = (yield queue_calls.stats(one, one.family)) if known else (0, None)
            for number, lane in known.items():
                waiting = yield calls.blocked(one, number)
                stats.append(_stats(one.family, lane.name, lane, waiting, now))
        return stats

    if not families:
        return []
    return (yield from each_queue(families, read))


def _stats(family: str, name: str, lane: Lane | None, waiting: int, now: int) -> DependencyStats:
    if lane is None:
        return DependencyStats(name, family, waiting=waiting)
    paused = lane.paused is not None and (lane.ends is None or lane.ends > now)
    begins = [at for at in (lane.open, lane.paused if paused else None) if at is not None]
    probed = bool(begins) and not paused and lane.due is not None
    return DependencyStats(
        name,
        family,
        open=bool(begins),
        since=moment(min(begins)) if begins else None,
        waiting=waiting,
        next_probe=moment(lane.due or 0) if probed else None,
        paused=paused,
        until=moment(lane.ends) if paused and lane.ends is not None else None,
        dead=tuple(lane.dead),
    )
