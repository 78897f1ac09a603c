"""Reads the queues periodically in a thread, so that keys work while Redis is slow or down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rq_dlq.cli._context import sentence
from rq_dlq.core.looking.monitor import Monitor, Rates
from rq_dlq.core.processes import processes
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.client.broker import Broker
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.process import ProcessReport


@dataclass(frozen=True, slots=True)
class TopReading:
    """A reading of all queues.

    Attributes:
        where: the server and the namespace.
        rates: the rates of each queue, by name.
        seconds: the period of the rates; 0: the next reading has the first rates.
        workers: the worker processes.
        gaps: the unreadable parts of a cluster, one per line.
        failure: why the last reading failed; empty: it succeeded.
        away: seconds since the last successful reading.
    """

    where: str
    overview: Overview
    rates: Mapping[str, Rates]
    seconds: float
    workers: Sequence[ProcessReport] = ()
    gaps: Sequence[str] = ()
    failure: str = ""
    away: float = 0.0


class TopReader:
    """Reads the queues.

    Attributes:
        last: the last reading.
        broken: the error that ended the thread.
    """

    def __init__(self, broker: Broker, every: float) -> None:
        self._broker, self._every = broker, every
        self._monitor = Monitor()
        self._read_at = 0.0
        self.last = self._read()
        self.broken: BaseException | None = None

    def read(self) -> None:
        """Read once more; `last` records a failure."""
        try:
            self.last = self._read()
        except RqDlqError as error:
            self._monitor.fail(error)
            away = time.monotonic() - self._read_at
            self.last = replace(self.last, failure=sentence(error), away=away)

    def _read(self) -> TopReading:
        began, seen = time.monotonic(), self._monitor
        overview = self._broker.overview(seen.overview)
        workers, gaps = self._workers(overview)
        self._read_at = time.monotonic()
        seen.add(overview, self._read_at - began)
        rates = {queue.name: seen.rates(queue.name) for queue in overview.queues}
        where = f"{self._broker.url}  {self._broker.settings.namespace}"
        return TopReading(where, overview, rates, seen.seconds, workers, gaps)

    def _workers(self, overview: Overview) -> tuple[Sequence[ProcessReport], Sequence[str]]:
        """The worker processes, and the parts that could not be read."""
        try:
            steps = driving.unrepeated(processes.workers(self._broker.settings.namespace))
            return self._broker._run(steps), overview.gaps
        except NodeUnavailable as error:
            return (), [*overview.gaps, f"the worker processes cannot be read: {error}"]

    def start(self, tell: Callable[[], None]) -> None:
        """Read at intervals until the process ends, and announce each reading."""

        def loop() -> None:
            try:
                while True:
                    time.sleep(self._monitor.pause(self._every))
                    self.read()
                    tell()
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self.broken = error
                tell()

        threading.Thread(target=loop, daemon=True, name="rq-dlq top").start()
