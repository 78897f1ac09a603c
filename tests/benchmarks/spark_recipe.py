"""The recipe of the page on Spark, by part, beside what else would do the work, in one session.

Each row is a message of a queue; a handler makes a number of its body, and Parquet is the sink. `by_row` and
`by_batch` are the recipe, with `split`, `check_held` and `nack`; nothing fails. `in the source`: the handler
is an option of the stream, in place of `mapInArrow`. What else there is: the queue alone, into the format
`noop`; Spark's own source `rate-micro-batch` into Parquet, whose rows nobody handles; and a Redis stream,
read by XREADGROUP in `mapInArrow`: acked in the task, which loses rows where a task fails; and kept and acked
when both outputs are written, as the recipe does, without dead letters. Time and CPU are of so many whole
batches, from the first that is warm, and of all processes. What Java compiles is in it.

    python -m tests.benchmarks.spark_recipe --batches 20 --rounds 3
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from tests import servers
from tests.benchmarks.heading import heading
from tests.benchmarks.spark_read import session

ROWS = 50_000  # in a batch
WARM_UP = 3  # batches
NAME, GROUP = "bench", "tasks"
BODY = b"19.90"
OUT = "id string, batch string, total double, error_class string, error_message string"
SUMS = "id string, total double, error string"
PARTS = ("JVM", "tasks", "source", "driver", "Redis")
PEER = "XREADGROUP, acked after the sink"
Sink = Callable[[Any, int], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a row took.

    Attributes:
        parts: µs of CPU, by kind of process.
        rate: rows a second.
    """

    parts: dict[str, float]
    rate: float

    @property
    def whole(self) -> float:
        """µs of CPU of all."""
        return sum(self.parts.values())


