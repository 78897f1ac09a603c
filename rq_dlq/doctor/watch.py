"""A look at the server now and then, for what can change while queues are worked on."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check, of_all
from rq_dlq.doctor.examine import changing
from rq_dlq.doctor.facts import read_facts
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.settings import BrokerSettings

logger = logging.getLogger("rq_dlq.doctor")


class Watch:
    """Says once what turned bad, again when it has changed, and once when it is well again.

    Args:
        settings: what the server is held to.
        period: between two looks.

    Raises:
        InvalidDuration: the period makes no sense.
    """

    def __init__(self, settings: BrokerSettings, period: Duration) -> None:
        self._settings = settings
        self._period = milliseconds(period, name="checkup", minimum=10) / 1000
        self._looked = float("-inf")
        self._bad: dict[str, Check] = {}

    def look(self, connections: Connections) -> None:
        """Look, if it is time."""
        if time.monotonic() - self._looked < self._period:
            return
        self._looked = time.monotonic()
        fsync = self._settings.durability == "fsync"
        try:
            by_node = connections.everywhere(partial(read_facts, with_config=fsync))
        except RqDlqError as error:  # who works on queues notices, too, and says so
            logger.debug("cannot look at the server: %s", error)
            return
        settings = self._settings
        checks = of_all({node: [*changing(facts, settings)] for node, facts in by_node.items()})
        self._note({check.name: check for check in checks if check.state == "fail"})

    def _note(self, bad: dict[str, Check]) -> None:
        for name, check in bad.items():
            if check != self._bad.get(name):
                logger.error("%s: %s (%s)", name, check.found, check.advice)
        for name in self._bad.keys() - bad.keys():
            logger.warning("%s: well again", name)
        self._bad = bad
