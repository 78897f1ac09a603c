"""The options of `.option(…)`, read and checked once. Spark passes text, and ignores case in names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self, TypeVar

from rq_dlq.client.durability import DURABILITIES, Durability
from rq_dlq.client.settings import MAX_MESSAGE_BYTES
from rq_dlq.core.choosing.choice import REASONS
from rq_dlq.core.jobs.jobs import check_job
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.spark.option_values import (
    EXAMPLE,
    Read,
    byte_count,
    column_names,
    duration,
    flag,
    function_name,
    message_ids,
    moment,
    number,
    one_of,
    queue_name,
    queue_names,
    text,
)
from rq_dlq.spark.schemas import VIEWS

T = TypeVar("T")
STORIES = ("struct", "json", "none")
SETTLES = ("ack", "nack", "discard")
JSON, BYTES = "application/json", "application/octet-stream"
_SHARDS = number(0, 1_000)
_TIMED = ("queue", "scheduled", "leased", "dlq", "expired", "history")
_NAMED = ("queue", "scheduled", "dlq", "expired")
_FAILED = ("dlq", "expired", "history")
_SEND = ("send",)


def option(
    name: str, read: Read[T], default: str | None = "", *, only: Sequence[str] = (), beside: str = ""
) -> T:
    """A field of `CommonOptions`.

    Args:
        name: of its option.
        read: makes the value of this name and the option's text, or raises InvalidInput.
        default: the text of a missing option; None: the value is None.
        only: the views or operations that have the option; empty: all.
        beside: the option that it says more about; empty: none.
    """
    metadata = {"name": name, "read": read, "default": default, "only": only, "beside": beside}
    row: T = field(repr=name != "url", metadata=metadata)
    return row


def shards_of(queue: str, count: int) -> list[str]:
    """The names of a queue's shards; without shards, the queue itself."""
    return [f"{queue}:{number}" for number in range(count)] if count else [queue]


