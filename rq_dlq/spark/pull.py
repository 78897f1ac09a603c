"""`foreach_message()`: a Spark job whose tasks are workers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType

from rq_dlq.client.handlers import Handler
from rq_dlq.client.settings import MAX_MESSAGE_BYTES
from rq_dlq.core import opening
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.spark.arrow import arrow_schema
from rq_dlq.spark.brokers import USUAL_NAMESPACE, broker_at, resolve
from rq_dlq.spark.queues import check_queues
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rq_dlq.client.broker import Broker
    from rq_dlq.policy import RedeliveryPolicy
    from rq_dlq.worker.stopping import Until

MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The outcomes of a pull's deliveries, as reported by the tasks that succeeded.

    Messages that a failed or killed task had settled stay settled, but are not counted: the counts are
    complete only if `failed_tasks` is 0 without `spark.speculation`. The totals of `queue.stats()` count all.

    Attributes:
        acked: the handler succeeded.
        redelivered: the handler failed, and the message is redelivered.
        dead: the handler failed for the last time; or the message is a dead letter, and stays one.
        expired: the handler failed, and the message's time to live had expired.
        discarded: the message died, and the queue discards dead letters.
        released: the message was released before the handler began, uncharged.
        lost: the lease was lost, so the result was ignored; another consumer has the message.
        failed_tasks: how many attempts began before those that succeeded, and failed or were killed. A later
            one is not among them: a speculative copy that was killed since the first attempt won.
        seconds: from the first to the last task, on the driver.
    """

    acked: int = 0
    redelivered: int = 0
    dead: int = 0
    expired: int = 0
    discarded: int = 0
    released: int = 0
    lost: int = 0
    failed_tasks: int = 0
    seconds: float = 0.0


COUNTED = tuple(each.name for each in fields(Pulled) if each.name != "seconds")
RARE = {"kept": "dead", "gone": "lost", "passed_on": "released"}  # outcomes, and the counts that they add to
COUNTS = StructType([StructField(name, LongType()) for name in COUNTED])


