"""Settles and redrives by rows: tasks collect the messages, and the driver acts after all tasks succeeded.

A message is settled by its id and the token of the batch that holds it. So a repetition changes nothing, and
neither does a row whose lease was lost.

A redrive by rows is a redrive job, one for each queue, begun by the driver from the ids that the tasks have
collected. With a canary the driver does not wait: the outcome of the messages may depend on a query that it
starts afterwards. If the job is stopped, the write fails: an operator may leave it paused for days, and what
runs afterwards must not take it for done.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling.outages import log_ended, log_opened
from rq_dlq.core.steps.step import CHANGED, CHUNK, Pipeline, Steps, chunks, seed
from rq_dlq.errors import InvalidInput, LeaseLost, Poison, RqDlqError
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.offsets import family_of, query_of
from rq_dlq.spark.outgoing import SPANS, TEXT, cells, check_types, spans
from rq_dlq.spark.queues import check_origin, check_queues
from rq_dlq.spark.schemas import ERROR
from rq_dlq.spark.send import EXECUTION, QUERY, ROOT, SPLIT
from rq_dlq.values.failure import Cause
from rq_dlq.values.names import Naming

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Call
    from rq_dlq.spark.options import WriteOptions
    from rq_dlq.values.settlement import Settlement

    Part: TypeAlias = tuple[QueueState[Any], "Fate", Sequence[str]]

logger = logging.getLogger("rq_dlq.spark")
TOGETHER = 500  # acks in one round trip; other operations take Redis longer, and run one chunk at a time
POISON = Cause.of(Poison()).type  # it is the message's own fault


@dataclass(frozen=True)
class Rows(WriterCommitMessage):
    """The rows that one task has collected.

    Attributes:
        ids: by their settlements.
        follows: the epoch had another action before, and no `split`.
    """

    ids: dict[Any, list[str]]
    follows: bool = False


def _follows() -> bool:
    """Whether this task is of an epoch that had another action before, and no `split`."""
    context: Any = TaskContext.get()
    properties = (QUERY, EXECUTION, ROOT, SPLIT)
    query, execution, root, kept = map(context.getLocalProperty, properties) if context else (None,) * 4
    if query is None or execution is None or root is None:
        return False
    return execution not in {root, str(int(root) + 1)} and kept != root


class ByRows:
    """The common part of `ack`, `nack`, `discard` and `redrive`."""

    def __init__(self, options: WriteOptions) -> None:
        url = resolve(options.url)
        self._options = replace(options, url=url)
        families = [Naming().resolve(options.queue).family] if options.queue else []
        check_queues(url, options.namespace, families)

    @property
    def _broker(self) -> Broker:
        return broker_at(self._options.url or "", self._options.namespace)

    def keys(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The settlement of each row."""
        raise NotImplementedError

    def write(self, batches: Iterator[pa.RecordBatch]) -> Rows:
        """Collect the rows of one task."""
        ids: defaultdict[Any, list[str]] = defaultdict(list)
        for batch in batches:
            for name, key in zip(cells(batch, "id"), self.keys(batch), strict=True):
                if name is None:
                    raise InvalidInput("a row has no id: filter out such rows")
                ids[key].append(name)
        return Rows(dict(ids), _follows())

    def abort(self, messages: Sequence[Rows | None]) -> None:
        """Do nothing: no message was changed yet."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The settlement of rows.

    Attributes:
        token: of the batch that holds them.
        kind: the class of the error.
        text: of the error.
        delay: milliseconds; None: by the policy.
    """

    token: str
    kind: str = ""
    text: str = ""
    delay: int | None = None


