"""The last steps of a worker, and its summary.

A stop ends in time, whatever Redis does. 4 s after a stop began (`GRACE`) the worker gives up Redis. The
thread that cuts calls short sets this, since the worker's thread may wait for a reply just then. After that a
call that timed out is not repeated, and its consumer makes no further call. So a worker ends a timeout after
its calls or those 4 s, however many threads it has. But a timeout does not say that Redis is away: a firewall
may have forgotten a connection while a call ran. So at its very end the worker tries all that is left once
more, over new connections that wait a second at most, unless the first call gets no reply. A nack is not
tried again then: its message comes back when its lease ends. Meanwhile the worker's thread only extends the
leases of calls that still run, and reports.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.core.queues import counts as queues_counts
from rq_dlq.errors import RqDlqError
from rq_dlq.values.durations import human
from rq_dlq.values.readable import many
from rq_dlq.values.settlement import FAILED
from rq_dlq.worker.tally import Tally, logger

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.worker.consumer import Consumer
    from rq_dlq.worker.reporting import Reporting
    from rq_dlq.worker.stopping import Stop

LEVELS = {"ack": logging.ERROR, "settle": logging.ERROR, "release": logging.WARNING}

SAY_AFTER = 5.0  # seconds after the stop until the calls that it waits for are logged
SHOWN = 5  # how many of them are named
LATER = "they became ready after the last claim"
STOPPED = "the worker was stopped"


class Awaited:
    """Logs once which calls a stop waits for."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._since: float | None = None  # monotonic seconds
        self._said = False

    def look(self, alive: Sequence[Consumer[Any]]) -> None:
        """Log them if the stop takes long."""
        if self._said or not self._stop.finishing.is_set():
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        running = [one.called(each) for one in alive for each in one.running if one.runs(each)]
        if running and now - self._since > SAY_AFTER:
            self._said = True
            shown = ", ".join(running[:SHOWN]) + (", …" if len(running) > SHOWN else "")
            line = "waiting for %s, which a second signal cancels: %s"
            logger.info(line, many(len(running), "call"), shown)


def leave(
    consumers: Sequence[Consumer[Any]],
    alive: Sequence[Consumer[Any]],
    tending: Connections,
    reporting: Reporting,
    *,
    given_up: bool,
) -> None:
    """Remove the report, settle the remaining messages, and log those that could not be settled.

    Args:
        alive: the consumers that have not ended, since their calls cannot be interrupted.
    """
    if alive:
        logger.warning("%d consumers did not end: their messages are released", len(alive))
    last = tending.in_haste() if given_up else tending
    names = {consumer.queue.name for consumer in consumers}
    silent = set[str]() if reporting.leave(last) else names
    left = {verb: Counter[str]() for verb in LEVELS}
    for consumer in consumers:
        name = consumer.queue.name
        if name in silent or not consumer.settle_left(last):
            silent.add(name)
            for verb, count in consumer.left.items():
                left[verb][name] += count
    for verb, level in LEVELS.items():
        for name, count in (+left[verb]).items():
            line = "%s: cannot %s %s: redelivered after the lease"
            logger.log(level, line, name, verb, many(count, "message"))
    if given_up:
        last.close()


def sum_up(
    handlers: Sequence[tuple[Handler, int]],
    tally: Tally,
    why: Mapping[str, str],
    connections: Connections,
    *,
    stopped: bool,
) -> None:
    """Log the counts of this worker, and the messages left in the queues.

    Args:
        why: why ready messages are left, by queue.
        stopped: it did not end on its own.
    """
    counts, usual = tally.counts, STOPPED if stopped else LATER
    failed = sum(counts[outcome] for outcome in FAILED)
    done = f"{counts['acked']:,} done, {failed:,} failed, {counts['dead']:,} dead"
    with suppress(RqDlqError):
        stats = [connections.run(queues_counts.stats(handler.queue._core)) for handler, _ in handlers]
        left = "; ".join(
            f"{one.name}: {text}" for one in stats if (text := _left(one, why.get(one.name, usual)))
        )
        level = logging.WARNING if left else logging.INFO
        begin = "ready messages are left" if any(one.ready for one in stats) else "no message is ready"
        logger.log(level, "%s: %s; left: %s", begin, done, left or "nothing")


def _left(stats: QueueStats, why: str) -> str:
    """The messages that remain to be delivered, as text; empty: there are none."""
    parts = [f"{stats.ready:,} ready ({why})"] if stats.ready else []
    parts += [f"{stats.leased:,} leased"] if stats.leased else []
    if later := stats.scheduled - stats.blocked:
        parts.append(f"{later:,} scheduled, the next in {human(round(1000 * (stats.next_due or 0)))}")
    parts += [f"{stats.blocked:,} blocked"] if stats.blocked else []
    return ", ".join(parts)
