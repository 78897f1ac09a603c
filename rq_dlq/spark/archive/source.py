"""The queues of a run: how Spark reads them, and how their archived events are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rq_dlq.client.broker import Broker
from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.option_values import queue_names, queue_text
from rq_dlq.spark.queues import all_chosen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Source:
    """The queues of a run.

    Attributes:
        url: of Redis, with its password; never shown.
        names: of the queues, sorted.
    """

    spark: SparkSession
    url: str = field(repr=False)
    namespace: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, spark: SparkSession, url: str | None, namespace: str, queue: str) -> Source:
        """Find the queues.

        Raises:
            InvalidInput: there is no such queue.
            BrokerUnavailable: Redis cannot be reached.
        """
        address = resolve(url)
        with Broker(address, namespace=namespace) as broker:  # gives up sooner than those of tasks
            names = tuple(sorted(all_chosen(broker.queues(), queue_names("queue", queue), 0)))
        return cls(spark, address, namespace, names)

    @property
    def broker(self) -> Broker:
        """The broker of this process."""
        return broker_at(self.url, self.namespace)

    def read(self, view: str, **options: str) -> DataFrame:
        """A view of these queues."""
        queue = queue_text(self.names)
        given = {"url": self.url, "namespace": self.namespace, "queue": queue, "view": view}
        return self.spark.read.format("rq_dlq").options(**given, **options).load()

    def trim(self, last_events: Mapping[str, str]) -> int:
        """Drop the events up to these, by queue, from Redis; returns how many."""
        trimmed = 0
        for name, last in last_events.items():
            keys = self.broker.queue(name)._core.keys
            trimmed += self.broker._run(self.broker._step(looking_calls.trim(keys, through=last)))
        return trimmed
