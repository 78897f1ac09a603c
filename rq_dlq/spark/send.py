"""Sends rows: all rows of a job become messages, or none.

1. Each task stages its rows in Redis, under a name that no other attempt has (`rq_dlq.core.jobs`).
2. The driver commits the staged rows in one script: from then on all of them are sent.
3. The driver moves them into the queues in chunks. If it dies, maintenance does.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from rq_dlq.client.broker import Broker
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.calls import last_commit
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.steps.step import CHUNK, WINDOW
from rq_dlq.errors import DataLoss, InvalidInput, RqDlqError
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.outgoing import RowConverter, check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.spark.options import WriteOptions

logger = logging.getLogger("rq_dlq.spark")
MOST_LISTS = 20_000  # rows that are committed together: about 0.1 s of Redis
A_DAY = 86_400_000  # milliseconds that a job without a `jobId` is remembered, for repeated calls
STEPS = 5  # rows per second, if there is a rate
QUERY = "sql.streaming.queryId"  # a property of the threads and tasks of a query
EXECUTION, ROOT = "spark.sql.execution.id", "spark.sql.execution.root.id"  # of tasks; an epoch is a root
SPLIT = "rq_dlq.split"  # the epoch in which split() was called


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The rows that one task has staged.

    Attributes:
        job: the id under which they are committed.
        lists: by queue, the number of messages in each of the task's lists.
        longest: bytes of the longest payload in them.
    """

    job: str
    lists: Mapping[str, Mapping[str, int]]
    longest: int


