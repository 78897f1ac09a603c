"""The dependencies of a queue's messages."""

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
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rq_dlq.core.keyed.calls import Lane
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.key import Of


def of_dependency(queue: QueueState[Any], name: str) -> Steps[DependencyStats]:
    """The state of a dependency.

    Raises:
        InvalidMessage: this cannot be a dependency.
        InvalidInput: the queue is a dead-letter or expiry queue.
    """
    packed(name, "dependency")
    yield from find(queue)
    only_live(queue, "look for dependencies of")
    number = lane_of(name, "dependency")
    lane, waiting = yield Batch([calls.special(queue.keys, number), calls.blocked(queue.keys, number)])
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    return _stats(queue.keys.family, name, lane, waiting, now)


def everywhere(namespace: str) -> Steps[list[DependencyStats | UnreachableQueue]]:
    """The dependencies in all queues that are open, paused or draining."""
    families: list[str] = yield queue_calls.registered(namespace)

    def read(names: Sequence[str]) -> Steps[list[DependencyStats | UnreachableQueue]]:
        keys = [QueueKeys(namespace, name) for name in names]
        found: list[dict[int, Lane]] = yield Batch([calls.specials(one) for one in keys])
        stats: list[DependencyStats | UnreachableQueue] = []
        for one, lanes in zip(keys, found, strict=True):
            if lanes:
                now, _ = yield queue_calls.stats(one, one.family)
                stats += yield from of_lanes(one, lanes, now)
        return stats

    return (yield from each_queue(families, read)) if families else []


def of_lanes(keys: QueueKeys, lanes: Mapping[int, Lane], now: int) -> Steps[list[DependencyStats]]:
    """The dependencies among the lanes with a special state."""
    known = {number: lane for number, lane in lanes.items() if lane.of == "dependency"}
    counts: list[int] = (yield Batch([calls.blocked(keys, number) for number in known])) if known else []
    return [
        _stats(keys.family, lane.name, lane, waiting, now)
        for lane, waiting in zip(known.values(), counts, strict=True)
    ]


def closed_lanes(keys: QueueKeys, lanes: Mapping[int, Lane], now: int) -> Steps[list[tuple[Of, str]]]:
    """The lanes with a special state that are closed: whether each is for a key, and why, in words."""
    dependencies = yield from of_lanes(keys, lanes, now)
    paused = [lane for lane in lanes.values() if lane.of == "key" and lane.is_paused(now)]
    return [
        *(("dependency", f"{one.dependency}: {in_words(one)}") for one in dependencies if one.open),
        *(("key", f"key {lane.name}: paused {_end(lane.until)}") for lane in paused),
    ]


def in_words(found: DependencyStats) -> str:
    """Why messages wait for it; empty: they do not."""
    if not found.open or found.since is None:
        return ""
    if found.paused:
        return f"paused {_end(found.until)}, {found.waiting:,} wait"
    probe = "" if found.next_probe is None else f", next probe at {found.next_probe:%H:%M:%S} UTC"
    return f"open since {found.since:%H:%M:%S} UTC{probe}, {found.waiting:,} wait"


def _end(until: datetime | None) -> str:
    return "until it is resumed" if until is None else f"until {until:%H:%M:%S} UTC"


def paused_key(queue: QueueState[Any], key: str) -> Steps[str]:
    """Until when a key is paused, in words; empty: it is not."""
    lane: Lane | None = yield calls.special(queue.keys, lane_of(key))
    if lane is None or lane.paused is None:
        return ""
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    return _end(lane.until) if lane.is_paused(now) else ""


def _stats(family: str, name: str, lane: Lane | None, waiting: int, now: int) -> DependencyStats:
    if lane is None:
        return DependencyStats(name, family, waiting=waiting)
    paused = lane.is_paused(now)
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
        until=lane.until if paused else None,
        dead=tuple(lane.dead),
    )
