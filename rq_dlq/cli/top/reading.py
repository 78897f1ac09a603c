"""Reads the queues again and again, in a thread: keys are answered while Redis is slow or away."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rq_dlq.cli._context import sentence
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.core.upkeep import processes
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.client.broker import Broker
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.process import ProcessReport

WINDOW = 60.0  # seconds over which rates are taken: those of two seconds jump


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of all queues.

    Attributes:
        where: the server and the namespace.
        workers: the worker processes.
        before: an earlier overview, from which rates are taken.
        gaps: what could not be read of a cluster, in lines.
        failure: why the last try to read failed; empty: it did not.
        away: seconds since a try succeeded.
    """

    where: str
    overview: Overview
    before: Overview
    workers: Sequence[ProcessReport] = ()
    gaps: Sequence[str] = ()
    failure: str = ""
    away: float = 0.0


class Reader:
    """Reads.

    Attributes:
        last: the last reading.
        broken: the error that ended the thread.
    """

    def __init__(self, broker: Broker, every: float) -> None:
        self._broker, self._every = broker, every
        first = broker.overview()
        self._known = deque([first])
        self._read_at = time.monotonic()
        where = f"{broker.url}  {broker.settings.namespace}"
        self.last = Reading(where, first, first, *self._workers(first))
        self.broken: BaseException | None = None

    def read(self) -> None:
        """Read once more; a failure is part of the reading."""
        try:
            overview = self._broker.overview(self._known[-1])
            workers, gaps = self._workers(overview)
        except RqDlqError as error:
            away = time.monotonic() - self._read_at
            self.last = replace(self.last, failure=sentence(error), away=away)
            return
        self._read_at = time.monotonic()
        while len(self._known) > 1 and (overview.at - self._known[1].at).total_seconds() >= WINDOW:
            self._known.popleft()
        self._known.append(overview)
        self.last = Reading(self.last.where, overview, self._known[0], workers, gaps)

    def _workers(self, overview: Overview) -> tuple[Sequence[ProcessReport], Sequence[str]]:
        """The worker processes, and what could not be read."""
        try:
            steps = driving.unrepeated(processes.workers(self._broker.settings.namespace))
            return self._broker._run(steps), overview.gaps
        except NodeUnavailable as error:
            return (), [*overview.gaps, f"the worker processes cannot be read: {error}"]

    def start(self, tell: Callable[[], None]) -> None:
        """Read at intervals until the process ends, and tell of each reading."""

        def loop() -> None:
            try:
                while True:
                    time.sleep(self._every)
                    self.read()
                    tell()
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self.broken = error
                tell()

        threading.Thread(target=loop, daemon=True, name="rq-dlq top").start()
