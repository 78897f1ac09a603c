"""Spark on a cluster of three nodes: what is read, written and streamed lies on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rq_dlq
from rq_dlq.spark import foreach_message
from tests.audit import audit
from tests.servers.clusters import Cluster, emptied
from tests.spark.test_stream import Collected, run, streams

QUEUES = ["orders", "bills", "invoices"]  # one on each node


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[Any]:
    """A plain client of the empty cluster; afterwards every queue is looked at."""
    with emptied(cluster) as client:
        yield client
        for family in client.smembers("rq:queues"):
            audit(client, family.decode())


@pytest.fixture
def broker(cluster: Cluster, raw: Any) -> Iterator[rq_dlq.Broker]:
    """A broker on the cluster."""
    del raw
    with rq_dlq.Broker(cluster.url) as broker:
        yield broker


def test_queues_are_apart(cluster: Cluster) -> None:
    assert len({cluster.owner(f"{{{name}}}").port for name in QUEUES}) == 3


def test_written_and_read(spark: SparkSession, broker: rq_dlq.Broker, cluster: Cluster) -> None:
    """Of all queues at once, the living and the dead."""
    broker.policies.set("#", dead_letter=rq_dlq.SharedDeadLetterStrategy("graveyard"))
    frame = spark.createDataFrame([(str(number),) for number in range(20)], "body string")
    frame.write.format("rq_dlq").options(url=cluster.url, queue="orders").mode("append").save()
    for name in QUEUES:
        broker.queue(name).send_many(range(3))
        broker.queue(name).claim(1)[0].poison("bad")
    read = spark.read.format("rq_dlq").options(url=cluster.url, queue="*")
    assert read.load().count() == 20 + 2 * 3
    assert read.option("view", "dlq").load().count() == 3


@streams
def test_streamed(spark: SparkSession, broker: rq_dlq.Broker, cluster: Cluster, tmp_path: Path) -> None:
    """From a node that is not the one of the URL."""
    name = next(name for name in QUEUES if f":{cluster.owner(f'{{{name}}}').port}" not in cluster.url)
    sent, sink = broker.queue(name).send_many(range(50)), Collected()
    run(spark, sink, tmp_path, url=cluster.url, queue=name)
    assert sink.ids == sorted(sent)
    assert broker.queue(name).stats().totals["acked"] == 50


def test_pulled(spark: SparkSession, broker: rq_dlq.Broker, cluster: Cluster) -> None:
    seen = spark.sparkContext.accumulator(0)
    broker.queue("invoices").send_many(range(20))
    foreach_message(spark, "invoices", seen.add, parallelism=2, url=cluster.url)
    assert seen.value == sum(range(20))
