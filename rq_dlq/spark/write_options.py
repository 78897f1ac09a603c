"""What `df.write.format("rq_dlq").option(…)` may say, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rq_dlq._names import check_name
from rq_dlq._work.jobs import check_job
from rq_dlq.durability import DURABILITIES
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.spark.options import MAX_SHARDS, QUEUES, WHERE, Given, shards_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from rq_dlq.durability import Durability

OPERATIONS = ("send", "ack", "nack", "discard", "redrive")
SETTLES = ("ack", "nack", "discard")
WRITE = (
    *WHERE, *QUEUES, "operation", "jobId", "contentType", "idColumn", "priorityColumn", "headersColumn",
    "delayColumn", "ttlColumn", "rateLimit", "stageTtl", "failOnLost", "durability", "replicas",
)  # fmt: skip
# Those that only some operations understand.
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
    """What `df.write.format("rq_dlq")` understands.

    Attributes:
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server. Never shown, it may hold a password.
        operation: send, ack, nack, discard or redrive.
        queue: to send to; for the others, where the rows do not say it.
        shards: it stands for so many, `queue:0` …; 0: for itself.
        job: a job of this id writes once, however often it is run; empty: each run writes.
        content_type: application/json: a body is a JSON document; application/octet-stream: bytes; empty: a
            binary body is bytes, and a string is text, which arrives as a JSON string.
        id_column, priority_column, headers_column, delay_column, ttl_column: what says so for each row;
            empty: ids are drawn, the rest is as usual.
        rate: messages a second that become visible, or are redriven; 0: as fast as it goes.
        stage_ttl: milliseconds that what a task has written waits for the end of the job.
        fail_on_lost: fail where a row cannot be settled any more, since its lease was lost.
        durability, replicas: what it means that a job was written, as for a broker (`BrokerSettings`).
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
            InvalidInput: an option or a value that there is not, or one that does not go with the operation.
        """
        given = Given(options, WRITE)
        operation = given.word("operation", OPERATIONS, "send")
        for name, operations in _ONLY.items():
            if name in given and operation not in operations:
                message = f"option {name} goes with {' and '.join(operations)}, not with {operation}"
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
        """The queues that it sends to."""
        return [name for name, _ in shards_of(self.queue, self.shards)]
