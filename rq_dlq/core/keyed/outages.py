"""The dependencies of a queue; `core/settling/outages` tells what counts, `policy/outage` has simulations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import calls
from rq_dlq.core.keyed.behind import with_behind
from rq_dlq.core.keyed.calls import LaneState
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import UnreachableQueue, each_queue
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.queues.who import name_of
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.dependency import DependencyStats, Hanging
from rq_dlq.values.failure import Cause, moment
from rq_dlq.values.key import lane_of, packed
from rq_dlq.values.readable import paused_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.values.dependency import Condition


def of_dependency(queue: QueueState[Any], name: str) -> Steps[DependencyStats]:
    """The state of a dependency; see `read`."""
    return (yield from read(queue, name))[1]


def read(queue: QueueState[Any], name: str) -> Steps[tuple[datetime, DependencyStats]]:
    """When the state of a dependency was read, and the state.

    Raises:
        InvalidMessage: this cannot be a dependency.
        InvalidInput: the queue is a dead-letter or expiry queue.
    """
    packed(name, "dependency")
    return behind(queue, lambda _: _read(queue, name))


def _read(queue: QueueName, name: str) -> Steps[tuple[datetime, DependencyStats]]:
    only_live(queue, "look for dependencies of")
    number = lane_of(name, "dependency")
    lane: LaneState | None
    lane, (now, counts) = yield Pipeline(
        [calls.special(queue.keys, number), queue_calls.stats(queue.keys, queue.name)]
    )
    (found,) = yield from _of(queue.keys, {number: lane or LaneState("dependency", name)}, now)
    return moment(now), (yield from with_behind(queue.keys, [found], counts.blocked))[0]


def of_queue(keys: QueueKeys) -> Steps[tuple[datetime, list[DependencyStats]]]:
    """The dependencies in a queue that are not simply up, and when they were read."""
    lanes = yield calls.specials(keys)
    now, counts = yield queue_calls.stats(keys, keys.family)
    found = yield from of_lanes(keys, lanes, now)
    return moment(now), (yield from with_behind(keys, found, counts.blocked))


def everywhere(namespace: str) -> Steps[list[DependencyStats | UnreachableQueue]]:
    """The dependencies in all queues that are open, paused or draining."""
    families: list[str] = yield queue_calls.registered(namespace)

    def read(names: Sequence[str]) -> Steps[list[DependencyStats | UnreachableQueue]]:
        keys = [QueueKeys(namespace, name) for name in names]
        found: list[dict[int, LaneState]] = yield Pipeline([calls.specials(one) for one in keys])
        stats: list[DependencyStats | UnreachableQueue] = []
        for one, lanes in zip(keys, found, strict=True):
            if lanes:
                now, counts = yield queue_calls.stats(one, one.family)
                stats += yield from with_behind(one, (yield from of_lanes(one, lanes, now)), counts.blocked)
        return stats

    return (yield from each_queue(families, read)) if families else []


def of_lanes(keys: QueueKeys, lanes: Mapping[int, LaneState], now: int) -> Steps[list[DependencyStats]]:
    """The dependencies among the lanes with a special state."""
    known = {number: lane for number, lane in lanes.items() if lane.of == "dependency"}
    return (yield from _of(keys, known, now)) if known else []


def _of(keys: QueueKeys, lanes: Mapping[int, LaneState], now: int) -> Steps[list[DependencyStats]]:
    reads = [
        read
        for number in lanes
        for read in (
            calls.blocked(keys, number), calls.passes(keys, number), calls.hanging(keys, number),
            calls.oldest(keys, number, tried=False), calls.oldest(keys, number, tried=True),
        )
    ]  # fmt: skip
    replies: list[Any] = yield Pipeline(reads)
    found: list[DependencyStats] = []
    for n, lane in enumerate(lanes.values()):
        waiting, out, hanging, *births = replies[5 * n : 5 * n + 5]
        told = _stats(keys.family, lane, waiting, now, is_tested=out > 0)
        sent = [birth for birth in births if birth is not None]
        oldest = max(0.0, (now - min(sent)) / 1000) if sent else None
        hangs = (yield from _hangs(keys, hanging, lane.hung or now)) if hanging else ()
        found.append(replace(told, oldest=oldest, hangs=hangs))
    return found


def _hangs(keys: QueueKeys, ids: Sequence[str], since: int) -> Steps[tuple[Hanging, ...]]:
    """Who holds these messages."""
    page: Page = yield page_calls.browse(keys, ids=ids)
    held = {row.id: token for row in page.rows() if (token := calls.token_of(row))}
    names: list[str] = (
        (yield Pipeline([calls.consumer(keys, token) for token in held.values()])) if held else []
    )
    return tuple(Hanging(one, name_of(by), moment(since)) for one, by in zip(held, names, strict=True))


def paused_keys(queue: QueueName, now: int) -> Steps[list[str]]:
    """The keys that are paused, and until when, in words."""
    lanes: dict[int, LaneState] = yield calls.specials(queue.keys)
    keys = [lane for lane in lanes.values() if lane.of == "key" and lane.is_paused(now)]
    return [f"key {lane.name}: {paused_until(lane.until, moment(now))}" for lane in keys]


def paused_key(queue: QueueName, key: str) -> Steps[str]:
    """That a key is paused, and until when, in words; empty: it is not."""
    lane: LaneState | None = yield calls.special(queue.keys, lane_of(key))
    if lane is None or lane.paused is None:
        return ""
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    return paused_until(lane.until, moment(now)) if lane.is_paused(now) else ""


def _stats(family: str, lane: LaneState, waiting: int, now: int, *, is_tested: bool) -> DependencyStats:
    paused = lane.is_paused(now)
    begins = [at for at in (lane.open, lane.paused if paused else None) if at is not None]
    probe = (lane.probe or lane.due) if lane.open is not None and not paused else None
    return DependencyStats(
        lane.name,
        family,
        open=bool(begins),
        condition=_condition(lane, now, is_tested=is_tested),
        since=moment(min(begins)) if begins else None,
        waiting=waiting,
        next_probe=None if probe is None else moment(probe),
        paused=paused,
        until=lane.until if paused else None,
        dead=tuple(lane.dead),
        died=lane.died or len(lane.dead),
        error=_text_of(lane.error),
        ended=None if lane.drains is None else moment(lane.drains),
        charged_until=moment(lane.trusts) if lane.trusts is not None and lane.trusts > now else None,
    )


def _text_of(error: str) -> str:
    """The error, which is stored like one in a history."""
    try:
        return str(msgspec.json.decode(error, type=Cause)) if error else ""
    except NO_JSON:
        return ""


def _condition(lane: LaneState, now: int, *, is_tested: bool) -> Condition:
    if lane.is_paused(now):
        return "paused"
    if lane.open is not None:
        return "testing" if is_tested else "down"
    return "up" if lane.drains is None else "coming back"
