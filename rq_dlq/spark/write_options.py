"""The options of `df.write.format("rq_dlq").option(…)`, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rq_dlq._work.jobs import check_job
from rq_dlq.client.durability import DURABILITIES
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.spark.options import MAX_SHARDS, QUEUES, WHERE, Given, shards_of
from rq_dlq.values.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from rq_dlq.client.durability import Durability

OPERATIONS = ("send", "ack", "nack", "discard", "redrive")
SETTLES = ("ack", "nack", "discard")
WRITE = (
    *WHERE, *QUEUES, "operation", "jobId", "contentType", "idColumn", "priorityColumn", "headersColumn",
    "delayColumn", "ttlColumn", "rateLimit", "stageTtl", "failOnLost", "durability", "replicas",
)  # fmt: skip
# Options that only some operations have.
_ONLY = {
    "shards": ("send",),
    "jobId": ("send",),
    "contentType": ("send",),
    "idColumn": ("send",),
    "priorityColumn": ("send",),
    "headersColumn": ("send",),
    "delayColumn": ("send", "nack"),
    "ttlColumn": ("send",),
    "rateLimit": ("send", "redrive"),
    "stageTtl": ("send",),
    "failOnLost": SETTLES,
    "durability": ("send",),
    "replicas": ("send",),
}
JSON, BYTES = "application/json", "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of `df.write.format("rq_dlq")`.

    Attributes:
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server. Never shown: it may have a password.
        operation: send, ack, nack, discard or redrive.
        queue: to send to; for other operations, the queue of rows that do not name one.
        shards: how many shards the queue stands for, `queue:0` …; 0: only for itself.
        job: a job with this id writes once, however often it runs; empty: each run writes.
        content_type: application/json: a body is a JSON document; application/octet-stream: bytes; empty: a
            binary body is bytes, and a string is text, which arrives as a JSON string.
        id_column, priority_column, headers_column, delay_column, ttl_column: the column with this value for
            each row; empty: ids are drawn, the others have their defaults.
        rate: messages per second that become visible, or are redriven; 0: no limit.
        stage_ttl: milliseconds that a task's rows are kept for the end of the job.
        fail_on_lost: fail if a row can no longer be settled because its lease was lost.
        durability, replicas: when a job counts as written, as for a broker (`BrokerSettings`).
    """

    url: str | None = field(repr=False)
    namespace: str
    operation: str
    queue: str
    shards: int
    job: str
    content_type: str
    id_column: str
    priority_column: str
    headers_column: str
    delay_column: str
    ttl_column: str
    rate: int
    stage_ttl: int
    fail_on_lost: bool
    durability: Durability
    replicas: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read and check them.

        Raises:
            InvalidInput: there is no such option or value, or the operation does not have it.
        """
        given = Given(options, WRITE)
        operation = given.word("operation", OPERATIONS, "send")
        for name, operations in _ONLY.items():
            if name in given and operation not in operations:
                message = f"option {name} is for {' and '.join(operations)}, not for {operation}"
                raise InvalidInput(message)
        queue = given.text("queue").strip()
        if queue or operation == "send":
            check_name(queue)
        if "jobId" in given:
            check_job(given.text("jobId"))
        return cls(
            url=given.text("url") or None,
            namespace=given.text("namespace", USUAL_NAMESPACE),
            operation=operation,
            queue=queue,
            shards=given.number("shards", 0, least=0, most=MAX_SHARDS),
            job=given.text("jobId"),
            content_type=given.word("contentType", (JSON, BYTES, ""), ""),
            id_column=given.text("idColumn"),
            priority_column=given.text("priorityColumn"),
            headers_column=given.text("headersColumn"),
            delay_column=given.text("delayColumn"),
            ttl_column=given.text("ttlColumn"),
            rate=given.number("rateLimit", 0, least=0),
            stage_ttl=given.duration("stageTtl", "1d", minimum=1_000),
            fail_on_lost=given.flag("failOnLost", default=False),
            durability=given.word("durability", DURABILITIES, "memory"),  # type: ignore[arg-type]
            replicas=given.number("replicas", 1),
        )

    def homes(self) -> list[str]:
        """The queues to send to."""
        return [name for name, _ in shards_of(self.queue, self.shards)]