class Settle(ByRows):
    """The operations `ack`, `nack` and `discard`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        errors = ERROR if options.operation != "ack" else ()
        self._errors = [name for name in errors if name in schema.fieldNames()]
        texts = dict.fromkeys(("id", "batch", *self._errors), TEXT)
        check_types(schema, texts | {options.delay_column: SPANS})
        self._handled = len(self._errors) > 1 and all(schema[name].nullable for name in self._errors)
        super().__init__(options)

    def keys(self, batch: pa.RecordBatch) -> Iterator[Fate]:
        """The settlement of each row."""
        tokens = cells(batch, "batch")
        for token in set(tokens):
            family_of(token, self._options.queue)
        kinds, texts = (cells(batch, name if name in self._errors else "") for name in ERROR)
        delays = spans(cells(batch, self._options.delay_column), "delay", 0, None)
        for token, kind, text, delay in zip(tokens, kinds, texts, delays, strict=True):
            yield Fate(token, kind or "", text or "", delay)

    def commit(self, messages: Sequence[Rows | None], _batch: int = 0) -> None:
        """Settle the rows.

        Raises:
            InvalidInput: the rows are from another server; none is settled.
            LeaseLost: some rows lost their lease, and `failOnLost` is set; the others are settled.
        """
        broker, verb = self._broker, self._options.operation
        fates = [item for message in filter(None, messages) for item in message.ids.items()]
        families = {fate.token: family_of(fate.token, self._options.queue) for fate, _ in fates}
        check_origin(broker, [(family, token) for token, family in families.items()])
        queues = {family: broker.queue(family)._core for family in set(families.values())}
        rows = [(queues[families[fate.token]], fate, ids) for fate, ids in fates]
        settled, lost = broker._run(_settle_all(verb, rows))
        if fates and self._handled and any(message.follows for message in filter(None, messages)):
            logger.warning(
                "%s: %d rows failed, and split() was not called. If another write of this epoch takes the "
                "output of the same handler, Spark runs it for each write: a row that fails in one alone is "
                "lost or doubled. Use split(), which runs it once",
                verb, settled + lost,
            )  # fmt: skip
        if lost:
            text = f"{verb}: {settled:,} rows; {lost:,} more were not changed: their lease was lost"
            if self._options.fail_on_lost:
                raise LeaseLost(text)
            logger.warning("%s", text)


def _windows(rows: Iterable[Part], size: int, most: int) -> Iterator[list[Part]]:
    """Windows of at most `most` rows, for one round trip each, of parts of at most `size`."""
    window: list[Part] = []
    room = most
    for queue, fate, ids in rows:
        for chunk in chunks(ids, size):
            if room < len(chunk):
                yield window
                window, room = [], most
            window.append((queue, fate, chunk))
            room -= len(chunk)
    if window:
        yield window


def _call(verb: str, queue: QueueState[Any], fate: Fate, ids: Sequence[str]) -> Call[list[Settlement]]:
    held = [(name, fate.token) for name in ids]
    cause = Cause.named(fate.kind, fate.text)
    if verb == "ack":
        return settling_calls.ack(queue.keys, held)
    if verb == "discard" or fate.kind == POISON:  # as where a worker's handler raises it
        return settling_calls.poison(
            queue.keys, held, reason="poison", cause=cause, consumer=queue.consumer, seed=seed(),
            default_policy=queue.policy,
        )  # fmt: skip
    return settling_calls.nack(
        queue.keys, held, delay=fate.delay, charge=True, cause=cause, consumer=queue.consumer, seed=seed(),
        default_policy=queue.policy, counts=True,
    )  # fmt: skip


def _settle_all(verb: str, rows: Iterable[Part]) -> Steps[tuple[int, int]]:
    """Settle the rows; how many were settled, and how many were not.

    What queries do not hold any more is noted for them, so that they miss none when they ack the rest.
    """
    settled, lost = Counter[tuple[QueueKeys, str | None]](), 0
    for window in _windows(rows, *((CHUNK, TOGETHER) if verb == "ack" else (CHANGED, CHANGED))):
        replies: list[list[Settlement]] = yield Pipeline([_call(verb, *part) for part in window])
        for (queue, fate, _), settlements in zip(window, replies, strict=True):
            log_opened(queue, settlements)
            yield from log_ended(queue, settlements)
            good = sum(map(bool, settlements))
            settled[queue.keys, query_of(fate.token)] += good
            lost += len(settlements) - good
    for (keys, query), count in settled.items():
        if query and count:
            yield Pipeline([batch_calls.note_settled(keys, query, count), batch_calls.remember(keys, query)])
    return settled.total(), lost


class RedriveRows(ByRows):
    """The operation `redrive`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._column = "queue" if "queue" in schema.fieldNames() or not options.queue else ""
        check_types(schema, dict.fromkeys(("id", self._column), TEXT))
        super().__init__(options)

    def keys(self, batch: pa.RecordBatch) -> Iterator[str]:
        """The queue of each row."""
        names = [name or self._options.queue for name in cells(batch, self._column)]
        if not all(names):
            raise InvalidInput("a row has no queue: filter out such rows, or set the option queue")
        return iter(names)

    def commit(self, messages: Sequence[Rows | None], _batch: int = 0) -> None:
        """Redrive the rows that are dead or expired, by a job for each queue; others are left alone.

        With a canary it only begins the jobs, which workers and maintenance continue.

        Raises:
            InvalidInput: the rows are from another server, or a queue has too many redrives already.
            RqDlqError: a job was paused, cancelled or undone before its end.
        """
        broker, options = self._broker, self._options
        terms: dict[str, Any] = {"rate": options.rate or None, "canary": options.canary or None}
        wanted: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for message in filter(None, messages):
            for name, ids in message.ids.items():
                wanted[name] |= dict.fromkeys(ids)
        check_origin(broker, [(name, "") for name in wanted])
        jobs = [
            letters.redrive(ids=[*ids], detach=options.canary > 0, **terms)
            for name, ids in wanted.items()
            for queue in [broker.queue(broker.queue(name)._core.keys.family)]
            for letters in (queue.dlq, queue.expired)
        ]
        for job in jobs if not options.canary else ():
            job.wait()
        if stopped := [job for job in jobs if not options.canary and job.state != "done"]:
            raise RqDlqError(
                f"the redrive was stopped: {', '.join(map(str, stopped))}. A paused one goes on if you "
                "resume it (`rq-dlq dlq jobs QUEUE ID resume`); another write begins a new one for the rest"
            )
        if left := sum(map(len, wanted.values())) - (found := sum(job.counts.eligible for job in jobs)):
            logger.warning("redrive: %d rows; %d more were not changed, since they are not dead", found, left)
