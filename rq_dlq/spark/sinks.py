"""For the function of `foreachBatch`: names that no other epoch has, and a check before the sink commits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from rq_dlq.core.batches.batches import count_lost
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.spark.brokers import USUAL_NAMESPACE, broker_at, resolve
from rq_dlq.spark.offsets import family_of
from rq_dlq.spark.queues import check_origin
from rq_dlq.spark.send import QUERY
from rq_dlq.spark.split import WHOSE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def epoch_key(df: DataFrame, epoch: int) -> str:
    """A name for what a sink writes in one epoch of a query.

        ok.write.mode("overwrite").parquet(f"out/epoch={epoch_key(batch, epoch)}")

    An epoch that is written again has the same name. A query with a new checkpoint has others, although
    Spark counts its epochs from 0 again, so it overwrites nothing that another query has finished.

    Args:
        df: the DataFrame that the function got.
        epoch: the number that it got.

    Raises:
        InvalidInput: it is called elsewhere, or with Spark Connect, which does not say which query it is.
    """
    context = getattr(df.sparkSession, "sparkContext", None)
    query = context and context.getLocalProperty(QUERY)
    if not query:
        raise InvalidInput(
            "epoch_key() works in the function of foreachBatch, in its own thread. With Spark Connect it "
            "does not work: give each checkpoint its own output directory"
        )
    return f"{query}-{epoch}"


def check_held(df: DataFrame, *, url: str | None = None, namespace: str = USUAL_NAMESPACE) -> None:
    """Check that the query still holds these rows: call it after the work and before the sink commits.

    If the driver was frozen for longer than its lease, its messages may be with another consumer by now. The
    error ends the query; when it is started again, it writes the epoch without them.

    Args:
        df: has the columns id and batch; persisted, as by `split`, or its work is done twice.
        url: where Redis is, as for the stream; None: $RQ_DLQ_URL, else the embedded server.
        namespace: of the queue, as for the stream.

    Raises:
        InvalidInput: a column or a row's batch is missing, or the rows are from another server.
        LeaseLost: some rows are not held any more.
        BrokerUnavailable: Redis cannot be reached.
    """
    if missing := [name for name in WHOSE if name not in df.columns]:
        raise InvalidInput(f"check_held() needs the column {', '.join(map(repr, missing))}: pass it through")
    rows: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for token, ids in df.groupBy("batch").agg(sql.collect_set("id")).collect():
        rows[family_of(token)][token] = ids
    broker = broker_at(resolve(url), namespace)
    check_origin(broker, [(family, token) for family, tokens in rows.items() for token in tokens])
    lost = sum(broker._run(count_lost(broker.queue(name)._core.keys, ids)) for name, ids in rows.items())
    if lost:
        raise LeaseLost(
            f"{lost:,} messages of this epoch are not held any more, since their lease ran out (the driver "
            "was frozen, or cut off from Redis), and come again in another: do not commit them. Start the "
            "query again; it writes the epoch without them"
        )
