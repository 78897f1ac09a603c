"""The families of metrics that Redis answers: queues, dead letters, redrives, processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from rq_dlq.values.counts import DIED

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from rq_dlq.core.looking.overview import Overview, QueueOverview
    from rq_dlq.values.process import ProcessReport

LARGEST = 10  # groups of dead letters, of all queues together
STATES = ("ready", "scheduled", "leased", "dead", "expired")
GAUGES: dict[str, tuple[str, str, Callable[[QueueOverview], float]]] = {  # name: (what it is, unit, value)
    "rq_dlq_oldest_ready_age_seconds": (
        "How long the first ready message has waited since it was due; 0: none is ready.",
        "seconds",
        lambda queue: queue.stats.oldest or 0.0,
    ),
    "rq_dlq_overdue_seconds": (
        "For how long a message has been due, or its lease over, and nobody has moved it; 0: there is none.",
        "seconds",
        lambda queue: queue.stats.overdue,
    ),
    "rq_dlq_schedule_overdue_seconds": (
        "For how long a schedule should have sent, and nobody has sent its message; 0: none is late.",
        "seconds",
        lambda queue: queue.schedules_overdue,
    ),
    "rq_dlq_blocked": (
        "Messages that are due and wait for others of their key, or for what they need; among the scheduled.",
        "",
        lambda queue: float(queue.stats.blocked),
    ),
    "rq_dlq_queue_paused": (
        "1: the queue is paused, so no messages are delivered.",
        "",
        lambda queue: float(queue.stats.paused),
    ),
}
COUNTERS = {
    "sent": "Messages that were sent to the queue.",
    "acked": "Messages that were acked: they are done.",
    "nacked": "Deliveries that failed, and were judged by the redelivery policy.",
    "lapsed": "Deliveries whose lease ran out before they were settled.",
    "released": "Deliveries that were given back, and do not count as failures.",
    "passed_on": "Deliveries that were given back to rest for another version of the program.",
    "expired": "Messages whose time to live was over.",
    "redriven": "Dead letters and expired messages that were brought back.",
    "discarded": "Messages that were dropped, as the settings of the queue say.",
    "moved": "Messages that were moved to another queue.",
    "purged": "Messages that were removed by an operator.",
    "cancelled": "Messages that were cancelled.",
    "known": "Sends that added nothing, since a dead letter has the id.",
    "results_dropped": "Results that made room for others, or found none.",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from Redis.

    Attributes:
        processes: None: in a cluster, their node does not answer.
        seconds: that it took.
    """

    overview: Overview
    processes: Sequence[ProcessReport] | None
    seconds: float


def families(reading: Reading) -> Iterator[Metric]:
    """All families, with what was read. Processes that report no more may be dead, and do not count."""
    overview = reading.overview
    took = "How long it took to read these figures from Redis."
    yield GaugeMetricFamily("rq_dlq_read_duration_seconds", took, reading.seconds, unit="seconds")
    yield from _ups(overview, processes_up=reading.processes is not None)
    yield from _counts(overview.queues)
    yield from _groups(overview)
    yield from _redrives(overview)
    if reading.processes is not None:
        alive = [process for process in reading.processes if process.state != "silent"]
        names = [*overview.by_name, *(queue.name for queue in overview.unreachable)]
        yield from _workers(names, alive)
        yield from _maintenance([process for process in alive if process.roles])


def _ups(overview: Overview, *, processes_up: bool) -> Iterator[Metric]:
    """What could be read. What could not be read has no other figures, since nobody knows them."""
    what = "1: the queue was read; 0: it cannot be reached, and has no figures of its own."
    queues = GaugeMetricFamily("rq_dlq_queue_up", what, labels=("queue",))
    for queue in overview.queues:
        queues.add_metric((queue.name,), 1.0)
    for lost in overview.unreachable:
        queues.add_metric((lost.name,), 0.0)
    yield queues
    what = "1: the list was read; 0: its node of a cluster does not answer."
    lists = GaugeMetricFamily("rq_dlq_list_up", what, labels=("list",))
    lists.add_metric(("queues",), float(not overview.unlisted))
    lists.add_metric(("processes",), float(processes_up))
    yield lists


