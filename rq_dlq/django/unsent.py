"""The messages that were not sent after their commit: logged, counted, and told to `rq-dlq doctor`."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from rq_dlq.client.settings import process_name
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.values.process import ProcessReport
from rq_dlq.values.readable import many, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    import rq_dlq

logger = logging.getLogger("rq_dlq.django")
PERIOD = 8 * 3_600_000  # milliseconds; a report is forgotten after three of them, a day
NAMED = 5  # ids that a line of the log names


class UnsentCount:
    """Counts them in this process; Redis is told at the next send after a commit that it answers.

    Attributes:
        count: so many so far.
    """

    def __init__(self, broker: rq_dlq.Broker) -> None:
        self.count = self._told = 0
        self._broker = broker
        self._reporter = Reporter(ProcessReport(process=process_name(), period=PERIOD))

    def note(self, queue: str, ids: Sequence[str], error: RqDlqError | None) -> None:
        """Note the end of a send after a commit; `error` is None if it succeeded."""
        if error is not None:
            self.count += len(ids)
            what = many(len(ids), "message was", "messages were")
            logger.error("%s: %s not sent after the commit: %s (%s)", queue, what, some(ids, NAMED), error)
        if self.count != self._told and not isinstance(error, BrokerUnavailable):
            with suppress(RqDlqError):  # the log has it
                self._broker._run(self._reporter.note(self._broker.settings.namespace, unsent=self.count))
                self._told = self.count
