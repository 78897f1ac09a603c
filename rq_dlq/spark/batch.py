"""`claim()`: a batch for any number of Spark actions, acked at the end."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Self

from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import USUAL_NAMESPACE, broker_at, resolve
from rq_dlq.spark.heartbeat import Heartbeat, warn_of_lost
from rq_dlq.spark.option_values import queue_text
from rq_dlq.spark.partitions import cores_of, tasks_for
from rq_dlq.spark.queues import check_queues
from rq_dlq.values.durations import Duration, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps

MOST = 10_000_000  # messages in one batch
AN_HOUR = 3_600_000  # milliseconds that a batch is remembered when it has ended


class Batch:
    """Messages that this job holds until it acks or releases them; made by `claim`.

    Its tokens are those of a query with one batch, so writes that settle rows note them in the same place.

    Attributes:
        df: the messages, with the columns of the view `leased`. They are the same at each action, except for
            messages settled individually in the meantime (a nack by row).
        messages: how many were claimed.
    """

    def __init__(
        self, spark: SparkSession, broker: Broker, url: str, claimed: batches.ClaimedBatch, lease: int
    ) -> None:
        self.messages = claimed.messages
        self._broker = broker
        self._queue = broker.queue(claimed.family)._core
        self._tokens = claimed.tokens
        self._query = claimed.name.partition(".")[0]
        self.df: DataFrame = (
            spark.read.format("rq_dlq")
            .options(url=url, namespace=broker.settings.namespace, queue=queue_text([claimed.family]))
            .options(view="leased", batch=claimed.address)
            .options(numPartitions=tasks_for(claimed.messages, cores_of(spark)))
            .load()
        )
        self._open = True
        self._keeper = Heartbeat(broker, lease)
        self._keeper.keep({self._queue.keys: self._tokens})

    def ack(self) -> int:
        """Ack all messages that the batch still holds.

        If some were no longer held, since their lease has ended, a warning is logged with their number.

        Returns:
            The number of acked messages: all claimed ones except those settled individually, or lost.
        """
        return self._end(self._ack())

    def _ack(self) -> Steps[int]:
        keys = self._queue.keys
        acked = yield from batches.ack_batch(keys, self._tokens, self.messages)
        left = yield batch_calls.note_settled(keys, self._query, acked)
        if left > 0:
            warn_of_lost(keys.family, "a batch of claim()", left)
        return acked

    def release(self) -> int:
        """Release, uncharged, all messages that the batch still holds; returns how many."""
        return self._end(batches.release_batch(self._queue, self._tokens))

    def _end(self, steps: Steps[int]) -> int:
        settled = self._broker._run(steps)
        self._broker._run(self._broker._step(batch_calls.remember(self._queue.keys, self._query, AN_HOUR)))
        self._open = False
        self._keeper.stop()
        return settled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Release the messages unless they were acked."""
        if self._open:
            self.release()


def claim(
    spark: SparkSession,
    queue: str,
    *,
    limit: int,
    lease: Duration = "5m",
    url: str | None = None,
    namespace: str = USUAL_NAMESPACE,
) -> Batch:
    """Claim a batch of messages for any number of Spark actions.

        with claim(spark, "orders", limit=100_000) as batch:
            batch.df.groupBy("queue").count().show()
            batch.ack()

    Args:
        limit: the most messages; a batch may be empty.
        lease: how long the batch stays leased after its driver dies; a live driver renews it.
        url: the URL of Redis; None: $RQ_DLQ_URL, or the embedded server if that is unset.

    Raises:
        InvalidInput: there is no such queue, or an argument is not valid.
        BrokerUnavailable: Redis cannot be reached.
    """
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise InvalidInput(f"limit {limit!r}: claim 1 to {MOST:,} messages at a time")
    span = milliseconds(lease, name="lease", minimum=1_000)
    address = resolve(url)
    check_queues(address, namespace, [queue])
    broker = broker_at(address, namespace)
    work = broker.queue(queue)._core
    claimed = broker._run(_claim(work, secrets.token_hex(6), limit, span))
    try:
        return Batch(spark, broker, address, claimed, span)
    except BaseException:  # for example, Spark does not have the format
        broker._run(batches.release_batch(work, claimed.tokens))
        raise


def _claim(queue: QueueState[Any], query: str, limit: int, lease: int) -> Steps[batches.ClaimedBatch]:
    """Claim the only batch of a query, and note it as one."""
    claimed = yield from batches.claim_batch(queue, f"{query}.1", limit=limit, lease=lease)
    if claimed.messages:
        yield batch_calls.begin_batch(queue.keys, query, batch=1, run="")
        yield batch_calls.note_held(queue.keys, query, claimed.messages, claimed.messages)
    return claimed
