"""`spark.readStream.format("rq_dlq")`: the methods that Spark calls on a streaming source."""

from __future__ import annotations

import atexit
import logging
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rq_dlq._keys import QueueKeys
from rq_dlq.errors import ConfigurationError, RqDlqError
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.errors import without_traceback
from rq_dlq.spark.heartbeat import Heartbeat
from rq_dlq.spark.offsets import FORMAT, Offset, QueueOffset
from rq_dlq.spark.partitions import read_slices
from rq_dlq.spark.query import Query
from rq_dlq.spark.queues import all_chosen, check_queues
from rq_dlq.spark.split import check_handler, columns_to_read, handler_of
from rq_dlq.spark.subscription import Backlog
from rq_dlq.values.cached import cached_property

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rq_dlq.spark.options import StreamOptions

logger = logging.getLogger("rq_dlq.spark")


class Driver:
    """The query and the heartbeat of its batches. It exists once, in the Python process beside the driver."""

    def __init__(self, options: StreamOptions, url: str) -> None:
        check_queues(url, options.namespace)
        self.broker = broker = broker_at(url, options.namespace)
        self.run = broker._run  # the steps of an operation
        self._namespace = options.namespace
        self.drawn = secrets.token_hex(6)  # the id of the query, if it is new
        self.backlog = Backlog(options, lambda family: broker.queue(family)._core)
        self.keeper = Heartbeat(broker, options.lease)
        self.query = Query(options, self.backlog, secrets.token_hex(4))
        self._beside = ThreadPoolExecutor(1, "rq-dlq claims")
        self._ahead: Future[None] | None = None
        signal.signal(signal.SIGTERM, end_process)
        atexit.register(self.stop)  # the signal may come as Spark's process enters `stop()`

    def advance(self, before: Offset, most: int) -> Offset:
        """The offset of the next batch. While Spark works on it, the one after it is claimed."""
        if self._ahead is not None:
            self._ahead.result()
        after = self.run(self.query.advance(before, most))
        if after != before:
            self.keep(before, after)
            self._ahead = self._beside.submit(self._work_ahead, before, after, most)
        return after

    def _work_ahead(self, before: Offset, now: Offset, most: int) -> None:
        self.keep(now, self.run(self.query.work_ahead(now, most)))
        for family in before.queues:  # acked
            self.keeper.drop(QueueKeys(self._namespace, family), before.tokens(family))

    def stop(self) -> None:
        """Release the batches that are claimed ahead, and stop renewing leases.

        The batch that Spark was given stays leased, so that the query can be started again with it. A second
        call does nothing.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._beside.shutdown(cancel_futures=True)
        try:
            self.run(self.query.release_ahead())
        except RqDlqError as error:
            logger.warning("messages claimed ahead stay leased until their lease ends: %s", error)
        finally:
            self.keeper.stop()

    def keep(self, start: Offset, end: Offset) -> None:
        """Renew the leases of the batches between the two offsets."""
        tokens = {
            QueueKeys(self._namespace, family): [*end.tokens(family), *self.query.aside.get(family, ())]
            for family in end.since(start)
        }
        self.keeper.keep(tokens)


def end_process(*_: object) -> None:
    """End the process that Spark has started for a source, but let it call `stop()` first."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends several
    sys.exit()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Claimed batches as offsets; `query` explains how.

    It lives in a Python process beside the driver as long as the query runs. Copies of it go to executors,
    where only `read` is called.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._url = resolve(options.url)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_driver"}

    @cached_property
    def _driver(self) -> Driver:
        if self._options.handler:
            check_handler(self._options.handler, self._schema)
        return Driver(self._options, self._url)

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """The offset before the first batch of a new query. Spark asks twice."""
        driver, options = self._driver, self._options
        known = all_chosen(driver.broker.queues(), options.queues, options.shards, whole=True)
        return Offset(driver.drawn, dict.fromkeys(known, QueueOffset()), FORMAT).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxMessagesPerTrigger`."""
        return ReadMaxRows(self._options.max_messages)

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Ack all batches up to `start`, which Spark has committed; claim the next one."""
        if not isinstance(limit, ReadMaxRows):  # Spark passes another limit for trigger(once=True)
            raise ConfigurationError(
                "trigger(once=True) ends before its batch is acked, so the batch would be delivered again: "
                "use trigger(availableNow=True)"
            )
        return self._driver.advance(Offset.of(start), limit.max_rows).as_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The lag for the progress report, by queue: see `Backlog.lag`; `ahead`: messages claimed ahead."""
        driver = self._driver
        lag = driver.run(driver.backlog.lag())
        return {**lag, "ahead": dict.fromkeys(lag["backlog"], 0) | driver.query.ahead}

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Claim only as many messages as are ready now."""
        self._driver.run(self._driver.backlog.bound())

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The messages of the batch `end`, as far as it still holds them."""
        before, batch = Offset.of(start), Offset.of(end)
        self._driver.keep(before, batch)  # immediately: the driver may have been down for nearly a lease
        shares = self._driver.run(self._driver.query.plan(before, batch))
        self._driver.keep(before, batch)  # and the halves that planning has parked
        return list(map(InputPartition, shares)) or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a share, in an executor: the same messages at each try."""
        broker = broker_at(self._url, self._options.namespace)
        columns = columns_to_read(self._options, self._schema)
        found = read_slices(partition.value, broker, columns, self._options.fetch_size)
        handler = self._options.handler
        yield from handler_of(handler, self._schema)(found) if handler else found

    def stop(self) -> None:
        """Release the batches that are claimed ahead, and stop renewing leases."""
        if "_driver" in self.__dict__:
            self._driver.stop()


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises an error of the options at the first call.

    Spark hides an error that is raised while it creates the reader behind one of its own. It shows errors of
    the reader's methods.
    """

    def __init__(self, why: RqDlqError) -> None:
        self._why = why

    @without_traceback
    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._why

    initialOffset = latestOffset = prepareForTriggerAvailableNow = partitions = read = _refuse  # noqa: N815
