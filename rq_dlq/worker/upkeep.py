"""A worker's maintenance and schedules for its own queues."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from logging import WARNING
from typing import TYPE_CHECKING

from rq_dlq.client.tasks import Tasks
from rq_dlq.core.schedules import schedules
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.upkeep import ROLES, MaintenanceRole
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.errors import BrokerRefused, MissingRights, RqDlqError
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.doctor.vitals import Vitals

UPKEEP = 10.0  # the most seconds between two rounds of maintenance or two checks of schedules
REDRIVES = 1.0  # between two rounds while redrives are left to it, which have a rate or wait for their canary
A_FEW = 20  # round trips per round, since leases are not extended during it


class Upkeep:
    """Maintains the queues of these handlers, and fires their schedules when they are due.

    Args:
        vitals: it is told whether Redis answers.
    """

    def __init__(self, handlers: Sequence[Handler], vitals: Vitals) -> None:
        self._vitals = vitals
        self._undeclared = [
            (handler.queue._core, handler.function)
            for handler in handlers
            if isinstance(handler.function, Tasks)
        ]
        works = {handler.queue._core.keys: handler.queue._core for handler in handlers}
        roles: list[MaintenanceRole] = [role for role in ROLES if role != "schedules"]
        self._queues = [MaintainedQueue(keys, roles, work.policy) for keys, work in works.items()]
        self._kept_up = time.monotonic()
        self._redrives_until = 0.0  # until then there may be more to redrive
        self._fire_at = 0.0

    def declare(self, connections: Connections) -> None:
        """Write the schedules of the tasks. Refused writes, for example with full memory, are retried later.

        Raises:
            MissingRights, BrokerUnavailable: they cannot be written.
        """
        try:
            connections.run(self._declare())
        except MissingRights:
            raise
        except BrokerRefused as error:
            what = "cannot write the schedules of the tasks"
            self._vitals.note_failure(what, error, logger, WARNING, "schedules")

    def _declare(self) -> Steps[None]:
        while self._undeclared:
            queue, tasks = self._undeclared[0]
            yield from schedules.declare(queue, tasks.schedules())
            del self._undeclared[0]

    def look(self, connections: Connections) -> None:
        """Do the work that is due."""
        now = time.monotonic()
        if now - self._kept_up > (REDRIVES if now < self._redrives_until else UPKEEP):
            self._kept_up = now
            self._keep_up(connections)
        if now > self._fire_at:
            self._fire_at = now + self._fire(connections)

    def _keep_up(self, connections: Connections) -> None:
        """Do some maintenance, since busy consumers do not claim, and claims do not check retention."""
        try:
            connections.run(self._maintain())
            self.declare(connections)
        except RqDlqError as error:
            self._vitals.note_failure("cannot maintain the queues", error, logger, WARNING, "maintenance")
        else:
            self._vitals.note_success("maintenance", logger)

    def _maintain(self) -> Steps[None]:
        due = yield from rounds.look(self._queues)
        if any(name == "redriven" for _, name in due.work):
            self._redrives_until = self._kept_up + UPKEEP
        yield from rounds.work_off(due.work, Counter(), enough=A_FEW)

    def _fire(self, connections: Connections) -> float:
        """Fire due schedules; returns how many seconds to wait afterwards."""
        try:
            soonest = connections.run(rounds.fire_due(self._queues))
        except RqDlqError as error:
            self._vitals.note_failure("cannot fire schedules", error, logger, WARNING, "schedules")
            return UPKEEP
        self._vitals.note_success("schedules", logger)
        return UPKEEP if soonest is None else min(UPKEEP, soonest / 1000)
