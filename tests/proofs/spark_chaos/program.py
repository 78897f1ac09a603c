"""The driver that is killed: a Spark program in a process group of its own, told what to do in JSON.

python -m tests.proofs.spark_chaos.program '{"job": "stream", …}'
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rq_dlq import Broker
from rq_dlq import spark as rq_spark
from rq_dlq._redis import Retries
from rq_dlq.spark.schemas import BAD
from tests.proofs.spark_chaos.failpoints import FORMAT, Source, passing
from tests.proofs.spark_chaos.handlers import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = "id string, body binary"
PATIENT = Retries(attempts=None, seconds=30.0)  # of the look whether all is done: what is tried is the query


def say(text: str) -> None:
    """Tell it to who started this."""
    print(text, flush=True)  # noqa: T201 - that is how


def session(master: str, conf: dict[str, str]) -> SparkSession:
    """A small Spark that starts quickly."""
    builder = SparkSession.builder.master(master).appName("chaos")
    usual = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
    }
    executors = {
        f"spark.executorEnv.{name}": value
        for name, value in os.environ.items()
        if name.startswith("CHAOS_") or name == "PYTHONPATH"
    }
    for name, value in (usual | executors | conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(Source)
    return spark


def query(
    spark: SparkSession,
    queue: str,
    place: str,
    handler: str,
    options: dict[str, str],
    *,
    checks: bool,
    between: str,
    losses: int,
    in_source: bool,
) -> StreamingQuery:
    """Start a stream of a queue into a sink that is idempotent by batch.

    Args:
        checks: what it holds, before.
        between: what happens between its two writes: killed, idle; empty: it has but one.
        losses: in how many epochs, once in each.
        in_source: the source calls the handler.
    """
    sink = Path(place) / "sink"

    def write(frame: DataFrame, epoch: int) -> None:
        passing("sinking")
        if checks:
            frame = frame.select("id", "batch", "body").persist()
            frame.count()
            passing("worked")
            rq_spark.check_held(frame, url=options["url"])
        rows = frame.select("id", "body")
        rows = rows.mapInArrow(HANDLERS[handler], ROWS) if handler else rows
        rows.write.mode("overwrite").parquet(str(sink / f"epoch={rq_spark.epoch_key(frame, epoch)}"))
        passing("sunk")  # the batch is not in the commit log

    def write_both(frame: DataFrame, epoch: int) -> None:
        passing("sinking")
        if not in_source:
            frame = frame.select("id", "batch", "body").mapInArrow(HANDLERS[handler], BAD)
        with rq_spark.split(frame, url=options["url"]) as done:
            rq_spark.check_held(done)
            done.ok.select("id").write.mode("overwrite").parquet(
                str(sink / f"epoch={rq_spark.epoch_key(frame, epoch)}")
            )
            mark = Path(place) / f"{between}-{epoch}"
            if not mark.exists() and len(list(mark.parent.glob(f"{between}-*"))) < losses:
                mark.touch()
                lose_an_executor(between)
                passing(between)
            done.nack()

    source = spark.readStream.format(FORMAT).option("queue", queue).options(**options)
    if in_source:
        source = source.schema(BAD).option("handler", f"tests.proofs.spark_chaos.handlers:{handler}")
    writer = (
        source.load()
        .writeStream.foreachBatch(write_both if between else write)
        .option("checkpointLocation", str(Path(place) / "checkpoint"))
    )
    return writer.start()


def lose_an_executor(how: str) -> None:
    """Kill one that has a part of the output, or let Spark take them away."""
    if how == "idle":
        time.sleep(20)  # four times what they may be idle
        return
    executors: list[psutil.Process] = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            executors += [each] if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()) else []
    random.choice(executors).kill()
    time.sleep(1)  # until the driver has noticed


def stream(
    spark: SparkSession,
    *,
    url: str,
    queue: str,
    places: list[str],
    handler: str = "",
    failures: int = 0,
    checks: bool = False,
    between: str = "",
    losses: int = 0,
    in_source: bool = False,
    endless: bool = False,
    options: dict[str, str],
) -> None:
    """Process a queue until nothing is left in it, by one query for each place; again after a failure.

    Args:
        endless: do not end, even if nothing is left.
    """
    broker = Broker(url, retries=PATIENT)
    options = {"url": url, "maxWait": "200ms", "numPartitions": "2", **options}

    def start(place: str) -> StreamingQuery:
        return query(
            spark, queue, place, handler, options,
            checks=checks, between=between, losses=losses, in_source=in_source,
        )  # fmt: skip

    queries = {place: start(place) for place in places}
    say("started")
    failed = 0
    while True:
        stats = broker.queue(queue).stats()
        if stats.waiting + stats.leased == 0 and not endless:
            break
        time.sleep(0.1)
        for place, running in queries.items():
            if running.isActive:
                continue
            failed += 1
            say(f"failed {failed}: {_reason(running)}")
            if failed > failures:
                sys.exit(f"a query failed {failed} times")
            queries[place] = start(place)
    for running in queries.values():
        running.stop()


def _reason(ended: StreamingQuery) -> str:
    try:
        ended.awaitTermination(1)
    except StreamingQueryException as error:
        return str(error)
    return "it ended"


def write(spark: SparkSession, *, url: str, writes: list[dict[str, Any]]) -> None:
    """Write numbers to queues, each under the id of a job."""
    for each in writes:
        first, count = each["first"], each["count"]
        rows = spark.range(first, first + count, 1, 4).selectExpr("cast(id as string) as body")
        writer = rows.write.format(FORMAT).options(url=url, queue=each["queue"], jobId=each["job"])
        say(f"writing {each['job']}")
        writer.mode("append").save()
        say(f"written {each['job']}")


def read(spark: SparkSession, *, url: str, queue: str, place: str) -> None:
    """Read a queue as a table, slowly, into files."""
    rows = spark.read.format(FORMAT).options(url=url, queue=queue, numPartitions="8").load()
    say("reading")
    slowly = rows.select("id", "body").mapInArrow(HANDLERS["slow"], ROWS)
    bodies = slowly.selectExpr("replace(cast(body AS string), '\"', '') body")
    bodies.write.parquet(f"{place}/sink/epoch=0")


def stream_write(spark: SparkSession, *, url: str, queue: str, source: str, place: str) -> None:
    """Write files to a queue, each as a batch of its own, until all are."""
    frame = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).parquet(source)
    writer = frame.writeStream.format(FORMAT).options(url=url, queue=queue, checkpointLocation=place)
    running = writer.trigger(availableNow=True).start()
    say("started")
    running.awaitTermination()


JOBS: dict[str, Callable[..., None]] = {each.__name__: each for each in (stream, write, read, stream_write)}


def main() -> None:
    """Do what the argument says."""
    told = json.loads(sys.argv[1])
    spark = session(told.pop("master"), told.pop("conf"))
    JOBS[told.pop("job")](spark, **told)
    spark.stop()


if __name__ == "__main__":
    main()
