"""The options of `df.write.format("rq_dlq").option(…)`, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.client.durability import DURABILITIES
from rq_dlq.client.settings import MAX_MESSAGE_BYTES
from rq_dlq.core.jobs.jobs import check_job
from rq_dlq.spark.option_values import (
    byte_count,
    duration,
    flag,
    number,
    one_of,
    queue_name,
    shard_count,
    text,
)
from rq_dlq.spark.options import Options, option, shards_of

if TYPE_CHECKING:
    from rq_dlq.client.durability import Durability

SETTLES = ("ack", "nack", "discard")
JSON, BYTES = "application/json", "application/octet-stream"
_SEND = ("send",)


def _job(_: str, given: str) -> str:
    check_job(given)
    return given


def _column(name: str, *more: str) -> str:
    """The field of an option that names a column."""
    return option(name, text, only=(*_SEND, *more))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(Options):
    """The options of `df.write.format("rq_dlq")`.

    Attributes:
        operation: send, ack, nack, discard or redrive.
        queue: to send to; for other operations, the queue of rows that do not name one.
        shards: how many shards the queue stands for, `queue:0` …; 0: only for itself.
        job: a job with this id writes once, however often it runs; None: each run writes.
        content_type: application/json: a body is a JSON document; application/octet-stream: bytes; empty: a
            binary body is bytes, and a string is text, which arrives as a JSON string.
        id_column, key_column, priority_column, headers_column, delay_column, ttl_column: the column with this
            value for each row; empty: ids are drawn, there are no keys, the others have their defaults.
        rate: messages per second that become visible, or are redriven; 0: no limit.
        canary: how many of each queue are redriven first; the others follow if these succeed; 0: no canary.
        stage_ttl: milliseconds that a task's rows are kept for the end of the job.
        max_message_bytes: the largest size of encoded headers and body.
        fail_on_lost: fail if a row can no longer be settled because its lease was lost.
        durability, replicas: when a job counts as written, as for a broker (`BrokerSettings`).
    """

    queue: str = option("queue", lambda _, given: given.strip())
    shards: int = option("shards", shard_count, "0", only=_SEND)
    operation: str = option("operation", one_of(("send", *SETTLES, "redrive")), "send")
    job: str | None = option("jobId", _job, None, only=_SEND)
    content_type: str = option("contentType", one_of((JSON, BYTES, "")), only=_SEND)
    id_column: str = _column("idColumn")
    key_column: str = _column("keyColumn")
    priority_column: str = _column("priorityColumn")
    headers_column: str = _column("headersColumn")
    delay_column: str = _column("delayColumn", "nack")
    ttl_column: str = _column("ttlColumn")
    rate: int = option("rateLimit", number(0), "0", only=("send", "redrive"))
    canary: int = option("canary", number(0, 1_000), "0", only=("redrive",))
    stage_ttl: int = option("stageTtl", duration(1_000), "1d", only=_SEND)
    max_message_bytes: int = option("maxMessageBytes", byte_count, str(MAX_MESSAGE_BYTES), only=_SEND)
    fail_on_lost: bool = option("failOnLost", flag, "false", only=SETTLES)
    durability: Durability = option("durability", one_of(DURABILITIES), "memory", only=_SEND)  # noqa: RUF009 - a field
    replicas: int = option("replicas", number(1), "1", only=_SEND)

    def __post_init__(self) -> None:
        """Check options against one another.

        Raises:
            InvalidInput: the queue has no valid name; only rows to send need one.
        """
        if self.queue or self.operation == "send":
            queue_name("queue", self.queue)

    @property
    def sender(self) -> dict[str, Any]:
        """The settings of the broker that sends."""
        return {
            "durability": self.durability, "replicas": self.replicas,
            "max_message_bytes": self.max_message_bytes,
        }  # fmt: skip

    def families(self) -> list[str]:
        """The queues to send to."""
        return [name for name, _ in shards_of(self.queue, self.shards)]
