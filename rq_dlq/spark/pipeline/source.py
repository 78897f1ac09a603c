"""The queues of a run, and how Spark reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rq_dlq.client.broker import Broker
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.option_values import queue_names, queue_text
from rq_dlq.spark.queues import chosen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rq_dlq.spark.pipeline.settings import PipelineSettings


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
    def of(cls, spark: SparkSession, settings: PipelineSettings) -> Source:
        """Find the queues.

        Raises:
            InvalidInput: there is no such queue.
            BrokerUnavailable: Redis cannot be reached.
        """
        url = resolve(settings.url)
        return cls(spark, url, settings.namespace, names_of(url, settings))

    @property
    def broker(self) -> Broker:
        """The broker of this process."""
        return broker_at(self.url, self.namespace)

    def read(self, view: str, **options: str) -> DataFrame:
        """A view of these queues."""
        queue = queue_text(self.names)
        given = {"url": self.url, "namespace": self.namespace, "queue": queue, "view": view}
        return self.spark.read.format("rq_dlq").options(**given, **options).load()


def names_of(url: str, settings: PipelineSettings) -> tuple[str, ...]:
    """The names of the queues that the settings choose.

    Raises:
        InvalidInput: there is no such queue.
        BrokerUnavailable: Redis cannot be reached.
    """
    with Broker(url, namespace=settings.namespace) as broker:  # gives up sooner than those of tasks
        return tuple(sorted(chosen(broker, queue_names("queue", settings.queue), 0)))
