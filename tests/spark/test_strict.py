"""What the function of `foreachBatch` may not do: a batch is not acked if rows of it would be lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rq_dlq
from rq_dlq.spark import check_held, epoch_key, parsed, split
from tests.spark.versions import since
from tests.tables import each_row

pytestmark = since(4, 2)
BODIES = [{"n": 1, "t": 1.5}, {"n": 2, "t": 2}, {"n": "x", "t": 1}, "no object", [1], None]
"""Of which four do not fit `n int, t double`."""


def run(
    spark: SparkSession, sink: Callable[[DataFrame, int], None], folder: Path, queue: str = "orders"
) -> None:
    """A query until what is ready is done."""
    frame = spark.readStream.format("rq_dlq").options(queue=queue).load()
    messages = frame.select("id", "batch", "queue", "body")
    writer = messages.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_of_six_bodies_four_die_and_two_pass(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    """By the first recipe of the page, and the queue's own policy."""
    queue = broker.queue("orders")
    sent = queue.send_many(BODIES)

    def sink(batch: DataFrame, epoch: int) -> None:
        with split(parsed(batch, "n int, t double")) as done:
            check_held(done)
            done.ok.write.mode("overwrite").parquet(f"{tmp_path}/out/epoch={epoch_key(batch, epoch)}")
            done.nack()

    run(spark, sink, tmp_path)
    passed = spark.read.parquet(f"{tmp_path}/out").select("id", "n", "t").collect()
    assert sorted(map(tuple, passed)) == sorted([(sent[0], 1, 1.5), (sent[1], 2, 2.0)])
    letters = [*queue.dlq.browse()]
    assert sorted(letter.id for letter in letters) == sorted(sent[2:])
    assert {letter.reason for letter in letters} == {"poison"}
    assert queue.stats().totals == {"sent": 6, "acked": 2, "poison": 4}


def unentered(batch: DataFrame, _: int, *, how: str) -> None:
    done = split(parsed(batch, "n int, t double"))
    if how == "named":
        done.ok.write.format("noop").mode("append").save()
    elif how == "unpacked":
        ok, bad = done
        ok.write.format("noop").mode("append").save()
        bad.write.format("rq_dlq").option("operation", "nack").mode("append").save()
    elif how == "nacked":
        done.nack()
    else:
        check_held(done)


def leaving(batch: DataFrame, _: int, *, where: str, dropped: bool = False) -> None:
    """Some rows before `split`, or all of a part of it."""
    rows = parsed(batch, "n int, t double")
    with split(rows.where(where) if where in WHERE else rows, dropped=dropped) as done:
        if where != "good":
            done.ok.write.format("noop").mode("append").save()
        if where != "bad":
            done.nack()


WHERE = {
    "n > 0": "4 of 6 messages are not among the rows of split()",
    "n > 9": "6 of 6 messages are not among the rows of split()",
    "queue = 'orders'": "3 of 6 messages are not among the rows of split()",
}
LOST = {
    **{
        f"how={how}": ("split() was not entered", partial(unentered, how=how))
        for how in ("named", "unpacked", "nacked", "held")
    },
    **{where: (says, partial(leaving, where=where)) for where, says in WHERE.items()},
    "good": (
        "2 rows succeeded, and the block of split() did nothing with them",
        partial(leaving, where="good"),
    ),
    "bad": ("4 rows failed, and the block of split() did nothing with them", partial(leaving, where="bad")),
}


@each_row("case", LOST)
def test_a_batch_that_would_lose_rows_is_not_acked(
    case: str, spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    says, sink = LOST[case]
    queues = [broker.queue(name) for name in ("orders", "bills")]
    for number, queue in enumerate(queues):
        queue.send_many(BODIES[number::2])
    folder = tmp_path / case
    with pytest.raises(StreamingQueryException) as failed:
        run(spark, sink, folder, "orders,bills")
    assert says in str(failed.value)
    assert sum(queue.stats().leased for queue in queues) + sum(queue.stats().dead for queue in queues) == 6
    assert not any(queue.stats().totals.get("acked") for queue in queues)
    for queue in queues:
        queue.delete(force=True)


def test_rows_may_be_dropped_if_the_recipe_says_so(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    queue = broker.queue("orders")
    for number, where in enumerate((*WHERE, "good", "bad")):
        sent = [*queue.send_many(BODIES)]
        run(spark, partial(leaving, where=where, dropped=True), tmp_path / str(number))
        assert (queue.stats().waiting, queue.stats().leased, len(sent)) == (0, 0, 6)
    totals: Any = queue.stats().totals
    assert totals["acked"] + totals["poison"] == totals["sent"]


def test_several_blocks_and_rows_may_share_a_batch(
    spark: SparkSession, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    """What a block has nacked is not missed by the next; two rows of a message are not two messages."""
    queue = broker.queue("orders")
    queue.send_many(BODIES)

    def sink(batch: DataFrame, _: int) -> None:
        rows = parsed(batch, "n int, t double")
        for number in range(3):
            with split(rows.union(rows) if number else rows) as done:
                assert (done.failed, done.ok.count()) == ((0, 4) if number else (4, 2))
                done.nack()

    run(spark, sink, tmp_path)
    assert queue.stats().totals == {"sent": 6, "acked": 2, "poison": 4}
