"""Metrics for Prometheus; the extra `metrics`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rq_dlq._redis import FAIL_FAST
from rq_dlq.client.broker import Broker
from rq_dlq.core.looking.overview import Overview
from rq_dlq.core.processes import processes
from rq_dlq.core.steps import driving
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import RqDlqError
from rq_dlq.telemetry._queues import MetricsReading, families
from rq_dlq.telemetry.health import Answer
from rq_dlq.values.failure import moment
from rq_dlq.values.observer import Observer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from prometheus_client.metrics_core import Metric

    from rq_dlq import asyncio
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.observer import Settled
    from rq_dlq.values.process import ProcessReport

logger = logging.getLogger("rq_dlq.metrics")
MAX_AGE = 1.0  # seconds for which a reading is reused
READ_WITHIN = 5.0  # seconds; Prometheus gives a scrape ten
HANDLING = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)  # seconds
TIME_IN_QUEUE = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800, 3_600, 14_400, 86_400)
NOTHING = MetricsReading(Overview(moment(0), []), [], 0.0)


class QueueCollector(Collector):
    """All queues of a broker, for a registry: `prometheus_client.REGISTRY.register(QueueCollector(broker))`.

    A scrape reads Redis, at most once a second for all scrapers, and waits at most five seconds. If Redis
    cannot be read, the only metric is `rq_dlq_up 0`. docs/metrics.md lists all metrics.

    Args:
        broker: a blocking or an async broker.
    """

    def __init__(self, broker: Broker | asyncio.Broker) -> None:
        self._broker = broker if isinstance(broker, Broker) else broker._twin(Broker, FAIL_FAST)
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None
        self._last: MetricsReading | None = None
        self._overview: Overview | None = None
        self._ended = float("-inf")  # when the last reading ended, monotonic seconds
        self._trouble = ""  # the last logged failure

    def describe(self) -> Iterator[Metric]:
        """The families without values, so that registering the collector does not read Redis."""
        yield _up(None)
        yield from families(NOTHING)

    def collect(self) -> Iterator[Metric]:
        """The metrics for Prometheus."""
        reading = self._reading()
        yield _up(reading)
        if reading is not None:
            yield from families(reading)

    def read(self) -> MetricsReading:
        """Read Redis now; a scrape soon after reuses this reading.

        Raises:
            RqDlqError: it cannot be read.
        """
        began = time.monotonic()
        self._last = None
        try:
            self._overview = self._broker.overview(self._overview)
            self._last = MetricsReading(self._overview, self._processes(), time.monotonic() - began)
        finally:
            self._ended = time.monotonic()
        return self._last

    def _processes(self) -> list[ProcessReport] | None:
        try:
            return self._broker._run(driving.unrepeated(processes.reported(self._broker.settings.namespace)))
        except NodeUnavailable:  # other nodes have queues that were read
            return None

    def _reading(self) -> MetricsReading | None:
        """The last reading, or a new one if it is too old; None: Redis cannot be read.

        A thread reads, since an unresponsive Redis may block for longer than a scrape may take.
        """
        with self._lock:
            if self._reader is None or not self._reader.is_alive():
                if time.monotonic() - self._ended < MAX_AGE:
                    return self._last
                self._reader = threading.Thread(target=self._renew, name="rq-dlq metrics", daemon=True)
                self._reader.start()
            reader = self._reader
        reader.join(READ_WITHIN)
        if reader.is_alive():
            self._note(f"Redis was not read within {READ_WITHIN:g} s")
            return None
        return self._last

    def _renew(self) -> None:
        try:
            self.read()
        except RqDlqError as error:
            self._note(str(error))
        else:
            self._note("")

    def _note(self, trouble: str) -> None:
        """Log once when a failure begins, and once when it ends."""
        if bool(trouble) != bool(self._trouble):
            logger.warning("%s", f"no metrics: {trouble}" if trouble else "Redis can be read again")
        self._trouble = trouble


def exposition(registry: CollectorRegistry) -> Answer:
    """The page of a registry in the format of Prometheus."""
    encoder, content_type = choose_encoder("")
    return Answer(200, encoder(registry), content_type)


def _up(reading: MetricsReading | None) -> Metric:
    what = "1: Redis was read; 0: it could not be read, so there are no other metrics."
    return GaugeMetricFamily("rq_dlq_up", what, float(reading is not None))


class WorkerMetrics(Observer):
    """Metrics of the handlers of this process: `broker.observe(WorkerMetrics())` before its worker runs.

    `rq-dlq worker APP --health ADDRESS` does this automatically.

    Args:
        registry: by default the registry of prometheus_client, which may also have other metrics of the
            program.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        seconds = Histogram(
            "rq_dlq_handling_seconds",
            "How long handlers ran, by the outcome of the message.",
            ("queue", "outcome"),
            buckets=HANDLING,
            registry=registry,
        )
        waits = Histogram(
            "rq_dlq_time_in_queue_seconds",
            "How long due messages waited until a worker claimed them.",
            ("queue",),
            buckets=TIME_IN_QUEUE,
            registry=registry,
        )
        running = Gauge("rq_dlq_running_handlers", "Running handlers.", ("queue",), registry=registry)
        self._seconds, self._waits, self._running = (
            cache(seconds.labels),
            cache(waits.labels),
            cache(running.labels),
        )
        self._handled: WeakKeyDictionary[Leased[Any], _TimedCall] = WeakKeyDictionary()

    def handling(self, delivery: Leased[Any]) -> AbstractContextManager[object]:
        """A handler begins."""
        queue = delivery.queue
        self._waits(queue).observe(max(0, delivery._lease.began - delivery.due) / 1000)
        handling = self._handled[delivery] = _TimedCall(self._seconds, self._running(queue), queue)
        return handling

    def settled(self, settled: Settled) -> None:
        """A message was settled, by the worker after its handler or by the handler itself."""
        handling = self._handled.get(settled.delivery) if settled.delivery is not None else None
        if handling is not None:
            handling.settled(settled.outcome)


class _TimedCall:
    """One call of a handler. It is counted when it has ended and its message is settled."""

    __slots__ = ("_began", "_outcome", "_queue", "_running", "_seconds", "_took")

    def __init__(self, seconds: Callable[..., Histogram], running: Gauge, queue: str) -> None:
        self._seconds, self._running, self._queue = seconds, running, queue
        self._began = 0.0
        self._took: float | None = None
        self._outcome = ""

    def __enter__(self) -> Self:
        self._running.inc()
        self._began = time.monotonic()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._took = time.monotonic() - self._began
        self._running.dec()
        self._count()

    def settled(self, outcome: str) -> None:
        """Record the outcome of the message."""
        self._outcome = outcome
        self._count()

    def _count(self) -> None:
        if self._took is not None and self._outcome:
            self._seconds(self._queue, self._outcome).observe(self._took)
