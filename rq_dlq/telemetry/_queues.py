"""The metrics that are read from Redis: queues, dead letters, redrives, processes."""

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

LARGEST = 10  # how many groups of dead letters, of all queues together
STATES = ("ready", "scheduled", "leased", "dead", "expired")
GAUGES: dict[str, tuple[str, str, Callable[[QueueOverview], float]]] = {  # name: (description, unit, value)
    "rq_dlq_oldest_ready_age_seconds": (
        "How long the first ready message has waited since it was due; 0: no message is ready.",
        "seconds",
        lambda queue: queue.stats.oldest or 0.0,
    ),
    "rq_dlq_overdue_seconds": (
        "How long a due message or an expired lease has waited for maintenance; 0: none is waiting.",
        "seconds",
        lambda queue: queue.stats.overdue,
    ),
    "rq_dlq_schedule_overdue_seconds": (
        "How late the message of a schedule is; 0: no schedule is late.",
        "seconds",
        lambda queue: queue.schedules_overdue,
    ),
    "rq_dlq_blocked": (
        "Scheduled messages that are due, but wait for others of their key or for a dependency.",
        "",
        lambda queue: float(queue.stats.blocked),
    ),
    "rq_dlq_oldest_blocked_age_seconds": (
        "How long the oldest message has waited that waits for a dependency; 0: none does.",
        "seconds",
        lambda queue: queue.oldest_parked or 0.0,
    ),
    "rq_dlq_gathers": (
        "Gathers whose message waits in this queue until others have ended.",
        "",
        lambda queue: float(queue.stats.gathers),
    ),
    "rq_dlq_oldest_gather_age_seconds": (
        "How long ago the oldest of these gathers was opened; 0: there is none.",
        "seconds",
        lambda queue: queue.stats.oldest_gather or 0.0,
    ),
    "rq_dlq_queue_paused": (
        "1: the queue is paused, so no messages are delivered.",
        "",
        lambda queue: float(queue.stats.paused),
    ),
}
COUNTERS = {
    "sent": "Messages that were sent to the queue.",
    "acked": "Messages that were acked.",
    "nacked": "Deliveries that failed, to which the redelivery policy was applied.",
    "lapsed": "Deliveries whose lease expired before they were settled.",
    "released": "Deliveries that were released, which do not count as failures.",
    "passed_on": "Deliveries that were passed on to another version of the program.",
    "expired": "Messages whose time to live expired.",
    "redriven": "Dead letters and expired messages that were redriven.",
    "discarded": "Messages that were dropped by the queue's settings.",
    "moved": "Messages that were moved to another queue.",
    "purged": "Messages that were removed by an operator.",
    "cancelled": "Messages that were cancelled.",
    "known": "Sends that were ignored, since a dead letter has the id.",
    "replaced": "Waiting messages to which a later send with the same id gave a new body.",
    "again": "Runs that followed another one, since the message was sent again meanwhile.",
    "results_dropped": "Results that were dropped for lack of memory.",
}


@dataclass(frozen=True, slots=True)
class MetricsReading:
    """The values read from Redis.

    Attributes:
        processes: the reports, those of outboxes too; None: the cluster node with them does not answer.
        seconds: how long the reading took.
    """

    overview: Overview
    processes: Sequence[ProcessReport] | None
    seconds: float


def families(reading: MetricsReading) -> Iterator[Metric]:
    """All metrics of a reading. A process that no longer reports may be dead, so it is not counted."""
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
        yield from _outboxes(reading.processes)


def _ups(overview: Overview, *, processes_up: bool) -> Iterator[Metric]:
    """Which queues could be read; the others have no further metrics."""
    what = "1: the queue was read; 0: it cannot be read, and has no other metrics."
    queues = GaugeMetricFamily("rq_dlq_queue_up", what, labels=("queue",))
    for queue in overview.queues:
        queues.add_metric((queue.name,), 1.0)
    for lost in overview.unreachable:
        queues.add_metric((lost.name,), 0.0)
    yield queues
    what = "1: the list was read; 0: its cluster node does not answer."
    lists = GaugeMetricFamily("rq_dlq_list_up", what, labels=("list",))
    lists.add_metric(("queues",), float(not overview.unlisted))
    lists.add_metric(("processes",), float(processes_up))
    yield lists