class Meter:
    """Reads how much CPU the processes of a session and Redis have spent."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._me = psutil.Process()
        self._seen: dict[psutil.Process, tuple[str, float]] = {}  # also those that have ended

    def read(self) -> tuple[float, dict[str, float]]:
        """The time, and seconds of CPU by kind of process."""
        parts = dict.fromkeys(PARTS, 0.0)
        for each in [self._me, *self._me.children(recursive=True)]:
            try:
                spent, command = each.cpu_times(), " ".join(each.cmdline())
            except psutil.Error:
                continue
            part, seconds = self._part(each, command), spent.user + spent.system
            if "daemon" in command:  # it reaps its workers
                parts[part] += seconds + spent.children_user + spent.children_system
            elif "redis-server" not in command:
                self._seen[each] = part, seconds
        for part, seconds in self._seen.values():
            parts[part] += seconds
        cpu = self._raw.info("cpu")
        parts["Redis"] = float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])
        return time.monotonic(), parts

    def _part(self, process: psutil.Process, command: str) -> str:
        if process.pid == self._me.pid:
            return "driver"
        if "java" in command.partition(" ")[0]:
            return "JVM"
        return "tasks" if command.endswith("pyspark.worker") else "source"


class Stretch:
    """The batches between the first and the last that count."""

    def __init__(self, meter: Meter, batches: int) -> None:
        self._meter, self._batches = meter, batches
        self._began: tuple[float, dict[str, float]] | None = None
        self._cost: Cost | None = None
        self.over = threading.Event()

    def begin(self, epoch: int) -> bool:
        """A batch begins; whether it is still wanted."""
        if epoch == WARM_UP:
            self._began = self._meter.read()
        if self._began and epoch == WARM_UP + self._batches:
            ended, (then, before) = self._meter.read(), self._began
            rows = ROWS * self._batches
            parts = {name: (ended[1][name] - before[name]) / rows * 1e6 for name in PARTS}
            self._cost = Cost(parts, rows / (ended[0] - then))
            self.over.set()
        return not self.over.is_set()

    @property
    def cost(self) -> Cost:
        """Of these batches."""
        if self._cost is None:
            message = "the batches did not come about"
            raise RuntimeError(message)
        return self._cost


def streamed(source: Any, sink: Sink, stretch: Stretch) -> Cost:
    """What a query over a source into a sink takes."""

    def write(frame: Any, epoch: int) -> None:
        if stretch.begin(epoch):
            sink(frame, epoch)

    with tempfile.TemporaryDirectory() as folder:
        query = source.writeStream.foreachBatch(write).option("checkpointLocation", folder).start()
        try:
            while not stretch.over.wait(0.2):
                if not query.isActive:
                    raise RuntimeError(query.exception())
        finally:
            query.stop()
    return stretch.cost


def number(row: dict[str, Any]) -> dict[str, Any]:
    """The handler of a row."""
    return {"total": float(row["body"])}


def numbers(batch: pa.RecordBatch) -> dict[str, Any]:
    """The handler of many rows."""
    return {"total": pc.cast(pc.cast(batch["body"], pa.string()), pa.float64())}


def recipe(handle: Any, url: str, out: Path) -> Sink:
    """The sink of the page; None: the source has called the handler."""
    from rq_dlq.spark import check_held, epoch_key, split  # noqa: PLC0415 - once the session is made

    def sink(batch: Any, epoch: int) -> None:
        with split(batch if handle is None else batch.mapInArrow(handle, OUT), url=url) as done:
            check_held(done)
            done.ok.write.mode("overwrite").parquet(f"{out}/epoch={epoch_key(batch, epoch)}")
            done.nack()

    return sink


Job = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def consumed(url: str, rows: int, *, ack: bool) -> Job:
    """What a task does that reads a Redis stream by itself.

    Args:
        ack: as it goes; otherwise it first reads what is pending since an attempt failed.
    """

    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raw: Any = redis.Redis.from_url(url)
        for batch in batches:
            left, name, last = rows, f"task-{batch.column(0)[0].as_py()}", ">" if ack else "0"
            while left:
                found = raw.xreadgroup(GROUP, name, {"stream": last}, count=min(500, left))
                if not found or not (entries := found[0][1]):
                    last = ">"
                    continue
                ids = [entry_id.decode() for entry_id, _ in entries]
                totals = [float(fields[b"body"]) for _, fields in entries]
                errors = pa.nulls(len(ids), pa.string())
                yield pa.RecordBatch.from_pydict({"id": ids, "total": totals, "error": errors})
                if ack:
                    raw.xack("stream", GROUP, *ids)
                last = last if last == ">" else ids[-1]
                left -= len(entries)

    return consume


def acked(url: str) -> Job:
    """A task that acks the entries that it gets."""

    def ack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raw: Any = redis.Redis.from_url(url)
        for batch in batches:
            ids = batch.column(0).to_pylist()
            if ids:
                raw.xack("stream", GROUP, *ids)
            yield batch.slice(0, 0)

    return ack


def by_xreadgroup(spark: Any, url: str, out: Path, stretch: Stretch, *, safely: bool) -> Cost:
    """What jobs of two tasks take that read a Redis stream."""
    job, epoch = consumed(url, ROWS // 2, ack=not safely), 0
    while stretch.begin(epoch):
        rows = spark.range(0, 2, 1, 2).mapInArrow(job, SUMS)
        rows = rows.localCheckpoint() if safely else rows
        rows.where("error is null").drop("error").write.mode("overwrite").parquet(f"{out}/epoch={epoch}")
        if safely:
            rows.where("error is not null").write.mode("overwrite").parquet(f"{out}/failed={epoch}")
            rows.select("id").mapInArrow(acked(url), "id string").count()
            rows.unpersist()
        epoch += 1
    return stretch.cost


def fill_stream(raw: Any, entries: int) -> None:
    """A Redis stream of so many."""
    raw.delete("stream")
    raw.xgroup_create("stream", GROUP, "0", mkstream=True)
    for _ in range(0, entries, 1_000):
        pipe = raw.pipeline(transaction=False)
        for _ in range(1_000):
            pipe.xadd("stream", {"body": BODY})
        pipe.execute()


def compare(path: str, batches: int, rounds: int) -> Table:
    """All of them, turn and turn about."""
    from rq_dlq.spark import by_batch, by_row  # noqa: PLC0415 - once the session is made

    raw, url = redis.Redis(unix_socket_path=path), f"unix://{path}"
    spark, meter, wanted = session(), Meter(raw), batches + WARM_UP + 2
    needed = "id string, batch string, body binary"  # only these columns are read
    handler = {"handler": "tests.spark.handlers:many_totals"}  # as `numbers`

    def messages(sink: Sink, schema: str = needed, **given: str) -> Cost:
        with Broker(url) as broker:
            broker.queue(NAME).send_many(BODY for _ in range(ROWS * wanted))
        options = {"url": url, "queue": NAME, "maxMessagesPerTrigger": ROWS, **given}
        source = spark.readStream.format("rq_dlq").schema(schema).options(**options).load()
        found = streamed(source, sink, Stretch(meter, batches))
        raw.flushall()
        return found

    def rate(out: Path) -> Cost:
        options = {"rowsPerBatch": ROWS, "numPartitions": 2}
        source = spark.readStream.format("rate-micro-batch").options(**options).load()

        def sink(batch: Any, epoch: int) -> None:
            batch.write.mode("overwrite").parquet(f"{out}/{epoch}")

        return streamed(source, sink, Stretch(meter, batches))

    def stream(out: Path, *, safely: bool = False) -> Cost:
        fill_stream(raw, ROWS * wanted)
        found = by_xreadgroup(spark, url, out, Stretch(meter, batches), safely=safely)
        raw.flushall()
        return found

    runs: dict[str, Callable[[Path], Cost]] = {
        "rate-micro-batch into Parquet": rate,
        "a queue into noop": lambda _: messages(
            lambda batch, _: batch.write.format("noop").mode("overwrite").save()
        ),
        "the recipe, by_row": lambda out: messages(recipe(by_row(number, OUT), url, out)),
        "the recipe, by_batch": lambda out: messages(recipe(by_batch(numbers, OUT), url, out)),
        "the recipe, by_batch in the source": lambda out: messages(recipe(None, url, out), OUT, **handler),
        "XREADGROUP, acked in the task": stream,
        PEER: partial(stream, safely=True),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            with tempfile.TemporaryDirectory() as folder:
                costs[name].append(run(Path(folder)))
    spark.stop()
    return shown({name: medians(found) for name, found in costs.items()}, batches, rounds)


def medians(costs: list[Cost]) -> Cost:
    """Of each part."""
    parts = {name: median(cost.parts[name] for cost in costs) for name in PARTS}
    return Cost(parts, median(cost.rate for cost in costs))


def shown(costs: dict[str, Cost], batches: int, rounds: int) -> Table:
    """As a table."""
    peer = costs[PEER]
    title = f"µs of CPU a row; medians of {rounds} rounds of {batches} batches of {ROWS:,} rows"
    columns = (*PARTS, "all", "of the last", "rows/s", "of the last")
    table = Table("", *columns, title=title)
    for name, cost in costs.items():
        parts = [f"{cost.parts[part]:.1f}" for part in PARTS]
        ratios = f"{cost.whole / peer.whole:.2f}", f"{cost.rate:,.0f}", f"{cost.rate / peer.rate:.2f}"
        table.add_row(name, *parts, f"{cost.whole:.1f}", *ratios)
    table.add_row("goal for the recipe", "", "", "", "", "≤ 6", "≤ 30", "", "", "")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args(arguments)
    console = Console(width=130)
    with servers.running() as path:
        console.print(heading(__spec__.name, path))
        console.print(compare(path, chosen.batches, chosen.rounds))


if __name__ == "__main__":
    main()