def shard_of(family: str, count: int) -> int:
    """The number of a queue among its shards; without shards 0."""
    return int(family.rpartition(":")[2]) if count else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """Options of any kind; each field defines how its option is read.

    Attributes:
        url: the URL of Redis; None: $RQ_DLQ_URL, or the embedded server if that is unset. Never shown: it may
            have a password.
    """

    url: str | None = option("url", text, None)
    namespace: str = option("namespace", text, USUAL_NAMESPACE)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read and check them.

        Raises:
            InvalidInput: the option or the value does not exist, or the view or operation does not have it,
                or the option that it works with is missing.
        """
        known, given = _fields(cls), texts_of(options, cls)
        values: dict[str, Any] = {}
        for lower, each in known.items():
            value = given.get(lower, each.metadata["default"])
            values[each.name] = None if value is None else each.metadata["read"](each.metadata["name"], value)
        chosen: str = values.get("operation") or values["view"]
        for lower in given:
            name, only, beside = (known[lower].metadata[key] for key in ("name", "only", "beside"))
            if beside and beside not in given:
                raise InvalidInput(f"option {name} works with option {beside}: pass both, or leave it out")
            if only and chosen not in only:
                raise InvalidInput(f"option {name} is only for {', '.join(only)}, not for {chosen}")
        return cls(**values)


def _fields(*kinds: type[CommonOptions]) -> dict[str, Field[Any]]:
    """The fields that are read from options, by the names of these in lower case."""
    return {each.metadata["name"].lower(): each for kind in kinds for each in fields(kind) if each.metadata}


def texts_of(options: Mapping[str, str], *kinds: type[CommonOptions]) -> dict[str, str]:
    """The texts of options, by their names in lower case.

    Raises:
        InvalidInput: none of these kinds has such an option. In SQL, a view to write to was read, or made
            without columns.
    """
    known, writing = _fields(*kinds), _fields(WriteOptions)
    texts = {name.lower(): value for name, value in options.items()}
    unknown = [name for name in options if name.lower() not in known]
    if wrong := [name for name in unknown if name.lower() in writing]:
        raise InvalidInput(
            f"option {', '.join(map(repr, wrong))} is only for writing. A view to write to cannot be read, "
            "and needs columns: CREATE TEMPORARY VIEW … (body STRING) USING rq_dlq OPTIONS (…)"
        )
    if "path" in unknown:  # the options that load() and save() were given
        message = f"load() and save() take no path: pass the name of the queue as an option{EXAMPLE}"
        raise InvalidInput(message)
    if unknown:
        names = ", ".join(each.metadata["name"] for each in known.values())
        raise InvalidInput(f"unknown option {', '.join(map(repr, unknown))}: the options are {names}")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(CommonOptions):
    """The options that tables and streams share.

    Attributes:
        queues: names, or patterns with `*`.
        shards: how many shards each name stands for, `name:0` …; 0: only for itself.
        fetch_size: rows in one call.
        cores: the cluster's cores; 0: unknown. Not an option: `register` asks the session.
    """

    queues: tuple[str, ...] = option("queue", queue_names)
    shards: int = option("shards", _SHARDS, "0")
    fetch_size: int = option("fetchSize", number(1, 500), "500")  # up to 4 ms of Redis
    cores: int = 0

    def __post_init__(self) -> None:
        if self.shards and any("*" in name for name in self.queues):
            message = "option shards works with names of queues, not with patterns: leave out one of them"
            raise InvalidInput(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(SourceOptions):
    """The options of `spark.read.format("rq_dlq")`.

    Attributes:
        partitions: the most Spark tasks; 0: as many as the rows need.
        since, until: epoch milliseconds, inclusive and exclusive.
        ids: only these messages, which are looked up; empty: all.
        reason, fingerprint, error_class: only rows that failed so; empty: all.
        history: the form of a dead letter's history.
        batch: only messages of this batch, which `claim` or a stream made; empty: all.
    """

    view: str = option("view", one_of(VIEWS), "queue")
    partitions: int = option("numPartitions", number(0, 10_000), "0")
    since: int | None = option("since", moment, None, only=_TIMED)
    until: int | None = option("until", moment, None, only=_TIMED)
    ids: tuple[str, ...] = option("ids", message_ids, "", only=_NAMED)
    reason: str = option("reason", one_of(("", *REASONS)), only=_FAILED)
    fingerprint: str = option("fingerprint", text, only=_FAILED)
    error_class: str = option("errorClass", text, only=_FAILED)
    history: str = option("history", one_of(STORIES), "struct", only=("dlq", "expired"))
    batch: str = option("batch", text, only=("leased",))

    @property
    def failure(self) -> dict[str, str]:
        """The failure that rows must have, by column."""
        columns = ("reason", "fingerprint", "error_class")
        return {name: value for name in columns if (value := getattr(self, name))}

    def __post_init__(self) -> None:
        SourceOptions.__post_init__(self)
        if self.ids and not (self.since is None and self.until is None):
            raise InvalidInput("option ids works without since and until: leave out one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(SourceOptions):
    """The options of `spark.readStream.format("rq_dlq")`.

    Attributes:
        view: queue, or history.
        partitions: the most Spark tasks for a batch; 0: as many as the rows need.
        max_messages: the most messages in a batch.
        max_bytes: about how many bytes a batch has at most; None: any number.
        min_messages: ready messages that are worth a batch.
        max_delay: milliseconds after which fewer are also worth it.
        lease: the lease of a batch, in milliseconds; the driver renews it.
        max_wait: milliseconds that an idle source waits for a message.
        max_failures: how often the query may fail in a row before its batch is halved.
        handler: module:function, called where the messages are read; None: the stream has the messages.
        handler_columns: its input, beside id and batch.
        starting: of a history: earliest, latest, or the id of an event after which to begin.
        fail_on_loss: end the query if its checkpoint and the queue disagree about what is done.
    """

    view: str = option("view", one_of(("queue", "history")), "queue")
    partitions: int = option("numPartitions", number(0, 10_000), "0", only=("queue",))
    max_messages: int = option("maxMessagesPerTrigger", number(1), "50_000")
    max_bytes: int | None = option("maxBytesPerTrigger", byte_count, None, only=("queue",))
    min_messages: int = option("minMessagesPerTrigger", number(1), "1", only=("queue",))
    max_delay: int = option("maxTriggerDelay", duration(1), "15m", only=("queue",))
    lease: int = option("lease", duration(1_000), "15m", only=("queue",))
    max_wait: int = option("maxWait", duration(0), "1s")
    max_failures: int = option("maxBatchFailures", number(1), "3", only=("queue",))
    handler: str | None = option("handler", function_name, None, only=("queue",))
    handler_columns: tuple[str, ...] = option("handlerColumns", column_names, "body", beside="handler")
    starting: str = option("startingOffsets", text, "earliest", only=("history",))
    fail_on_loss: bool = option("failOnDataLoss", flag, "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(CommonOptions):
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
    shards: int = option("shards", _SHARDS, "0", only=_SEND)
    operation: str = option("operation", one_of(("send", *SETTLES, "redrive")), "send")
    job: str | None = option("jobId", text, None, only=_SEND)
    content_type: str = option("contentType", one_of((JSON, BYTES, "")), only=_SEND)
    id_column: str = option("idColumn", text, only=_SEND)
    key_column: str = option("keyColumn", text, only=_SEND)
    priority_column: str = option("priorityColumn", text, only=_SEND)
    headers_column: str = option("headersColumn", text, only=_SEND)
    delay_column: str = option("delayColumn", text, only=("send", "nack"))
    ttl_column: str = option("ttlColumn", text, only=_SEND)
    rate: int = option("rateLimit", number(0), "0", only=("send", "redrive"))
    canary: int = option("canary", number(0, 1_000), "0", only=("redrive",))
    stage_ttl: int = option("stageTtl", duration(1_000), "1d", only=_SEND)
    max_message_bytes: int = option("maxMessageBytes", byte_count, str(MAX_MESSAGE_BYTES), only=_SEND)
    fail_on_lost: bool = option("failOnLost", flag, "false", only=SETTLES)
    durability: Durability = option("durability", one_of(DURABILITIES), "memory", only=_SEND)  # noqa: RUF009 - a field
    replicas: int = option("replicas", number(1), "1", only=_SEND)

    def __post_init__(self) -> None:
        if self.queue or self.operation == "send":
            queue_name("queue", self.queue)
        if self.job is not None:
            check_job(self.job)

    @property
    def sender(self) -> dict[str, Any]:
        """The settings of the broker that sends."""
        return {name: getattr(self, name) for name in ("durability", "replicas", "max_message_bytes")}

    @property
    def families(self) -> list[str]:
        """The queues to send to."""
        return shards_of(self.queue, self.shards)