def _counts(seen: Sequence[QueueOverview]) -> Iterator[Metric]:
    queues = [queue.stats for queue in seen]
    messages = GaugeMetricFamily(
        "rq_dlq_messages", "Messages in the queue, by their state.", labels=("queue", "state")
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
    died = "Messages that died; `discarded` also counts those that were not kept."
    deaths = CounterMetricFamily("rq_dlq_died", died, labels=("queue", "reason"))
    for stats in queues:
        for reason in DIED:
            deaths.add_metric((stats.name, reason), stats.totals.get(reason, 0))
    yield deaths


def _breakers(seen: Sequence[QueueOverview]) -> Metric:
    gauge = GaugeMetricFamily(
        "rq_dlq_breaker_open",
        "1: the dependency counts as down, so its messages wait; 0: it is up again, and they return.",
        labels=("queue", "dependency"),
    )
    for queue in seen:
        for known in queue.dependencies:
            gauge.add_metric((queue.name, known.dependency), float(known.condition in {"down", "testing"}))
    return gauge


def _groups(overview: Overview) -> Iterator[Metric]:
    """The largest groups: their number is bounded, and their labels contain no error texts."""
    muted = GaugeMetricFamily(
        "rq_dlq_dead_letter_group_muted",
        "1: this kind of failure is muted; for the groups in rq_dlq_dead_letter_group_messages.",
        labels=("queue", "fingerprint", "error_class"),
    )
    gauge = GaugeMetricFamily(
        "rq_dlq_dead_letter_group_messages",
        f"Dead letters by kind of failure, for the {LARGEST} largest groups of all queues.",
        labels=("queue", "fingerprint", "error_class"),
    )
    every = ((queue.name, group) for queue in overview.queues for group in queue.groups)
    for name, group in nlargest(LARGEST, every, key=lambda row: row[1].count):
        gauge.add_metric((name, group.fingerprint, group.error_class), group.count)
        muted.add_metric((name, group.fingerprint, group.error_class), float(group.muted))
    yield gauge
    yield muted


def _redrives(overview: Overview) -> Iterator[Metric]:
    """The redrives of the last week; their progress only while they run or are paused."""
    jobs = GaugeMetricFamily(
        "rq_dlq_redrive_jobs", "Redrives of the last week, by their state.", labels=("queue", "state")
    )
    progress = GaugeMetricFamily(
        "rq_dlq_redrive_messages",
        "The progress of running and paused redrives.",
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
    """Workers by queue; queues without workers have the value 0, so that an alert can fire."""
    workers = GaugeMetricFamily(
        "rq_dlq_workers", "Worker processes that take messages from the queue.", labels=("queue",)
    )
    oldest = GaugeMetricFamily(
        "rq_dlq_oldest_held_age_seconds",
        "The longest time that a worker has held a message; 0: no message is held.",
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
        "Time since the last report of a maintenance process; absent without such a process.",
        unit="seconds",
    )
    if maintainers:
        last.add_metric((), min(process.ago for process in maintainers))
    yield last


def _outboxes(reports: Sequence[ProcessReport]) -> Iterator[Metric]:
    """By outbox, also if its relay has ended: an age that grows is what an alert looks at."""
    labels = ("outbox",)
    rows = GaugeMetricFamily("rq_dlq_outbox_rows", "Rows that are not sent yet.", labels=labels)
    oldest = GaugeMetricFamily(
        "rq_dlq_outbox_oldest_age_seconds",
        "How long the oldest row has waited; 0: none waits.",
        labels=labels,
        unit="seconds",
    )
    last = GaugeMetricFamily(
        "rq_dlq_outbox_report_age_seconds",
        "Time since the last report of the relay.",
        labels=labels,
        unit="seconds",
    )
    for report in reports:
        if (outbox := report.outbox) is not None:
            rows.add_metric((outbox.name,), outbox.rows)
            oldest.add_metric((outbox.name,), outbox.oldest + report.ago if outbox.rows else 0.0)
            last.add_metric((outbox.name,), report.ago)
    yield rows
    yield oldest
    yield last
