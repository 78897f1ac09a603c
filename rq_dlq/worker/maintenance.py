"""The maintenance process: redelivery, expiry and retention for all queues of a namespace.

Workers and claiming clients also do this (I15); a separate process does it promptly, even without claims. Any
number of them may run, and may be killed at any time: each step is one atomic call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from rq_dlq import doctor
from rq_dlq._redis import FAIL_FAST, libraries
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.rounds import MaintainedNamespace
from rq_dlq.core.upkeep.upkeep import ROLES, MaintenanceRole
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.durations import Duration, human, milliseconds, shown
from rq_dlq.values.readable import many, upkeep
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.reporting import reporter_of
from rq_dlq.worker.stopping import TICK, Stop, heeding_signals

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.broker import Broker

__all__ = ["ROLES", "Maintenance", "MaintenanceRole"]

logger = logging.getLogger("rq_dlq.maintenance")
SHORTEST_PAUSE = 0.1  # the shortest pause between two complete rounds, as a fraction of the period
REPORT_WORK, REPORT_LIFE = 10.0, 60.0  # seconds between two lines of figures, with and without work


class Maintenance:
    """Maintains all queues of a broker's namespace until it is stopped.

    Args:
        roles: some of `ROLES`. "redelivery" redelivers messages with expired leases, makes due messages ready
            and carries the ends of gathers. "expiry" moves messages whose time to live has expired.
            "retention" drops dead and expired messages after their retention. "commits" moves messages of
            committed jobs into their queues. "schedules" sends the messages of schedules. "redrives"
            continues redrives that no process runs.
        period: the time between two checks of the queues, and so the longest delay; 10 ms or more.
        checkup: the time between two checks of the server; failures are logged as errors and warnings as
            warnings, each once.

    Attributes:
        vitals: whether it is alive and ready, for probes in other threads.

    Raises:
        InvalidInput: a role is unknown, or none is given.
        InvalidDuration: a period is not valid.
    """

    def __init__(
        self,
        broker: Broker,
        roles: Iterable[str] = ROLES,
        period: Duration = "1s",
        *,
        checkup: Duration = "30s",
    ) -> None:
        self._broker = broker
        self._period = milliseconds(period, name="period", minimum=10) / 1000
        self._watch = MaintainedNamespace(broker.settings.namespace, roles_of(roles))
        self._reporter = reporter_of(broker.settings, self._period, self._watch.roles)
        self._longest = 0  # the longest round, milliseconds
        self._doctor = doctor.Watch(broker.settings, checkup, private=broker._known_url is None)
        self._stop = Stop()
        self.vitals = Vitals(self._stop.finishing.is_set)
        self._reported, self._told = float("-inf"), 0  # the time of the last figures, and their total

    def stop(self) -> None:
        """Make `run` return after its current step; from any thread."""
        self._stop.finishing.set()

    def run(self) -> None:
        """Maintain the queues until `stop`, SIGTERM or SIGINT. It waits while Redis cannot be reached."""
        roles, every = ", ".join(self._watch.roles), human(round(self._period * 1000))
        namespace, url = self._watch.namespace, self._broker.url
        logger.info("maintaining the queues of %s at %s: %s, every %s", namespace, url, roles, every)
        connections: Connections | None = None
        self.vitals.begin()
        with heeding_signals(self._stop, logger):
            while not self._stopped():
                try:
                    connections = connections or self._connect()
                    self._doctor.look(connections)
                    pause = self._round(connections)
                except RqDlqError as error:
                    self.vitals.note_redis(str(error), logger)
                    pause = RETRY_AFTER
                else:
                    self.vitals.note_redis("", logger)
                    self._report()
                self._sleep(pause)
            self.vitals.end()
            if connections is not None:
                self._leave(connections)
        logger.info("stopped: %s", self._figures())

    def _connect(self) -> Connections:
        """Open connections, and load the library for those who may only call it."""
        connections = self._broker._connect(FAIL_FAST)
        with suppress(RqDlqError):  # then a caller loads it, or runs a script
            connections.everywhere(lambda: libraries.load(connections.verbs.library))
        return connections

    def _stopped(self) -> bool:
        """Whether to stop. It is called between any two steps, so it also notes that the process is alive."""
        self.vitals.turn("maintenance")
        return self._stop.finishing.is_set()

    def _round(self, connections: Connections) -> float:
        """Do one round; returns how many seconds to sleep afterwards."""
        began = time.monotonic()
        note = self._reporter.note(self._watch.namespace, longest=self._longest, **self._watch.done)
        try:
            connections.run(driving.unrepeated(note))
        except NodeUnavailable as error:  # the queues may be on other nodes
            logger.debug("cannot report: %s", error)
        soonest = connections.run(rounds.one_round(self._watch, self._stopped))
        took = time.monotonic() - began
        self._longest = max(self._longest, round(took * 1000))
        if soonest == 0:
            return 0.0
        left = self._period - took
        if soonest is not None:
            left = min(left, soonest / 1000)
        return max(left, self._period * SHORTEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        """Sleep, at most until the stop, and keep noting that the process is alive."""
        end = time.monotonic() + seconds
        while not self._stopped() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, TICK))

    def _leave(self, connections: Connections) -> None:
        try:
            connections.run(driving.unrepeated(self._reporter.leave(self._watch.namespace)))
        except RqDlqError as error:
            logger.warning("cannot unregister this process: %s", error)
        connections.close()

    def _report(self) -> None:
        """Log the figures, more often if there was work."""
        now, done = time.monotonic(), self._watch.done.total()
        if now - self._reported > (REPORT_LIFE if done == self._told else REPORT_WORK):
            self._reported, self._told = now, done
            logger.info("%s", self._figures())

    def _figures(self) -> str:
        queues = many(len(self._watch.queues), "queue")
        return f"{upkeep(self._watch.done)}; {queues}, longest round {self._longest} ms"


def roles_of(names: Iterable[str]) -> list[MaintenanceRole]:
    """These roles without repetitions, in the order of `ROLES`.

    Raises:
        InvalidInput: a role is unknown, or none is given.
    """
    given = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in given if name not in ROLES]
    if unknown or not given:
        wrong = f"there is no role {shown(unknown[0])}" if unknown else "no role is given"
        raise InvalidInput(f"{wrong}: choose from {', '.join(ROLES)}")
    return [role for role in ROLES if role in given]
