"""Restores exported dead letters as they were, each of them in one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.sending import calls
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.step import Steps, bounded

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.message import MessageRow

WHAT = "import dead letters into"


def restore(queue: QueueState[Any], rows: Iterable[MessageRow], by: str | None = None) -> Steps[list[str]]:
    """Put these back.

    Args:
        by: see `who`.

    Returns:
        The ids that the queue knew already: these messages are as they were.
    """
    act = yield from act_of("imported", by)
    yield from open_live(queue, WHAT)
    known: list[str] = []
    for chunk in bounded(rows, lambda row: len(row.record) + len(row.history)):
        known += yield from _put(queue, chunk, act)
    return known


def _put(queue: QueueState[Any], rows: Sequence[MessageRow], act: str) -> Steps[list[str]]:
    items = [cell for row in rows for cell in (row.id, row.record, row.state, row.history)]
    while True:
        known: list[int] | None = yield from senders.once(
            queue.client.senders, queue.keys, calls.restore, items=items, opening=queue.opening, act=act
        )
        if known is not None:
            return [rows[n].id for n in known]
        yield from open_again(queue, WHAT)  # it was deleted