@dataclass(frozen=True)
class Pull:
    """The work of a task. It is sent to the executors; a handler takes its queue and broker along.

    Attributes:
        ends_at: the end in milliseconds of the server's clock; None: `until` decides.
    """

    handler: Handler = field(repr=False)
    until: Until
    ends_at: int | None

    def task(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run a worker in a Python process of Spark; yields a row of counts for each row."""
        for batch in batches:
            counts = self._work()
            if task := TaskContext.get():
                counts["failed_tasks"] = task.attemptNumber()
            yield pa.RecordBatch.from_pylist([counts] * batch.num_rows, arrow_schema(COUNTS))

    def _work(self) -> dict[str, int]:
        counts = Counter[str](dict.fromkeys(COUNTED, 0))
        log_only_failures()
        with self.handler.queue._broker as broker:
            left = math.inf if self.ends_at is None else (self.ends_at - clock(broker)) / 1000
            if left > 0:
                broker._handlers[:] = [self.handler]
                worker = Worker(broker, until=self.until)
                run_for(worker, left)
                for outcome, count in worker.tally.counts.items():
                    counts[RARE.get(outcome, outcome)] += count
        return dict(counts)


def foreach_message(
    spark: SparkSession,
    queue: str,
    handler: Callable[..., Any],
    *,
    parallelism: int,
    policy: RedeliveryPolicy | None = None,
    until: Until | Duration = "drained",
    type: Any = Any,
    lease: Duration = "30s",
    concurrency: int = 1,
    timeout: Duration | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    url: str | None = None,
    namespace: str = USUAL_NAMESPACE,
) -> Pulled:
    """Run a handler for each message, in a Spark job of `parallelism` tasks.

        foreach_message(spark, "orders", ship, parallelism=64, policy=RedeliveryPolicy(max_redeliveries=5))

    Each task runs a worker like `broker.run()`, so a failure, `Poison`, `Redeliver` or a lost lease has the
    same effect. The leases of a killed task expire, and Spark's retry continues. Tasks beyond the number of
    cores run in a second wave, which finds a drained queue and ends immediately. So use as many tasks as
    cores, and raise `concurrency` for handlers that mostly wait.

    Args:
        handler: a function of (body) or (body, delivery), `async def` or not, that Spark can pickle. It runs
            in a thread of the executor's Python process.
        parallelism: the number of tasks.
        policy: a policy to declare for the queue before the job; None: the present policy.
        until: "drained": no message is ready, scheduled or leased by any consumer (a paused queue is not
            drained). "empty": no message is ready. A duration: no handler begins after it; it covers all
            waves together.
        type: the type of the bodies, as for `broker.queue`.
        lease: how long a killed task's message stays leased; a living task renews its leases.
        concurrency: the number of concurrent calls in each task.
        timeout: the limit for one call; None: no limit.
        max_message_bytes: the largest JSON body to read, like that of the producer's broker. A larger one is
            passed on to other consumers, like a body of another type. If none accepts it, it dies ten minutes
            later, and a pull until the queue is drained waits for that.
        url: the URL of Redis; None: $RQ_DLQ_URL, or the embedded server if that is unset.

    Returns:
        The outcomes of the deliveries.

    Raises:
        ConfigurationError: the handler cannot be called with a body, or max_message_bytes is not valid.
        InvalidInput: there is no such queue, or an argument is not valid.
        BrokerUnavailable: Redis cannot be reached from the driver.
    """
    if parallelism.__class__ is not int or not 1 <= parallelism <= MOST_TASKS:
        raise InvalidInput(f"parallelism {parallelism!r}: use a whole number of tasks, 1 to {MOST_TASKS:,}")
    by_itself = until in {"drained", "empty"}
    span = 0 if by_itself else milliseconds(until, name='until (or "drained", "empty")', minimum=1)
    address = resolve(url)
    broker = broker_at(address, namespace, max_message_bytes=max_message_bytes)
    declared = broker.queue(queue, type=type, lease=lease, redelivery=policy)
    checked = Handler.checked(declared, handler, concurrency, timeout)  # here already, not only in each task
    checked = replace(checked, type=checked.body_type())  # a pickled function may have lost its annotations
    check_queues(address, namespace, [declared._core.keys.family])
    ends_at = None if by_itself else clock(broker) + span
    pull = Pull(checked, until if by_itself else "stopped", ends_at)  # type: ignore[arg-type]
    broker._run(opening.open_queue(declared._core))
    began = time.monotonic()
    rows = spark.range(0, parallelism, 1, parallelism).mapInArrow(pull.task, COUNTS).collect()
    sums = {name: sum(row[name] for row in rows) for name in COUNTED}
    return Pulled(**sums, seconds=time.monotonic() - began)


def clock(broker: Broker) -> int:
    """The server's time in milliseconds, which is the same for all executors."""
    now: int = broker._run(broker._step(queue_calls.clock()))
    return now


def log_only_failures() -> None:
    """A job may have a thousand tasks: none logs its start, its end, or its warnings about the server."""
    for name, level in (("rq_dlq", logging.WARNING), ("rq_dlq.doctor", logging.ERROR)):
        log = logging.getLogger(name)
        if log.level == logging.NOTSET:
            log.setLevel(level)


def run_for(worker: Worker, seconds: float) -> None:
    """Run a worker until it ends, but no longer than some seconds.

    Raises:
        RqDlqError: it ended early; Spark then retries the task.
    """
    end = time.monotonic() + seconds
    alarm = threading.Timer(min(seconds, threading.TIMEOUT_MAX), worker.stop.signal)
    alarm.daemon = True
    alarm.start()
    try:
        worker.run()
    finally:
        alarm.cancel()
    if worker.stop.finishing.is_set() and time.monotonic() < end:
        raise RqDlqError("the worker ended early, by a signal or an error (see its log): start the job again")
