"""The counts of a queue, and of all queues."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.queues.each import AT_ONCE, UnreachableQueue, each_queue, lost_queue
from rq_dlq.core.queues.names import behind
from rq_dlq.core.steps.step import NodeUnavailable, Pipeline, Steps, chunks
from rq_dlq.values.counts import QueueStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueName, QueueState


def stats(queue: QueueState[Any]) -> Steps[QueueStats]:
    """The counts of the queue's family, and of other queues' dead letters under its name."""
    return behind(queue, partial(_stats, queue))


def _stats(queue: QueueName, shown: Sequence[QueueName]) -> Steps[QueueStats]:
    read: list[QueueStats] = []
    for part in chunks(shown, AT_ONCE):
        read += [counts for _, counts in (yield Pipeline([calls.stats(one.keys, one.name) for one in part]))]
    empty = QueueStats(queue.name, 0, 0, 0, 0, 0, None, None, {})
    own, *others = [empty, *read] if queue.view else read
    letters = list(zip(shown if queue.view else shown[1:], others, strict=True))
    dead = sum(counts.dead for member, counts in letters if member.part == "dead")
    expired = sum(counts.expired for member, counts in letters if member.part == "expired")
    return replace(own, dead=own.dead + dead, expired=own.expired + expired)


def is_drained(queue: QueueState[Any]) -> Steps[bool]:
    """Whether nothing is ready, scheduled or leased, so that a claim that got nothing was the last.

    A dead letter that fails stays where it is, so a claim of dead letters always is.
    """
    if queue.part != "live" or queue.view:
        return True
    counts = yield from stats(queue)
    return not (counts.waiting or counts.leased)


def counts(namespace: str) -> Steps[list[QueueStats | UnreachableQueue]]:
    """Read the counts of all queues, sorted by name."""

    def read(part: Sequence[str]) -> Steps[list[QueueStats | UnreachableQueue]]:
        replies = yield Pipeline([calls.stats(QueueKeys(namespace, name), name) for name in part], apart=True)
        return [
            lost_queue(name, reply) if isinstance(reply, NodeUnavailable) else reply[1]
            for name, reply in zip(part, replies, strict=True)
        ]

    return (yield from each_queue((yield calls.registered(namespace)), read))
