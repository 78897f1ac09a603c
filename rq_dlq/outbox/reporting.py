"""What a relay reports to Redis, for metrics and the doctor."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from rq_dlq.client.settings import process_name
from rq_dlq.core.processes.processes import OUTBOX, OUTBOX_EVERY, Reporter
from rq_dlq.core.steps import driving
from rq_dlq.errors import RqDlqError
from rq_dlq.values.process import OutboxReport, ProcessReport
from rq_dlq.values.readable import many, span
from rq_dlq.values.version import __version__

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.outbox.ledger import Ledger

logger = logging.getLogger("rq_dlq.outbox")
PERIOD = 5.0  # seconds between two reports


class OutboxReporting:
    """Stores a report of the outbox every few seconds.

    It stays after the end of the relay, for a day: the doctor then says that no relay sends what waits.
    """

    def __init__(self, name: str, settings: BrokerSettings) -> None:
        self._namespace = settings.namespace
        report = ProcessReport(
            process=process_name(),
            period=OUTBOX_EVERY,
            version=settings.version,
            rq_dlq_version=__version__,
            outbox=OutboxReport(name),
        )
        self._reporter = Reporter(report)
        self._reporter.key = f"{OUTBOX}{name}"
        self._name = name
        self._due = 0.0

    def report(self, ledger: Ledger, connections: Connections, sent: int) -> None:
        """Store the report if it is time; a failure stops nothing."""
        if time.monotonic() < self._due:
            return
        behind = ledger.behind()
        if behind.oldest > PERIOD:
            logger.info("%s wait, the oldest for %s", many(behind.rows, "row"), span(behind.oldest))
        self._store(connections, outbox=OutboxReport(self._name, behind.rows, behind.oldest), done=sent)
        self._due = time.monotonic() + PERIOD

    def leave(self, connections: Connections) -> None:
        """Note that the relay has ended."""
        self._store(connections, stopping=True)

    def _store(self, connections: Connections, **news: object) -> None:
        try:
            connections.run(driving.unrepeated(self._reporter.note(self._namespace, **news)))
        except RqDlqError as error:
            logger.debug("cannot report: %s", error)
