"""The maintenance process: redelivery, the expiry reaper and retention, for all queues of a namespace.

Workers and claiming clients do the same on their way (I15); a process of its own makes it prompt, also where
nobody claims. Any number of them may run, and be killed at any time: each step is one atomic script.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from rq_dlq import _work, doctor
from rq_dlq._redis import FAIL_FAST
from rq_dlq._work import ROLES, Role
from rq_dlq.consumer import RETRY_AFTER
from rq_dlq.durations import Duration, human, milliseconds, shown
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.stopping import TICK, Stop, heeding_signals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq._redis import Connections
    from rq_dlq.broker import Broker

__all__ = ["ROLES", "Maintenance", "Role"]

logger = logging.getLogger("rq_dlq.maintenance")
SHORTEST_PAUSE = 0.1  # of a period, between two rounds that have done all there was
REPORT_WORK, REPORT_LIFE = 10.0, 60.0  # seconds between two lines of figures, with and without work done


class Maintenance:
    """Maintains all queues of a broker's namespace until it is told to stop.

    Args:
        roles: what it does, of `ROLES`: "redelivery" brings back what lapsed leases held and makes what is
            due ready, "expiry" moves messages whose time to live is over, "retention" drops what was kept
            among the dead letters and the expired messages for as long as it was to be, "commits" makes
            visible what a job has committed and did not live to move into its queue.
        period: how late it may be at most: between two looks at the queues, 10 ms or more.
        checkup: between two looks at the server: what fails there is logged as an error, what is to be minded
            as a warning, each once.

    Raises:
        InvalidInput: an unknown role, or none.
        InvalidDuration: a period makes no sense.
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
        self._watch = _work.Watch(broker.settings.namespace, roles_of(roles))
        self._health = _work.Health(
            f"{socket.gethostname()}:{os.getpid()}",
            self._watch.roles,
            round(self._period * 1000),
            self._watch.done,
        )
        self._doctor = doctor.Watch(broker.settings, checkup)
        self._stop = Stop()
        self._trouble = ""  # what was said of Redis last
        self._reported, self._told = float("-inf"), 0  # when figures were logged, and of how many messages

    def stop(self) -> None:
        """Have `run` end after the step it is at; from any thread."""
        self._stop.finishing.set()

    def run(self) -> None:
        """Maintain the queues until `stop`, SIGTERM or SIGINT. While Redis is away it waits."""
        roles, every = ", ".join(self._watch.roles), human(round(self._period * 1000))
        namespace, url = self._watch.namespace, self._broker.url
        logger.info("maintaining the queues of %s at %s: %s, every %s", namespace, url, roles, every)
        connections: Connections | None = None
        with heeding_signals(self._stop, logger):
            while not self._stop.finishing.is_set():
                try:
                    connections = connections or self._broker.connect(FAIL_FAST)
                    self._doctor.look(connections)
                    pause = self._round(connections)
                except RqDlqError as error:
                    self._note_trouble(str(error))
                    pause = RETRY_AFTER
                else:
                    self._note_trouble("")
                    self._report()
                self._sleep(pause)
            if connections is not None:
                self._leave(connections)
        logger.info("stopped: %s", self._figures())

    def _round(self, connections: Connections) -> float:
        """One round; for how many seconds to sleep then."""
        began = time.monotonic()
        connections.run(self._health.note(self._watch.namespace))
        soonest = connections.run(_work.one_round(self._watch, self._stop.finishing.is_set))
        took = time.monotonic() - began
        self._health.longest = max(self._health.longest, round(took * 1000))
        if soonest == 0:
            return 0.0
        left = self._period - took
        if soonest is not None:
            left = min(left, soonest / 1000)
        return max(left, self._period * SHORTEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        """Sleep, or less: a signal's handler sets the stop, which must not happen inside its own `wait`."""
        end = time.monotonic() + seconds
        while not self._stop.finishing.is_set() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, TICK))

    def _leave(self, connections: Connections) -> None:
        try:
            connections.run(self._health.leave(self._watch.namespace))
        except RqDlqError as error:
            logger.warning("cannot sign off: %s", error)
        connections.close()

    def _note_trouble(self, trouble: str) -> None:
        """Say once that it began, and once that it is over."""
        if trouble and not self._trouble:
            logger.warning("waiting for Redis: %s", trouble)
        elif self._trouble and not trouble:
            logger.info("Redis is back")
        self._trouble = trouble

    def _report(self) -> None:
        """Log the figures: where something was done soon, else now and then."""
        now, done = time.monotonic(), self._watch.done.total()
        if now - self._reported > (REPORT_LIFE if done == self._told else REPORT_WORK):
            self._reported, self._told = now, done
            logger.info("%s", self._figures())

    def _figures(self) -> str:
        names = (name for role in self._watch.roles for name in _work.DONE[role])
        figures = ", ".join(f"{self._watch.done[name]:,} {name}" for name in names)
        queues, longest = len(self._watch.queues), self._health.longest
        return f"{figures} in {queues:,} queue{'' if queues == 1 else 's'}; longest round {longest} ms"


def roles_of(names: Iterable[str]) -> list[Role]:
    """These roles, each once.

    Raises:
        InvalidInput: an unknown one, or none.
    """
    given = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in given if name not in ROLES]
    if unknown or not given:
        wrong = f"there is no role {shown(unknown[0])}" if unknown else "no role is given"
        message = f"{wrong}: choose of {', '.join(ROLES)}"
        raise InvalidInput(message)
    return [role for role in ROLES if role in given]
