"""For the function of `foreachBatch`: names that no other epoch has, and a check before the sink commits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.batches.batches import count_lost, held_by
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.spark.brokers import USUAL_NAMESPACE, broker_at, resolve
from rq_dlq.spark.offsets import family_of
from rq_dlq.spark.queues import check_origin
from rq_dlq.spark.schemas import WHOSE
from rq_dlq.spark.send import QUERY
from rq_dlq.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.step import Steps


def epoch_key(df: DataFrame, epoch: int, *, query: str = "") -> str:
    """A name for the output of a sink in one epoch of a query.

        ok.write.mode("overwrite").parquet(f"out/epoch={epoch_key(batch, epoch)}")

    A repeated epoch has the same name. A query with a new checkpoint has other names, although Spark counts
    its epochs from 0 again, so it does not overwrite the output of another query.

    Args:
        df: the DataFrame passed to the function.
        epoch: the epoch passed to the function.
        query: a name for the query, which you change with the checkpoint; empty: the id that Spark gives it.

    Raises:
        InvalidInput: it has no name, and it is called elsewhere, or with Spark Connect, which does not report
            which query it is.
    """
    context = getattr(df.sparkSession, "sparkContext", None)
    if not (name := query or (context and context.getLocalProperty(QUERY))):
        raise InvalidInput(
            "epoch_key() works in the function of foreachBatch, in its own thread. With Spark Connect, name "
            "the query: epoch_key(batch, epoch, query=…), and give it another name with each new checkpoint"
        )
    return f"{name}-{epoch}"


def check_held(df: DataFrame | Split, *, url: str | None = None, namespace: str | None = None) -> None:
    """Check that the query still holds these rows: call it after the work, before the sink commits.

    If the driver was frozen for longer than its lease, another consumer may have its messages. The error ends
    the query; when it is restarted, it writes the epoch without them.

    The counters of a query's claims nearly always suffice. If they do not, the ids of the rows are checked.

    Args:
        df: what `split` returned, which knows whose the rows are; or rows with the columns id and batch,
            persisted, or their work is done twice.
        url: the URL of Redis, as for the stream; None: that of `split`, $RQ_DLQ_URL, or the embedded server.
        namespace: the namespace, as for the stream; None: that of `split`, or the usual one.

    Raises:
        InvalidInput: a column or a row's batch is missing, or the rows are from another server.
        LeaseLost: some rows are no longer held.
        BrokerUnavailable: Redis cannot be reached.
    """
    if isinstance(df, Split):
        tokens, url, namespace = df.tokens, url or df.url, namespace or df.namespace
    elif missing := [name for name in WHOSE if name not in df.columns]:
        raise InvalidInput(f"check_held() needs the column {', '.join(map(repr, missing))}: pass it through")
    else:
        tokens = [row.batch for row in df.select("batch").distinct().collect()]
    claims = sorted((family_of(token), token) for token in tokens)
    broker = broker_at(resolve(url), namespace or USUAL_NAMESPACE)
    check_origin(broker, claims)
    lost = 0
    for family, group in groupby(claims, lambda claim: claim[0]):
        keys, its = broker.queue(family)._core.keys, [token for _, token in group]
        if not broker._run(is_whole(keys, its)):
            rows = df.rows if isinstance(df, Split) else df  # not before: Split notes whether they are used
            some = rows.where(sql.col("batch").isin(its)).groupBy("batch").agg(sql.collect_set("id"))
            lost += broker._run(count_lost(keys, dict(map(tuple, some.collect()))))
    if lost:
        raise LeaseLost(
            f"{lost:,} messages of this epoch are no longer held, since their lease expired (the driver was "
            "frozen, or disconnected from Redis), and are redelivered in another: do not commit them. Start "
            "the query again; it writes the epoch without them"
        )


def is_whole(keys: QueueKeys, tokens: Sequence[str]) -> Steps[bool]:
    """Whether these claims of a query's batch hold all that it must hold, by its counters; False: unknown."""
    batch, *others = {token.partition("@")[0].rpartition(".")[0] for token in tokens}
    known: batch_calls.BatchProgress = yield batch_calls.progress(keys, batch.partition(".")[0])
    return not others and 0 < known.held <= sum((yield from held_by(keys, tokens)))