class Send:
    """The operation `send`.

    Args:
        stream: the job is a streaming query, and each of its batches is committed once. A write in
            foreachBatch is not part of a stream, although its tasks also have a query id.
    """

    def __init__(self, options: WriteOptions, schema: StructType, *, stream: bool = False) -> None:
        check_columns(schema, options)
        if stream and options.job:
            message = "a stream has no option jobId: its job is the query, which the checkpoint names"
            raise InvalidInput(message)
        self._stream = stream
        self._options = replace(options, url=resolve(options.url))
        self._job = options.job or secrets.token_hex(12)
        with Broker(self._options.url, namespace=options.namespace, **options.sender) as broker:
            broker.queues()
            for family in options.families:
                only_live(broker.queue(family)._core, "write to")

    @property
    def _broker(self) -> Broker:
        options = self._options
        return broker_at(options.url or "", options.namespace, **options.sender)

    def write(self, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of one task.

        Raises:
            InvalidInput: a row cannot be sent, or the rows have too many different delays.
        """
        broker, options = self._broker, self._options
        context: Any = TaskContext.get()
        partition = context.partitionId()
        attempt = f"{partition:05}-{secrets.token_hex(6)}"  # attempts are moved in this order
        job = context.getLocalProperty(QUERY) if self._stream else self._job
        queues = [broker.queue(family)._core for family in options.families]
        stages = [Stage(queue.keys, job, attempt, options.stage_ttl) for queue in queues]
        outgoing = RowConverter(options, queues[0].codec, queues[0].client.ids, len(queues))
        try:
            for turn, batch in enumerate(batches, partition):
                for shard, (delay, ttl), items in outgoing.groups(batch, turn):
                    broker._run(stages[shard].add(items, delay=delay, ttl=ttl))
                    check_lists(len(stages[shard].counts), tasks=1)
        except BaseException:
            for stage in stages:
                broker._run(jobs.drop(stage.keys, job, list(stage.counts)))
            raise
        lists = {stage.keys.family: stage.counts for stage in stages if stage.counts}
        return StagedRows(job, lists, max(stage.longest for stage in stages))

    def commit(self, messages: Sequence[StagedRows | None], batch: int = 0) -> None:
        """Send the rows that the tasks have staged.

        After the commit it no longer fails: maintenance moves the rows that cannot be moved now.

        Args:
            batch: the number of a stream's batch.

        Raises:
            InvalidInput: the rows have too many different delays and times to live; nothing was sent.
            BrokerRefused: some staged rows are missing; nothing was sent.
            DataLoss: the checkpoint of a stream is an old copy.
            Unconfirmed: with durability "replicated": the rows are written, but too few replicas have them.
                It is safe to run the job again with the same job id.
            BrokerUnavailable: the outcome is unknown.
        """
        job, lists = _staged(messages)
        if not lists:
            return
        for counts in lists.values():
            check_lists(len(counts), tasks=len(messages))
        self._tell_rest(job)  # of the batch before it
        options, broker = self._options, self._broker
        count = sum(sum(counts.values()) for counts in lists.values())
        queues = [broker.queue(family)._core for family in options.families]
        known = self._stream or options.job
        steps = jobs.commit(
            queues,
            job,
            lists,
            batch=batch,
            grace=jobs.GRACE + (2_000 * count // options.rate if options.rate else 0),
            remembered=jobs.REMEMBERED if known else A_DAY,
            ttl=options.stage_ttl,
        )
        if not broker._run(steps):
            self._leave_out(job, batch, count)
            return
        try:
            self._move(job, lists, max(message.longest for message in messages if message))
            self._drop_rest(job)
        except RqDlqError as error:  # Spark would run a failed job again, and send all rows twice
            logger.warning("job %s is committed, maintenance moves the rest: %s", job, error)

    def _leave_out(self, job: str, batch: int, count: int) -> None:
        """Send nothing, since it was written before. Spark tries no batch again but the last one."""
        broker = self._broker
        keys = broker.queue(self._options.families[0])._core.keys
        last, _ = broker._run(broker._step(last_commit(keys, job)))
        if last > batch:
            raise DataLoss(
                f"the query is at batch {batch}, but it has written batch {last}: the checkpoint is an old "
                "copy, and its batches would be taken for those that were written. Use the newest "
                "checkpoint, or a new one, with which all that the source still has is sent again"
            )
        logger.warning(
            "job %s, batch %d, was written before: none of its %d rows was sent", job, batch, count
        )
        self._drop_rest(job)

    def _move(self, job: str, lists: Mapping[str, Mapping[str, int]], longest: int) -> None:
        broker, pace = self._broker, RateLimit(self._options.rate, CHUNK * WINDOW)
        sent = known = 0
        for family, attempts in lists.items():
            keys = broker.queue(family)._core.keys
            for attempt in attempts:
                while moved := broker._run(jobs.move(keys, job, attempt, pace.chunk, longest)):
                    sent, known = sent + moved.messages - moved.known, known + moved.known
                    pace.note(moved.messages)
        if known:
            logger.warning(
                "job %s: %d rows sent, %d known already: the queue has or remembers messages with their ids. "
                "If a batch holds these messages, its ack removes them, and the rows are in no queue: "
                "write them under new ids, or use the operations nack and redrive",
                job, sent, known,
            )  # fmt: skip

    def abort(self, messages: Sequence[StagedRows | None]) -> None:
        """Remove the rows that the tasks have staged. A committed job stays committed.

        Tasks may still be running; the rows that these stage expire.
        """
        if not (self._stream or self._options.job):
            self._drop_rest(self._job)
            return
        job, lists = _staged(messages)  # another run of the job may also stage
        self._tell_rest(job)
        for family, attempts in lists.items():
            self._broker._run(jobs.drop(self._broker.queue(family)._core.keys, job, list(attempts)))

    def _drop_rest(self, job: str) -> None:
        """Remove staged rows of a job that are not committed, including those of killed tasks."""
        self._tell_rest(job)
        broker = self._broker
        for family in self._options.families:
            broker._run(jobs.drop_rest(broker.queue(family)._core.keys, job))

    def _tell_rest(self, job: str) -> None:
        """Commit the rest in all shards if the first has committed: its driver may have died in between."""
        first, *others = self._options.families
        if others:
            self._broker._run(jobs.tell_rest(self._broker.queue(first)._core.keys, job))


def check_lists(lists: int, *, tasks: int) -> None:
    """Raise InvalidInput if one script cannot commit so many lists, each of one delay and time to live."""
    if lists > max(MOST_LISTS, tasks):
        raise InvalidInput(
            f"more than {MOST_LISTS:,} lists: Redis has to commit one at once for each different delay and "
            "time to live in each task. Round the columns of delayColumn and ttlColumn, for example to whole "
            "minutes, or write fewer partitions: coalesce()"
        )


def _staged(messages: Sequence[StagedRows | None]) -> tuple[str, dict[str, dict[str, int]]]:
    """The job of the tasks, and their lists by queue; both empty if nothing is staged."""
    job, lists = "", dict[str, dict[str, int]]()
    for message in filter(None, messages):
        for family, counts in message.lists.items():
            job = message.job
            lists.setdefault(family, {}).update(counts)
    return job, lists


class RateLimit:
    """Keeps work to a rate.

    Args:
        rate: messages per second; 0: no limit.
        most: the most messages in one step.
    """

    def __init__(self, rate: float, most: int) -> None:
        self._rate = rate
        self._due = time.monotonic()  # when the next step may begin
        self.chunk = min(most, max(1, int(rate) // STEPS)) if rate else most

    def note(self, count: int) -> None:
        """Count messages as done, and sleep if they were done too fast. A second is made up for."""
        if self._rate:
            self._due = max(self._due, time.monotonic() - 1) + count / self._rate
            time.sleep(max(0.0, self._due - time.monotonic()))
