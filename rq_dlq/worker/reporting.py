"""The report of a worker process: its name, its queues, its messages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rq_dlq._scripts import JOINED
from rq_dlq.client.settings import process_name
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.core.queues.queue import taken_of
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import BrokerUnavailable, MissingRights, RqDlqError
from rq_dlq.values.process import ConsumerReport, ProcessReport
from rq_dlq.values.settlement import FAILED
from rq_dlq.values.version import __version__
from rq_dlq.worker.tally import Tally, logger

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.doctor.vitals import Vitals
    from rq_dlq.worker.consumer import Consumer

PERIOD = 5.0  # seconds


class Reporting:
    """Stores the report every few seconds, and removes it at the end.

    Args:
        consumers: the consumers of this process.
        vitals: it is told whether Redis answers.
    """

    def __init__(
        self, settings: BrokerSettings, consumers: Sequence[Consumer[Any]], tally: Tally, vitals: Vitals
    ) -> None:
        self._namespace = settings.namespace
        self._consumers, self._tally, self._vitals = consumers, tally, vitals
        self._reporter = reporter_of(settings, PERIOD)
        self._due = 0.0
        self._stopping = self._refused = False

    def report(self, connections: Connections, *, stopping: bool) -> None:
        """Store the report if it is time, or if the process has begun to stop.

        The rest of the worker's round does not wait for the node with the reports: a failed call is not
        repeated, since the next report follows soon.
        """
        now = time.monotonic()
        if now < self._due and stopping == self._stopping:
            return
        self._stopping = stopping
        counts = self._tally.counts
        news = {"done": counts["acked"], "failed": sum(counts[outcome] for outcome in FAILED)}
        trouble = ""
        try:
            note = self._reporter.note(self._namespace, queues=self._queues(now), stopping=stopping, **news)
            connections.run(driving.unrepeated(note))
        except MissingRights as error:
            if not self._refused:
                logger.warning("`rq-dlq worker ls` does not show this process: %s", error)
            self._refused = True
        except NodeUnavailable as error:  # the queues may be on other nodes
            logger.debug("cannot report: %s", error)
        except RqDlqError as error:
            trouble = str(error)
        self._vitals.note_redis(trouble, logger)  # the consumers wait without logging
        self._due = time.monotonic() + PERIOD  # from the end of this call, which may have been a timeout

    def leave(self, connections: Connections) -> bool:
        """Remove the report; False: Redis does not answer."""
        try:
            connections.run(driving.unrepeated(self._reporter.leave(self._namespace)))
        except RqDlqError as error:
            logger.debug("cannot remove the report: %s", error)
            return isinstance(error, NodeUnavailable) or not isinstance(error, BrokerUnavailable)
        return True

    def _queues(self, now: float) -> dict[str, ConsumerReport]:
        """The reports of the consumers, by queue."""
        found: dict[str, ConsumerReport] = {}
        for consumer in self._consumers:
            held, since = consumer.holds
            other = found.get(consumer.queue.name, ConsumerReport(0))
            ages = [age for age in (other.oldest, round(now - since, 3) if held else None) if age is not None]
            found[consumer.queue.name] = ConsumerReport(
                other.concurrency + consumer.concurrency,
                other.held + held,
                max(ages, default=None),
                taken_of(consumer.queue),
                tuple(sorted(consumer.queue.client.blocked.uncounted.get(consumer.queue.name, ()))),
            )
        return found


def reporter_of(settings: BrokerSettings, period: float, roles: Sequence[str] = ()) -> Reporter:
    """The reporter of this process.

    Args:
        period: seconds between two reports, at most.
        roles: the roles of a maintenance process.
    """
    return Reporter(
        ProcessReport(
            process=process_name(),
            period=round(period * 1000),
            version=settings.version,
            rq_dlq_version=__version__,
            roles=tuple(roles),
            library=JOINED.library.name,
        )
    )