def _counts(seen: Sequence[QueueOverview]) -> Iterator[Metric]:
    queues = [queue.stats for queue in seen]
    messages = GaugeMetricFamily(
        "rq_dlq_messages", "Messages that are there now, by their state.", labels=("queue", "state")
    )
    for stats in queues:
        for state in STATES:
            messages.add_metric((stats.name, state), getattr(stats, state))
    yield messages
    for name, (what, unit, value) in GAUGES.items():
        gauge = GaugeMetricFamily(name, what, labels=("queue",), unit=unit)
        for queue in seen:
            gauge.add_metric((queue.name,), value(queue))
        yield gauge
    yield _breakers(seen)
    for event, what in COUNTERS.items():
        counter = CounterMetricFamily(f"rq_dlq_{event}", what, labels=("queue",))
        for stats in queues:
            counter.add_metric((stats.name,), stats.totals.get(event, 0))
        yield counter
    died = "Messages that died; `discarded` counts those of them that were not kept, too."
    deaths = CounterMetricFamily("rq_dlq_died", died, labels=("queue", "reason"))
    for stats in queues:
        for reason in DIED:
            deaths.add_metric((stats.name, reason), stats.totals.get(reason, 0))
    yield deaths


def _breakers(seen: Sequence[QueueOverview]) -> Metric:
    gauge = GaugeMetricFamily(
        "rq_dlq_breaker_open",
        "1: what messages need counts as down, so they wait; 0: it is up again, and they come back.",
        labels=("queue", "dependency"),
    )
    for queue in seen:
        for known in queue.dependencies:
            gauge.add_metric((queue.name, known.dependency), float(known.open and not known.paused))
    return gauge


def _groups(overview: Overview) -> Iterator[Metric]:
    """The largest groups: their number is bounded, and so are the labels, which have no text of an error."""
    muted = GaugeMetricFamily(
        "rq_dlq_dead_letter_group_muted",
        "1: this kind of failure is muted; of those in rq_dlq_dead_letter_group_messages.",
        labels=("queue", "fingerprint", "error_class"),
    )
    gauge = GaugeMetricFamily(
        "rq_dlq_dead_letter_group_messages",
        f"Dead letters of one kind of failure, of the {LARGEST} largest kinds of all queues.",
        labels=("queue", "fingerprint", "error_class"),
    )
    every = ((queue.name, group) for queue in overview.queues for group in queue.groups)
    for name, group in nlargest(LARGEST, every, key=lambda row: row[1].count):
        gauge.add_metric((name, group.fingerprint, group.error_class), group.count)
        muted.add_metric((name, group.fingerprint, group.error_class), float(group.muted))
    yield gauge
    yield muted


def _redrives(overview: Overview) -> Iterator[Metric]:
    """A finished redrive is seen for a week, its progress while it runs or is paused."""
    jobs = GaugeMetricFamily(
        "rq_dlq_redrive_jobs", "Redrives of the last week, by their state.", labels=("queue", "state")
    )
    progress = GaugeMetricFamily(
        "rq_dlq_redrive_messages",
        "How far the running and the paused redrives have come.",
        labels=("queue", "progress"),
    )
    for queue in overview.queues:
        for state, count in Counter(job.state for job in queue.redrives).items():
            jobs.add_metric((queue.name, state), count)
        active = [job.counts for job in queue.redrives if job.state in {"running", "paused"}]
        for number, count in asdict(sum(active[1:], active[0])).items() if active else ():
            progress.add_metric((queue.name, number), count)
    yield jobs
    yield progress


def _workers(queues: Sequence[str], processes: Sequence[ProcessReport]) -> Iterator[Metric]:
    """Of each queue, also of one without workers, so that an alert sees the 0."""
    workers = GaugeMetricFamily(
        "rq_dlq_workers", "Worker processes that take messages from the queue.", labels=("queue",)
    )
    oldest = GaugeMetricFamily(
        "rq_dlq_oldest_held_age_seconds",
        "How long a worker has held a message, the longest of all; 0: they hold none.",
        labels=("queue",),
        unit="seconds",
    )
    working: dict[str, list[float]] = {name: [] for name in queues}
    for process in processes:
        for name, consumer in process.queues.items():
            working.setdefault(name, []).append(process.ago + consumer.oldest if consumer.oldest else 0.0)
    for name, ages in working.items():
        workers.add_metric((name,), len(ages))
        oldest.add_metric((name,), max(ages, default=0.0))
    yield workers
    yield oldest


def _maintenance(maintainers: Sequence[ProcessReport]) -> Iterator[Metric]:
    what = "Maintenance processes (`rq-dlq maintain`) that are alive."
    yield GaugeMetricFamily("rq_dlq_maintenance_processes", what, len(maintainers))
    last = GaugeMetricFamily(
        "rq_dlq_maintenance_report_age_seconds",
        "Time since a maintenance process reported last; absent if there is none.",
        unit="seconds",
    )
    if maintainers:
        last.add_metric((), min(process.ago for process in maintainers))
    yield last
