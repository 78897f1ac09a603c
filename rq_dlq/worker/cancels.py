"""Reads notices of cancelled messages that this process holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rq_dlq.client.settings import process_name
from rq_dlq.core.cancelling import calls
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import RqDlqError
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.core.cancelling.calls import Notice
    from rq_dlq.core.steps.call import Command
    from rq_dlq.worker.consumer import Consumer

PERIOD = 0.5  # seconds between two polls


class Cancels:
    """Reads the notices for this process, and passes each on to its consumers, once.

    A notice stays for a minute: the claim of its message may still be in progress, and two containers may
    have the same name. A lost notice only costs time: the next lease extension shows the removal.
    """

    def __init__(self, namespace: str) -> None:
        self._notices: Command[list[Notice]] = calls.notices(namespace, process_name())
        self._due = 0.0
        self._passed_on: set[Notice] = set()  # the handled notices that still exist

    def look(self, consumers: Sequence[Consumer[Any]], connections: Connections) -> None:
        """Read new notices, if it is time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD
        try:
            notices = connections.run(driving.unrepeated(driving.as_it_is(self._notices)))
        except (RqDlqError, NodeUnavailable) as error:
            logger.debug("cannot read which messages were cancelled: %s", error)
            return
        self._passed_on.intersection_update(notices)
        for notice in {*notices} - self._passed_on:
            if any(one.cancel(notice.held) for one in consumers if one.queue.name == notice.queue):
                self._passed_on.add(notice)
