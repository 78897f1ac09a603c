"""How many messages an epoch has: rows may be fewer, if something has left messages out.

What is acked is the batch, whatever the program does with it, so `split` compares. The plan of an epoch notes
in `stream:QUERY` of each queue how many messages all of its queues have (`epoch`); the tokens of the rows
lead there, in one round trip, and what writes have settled since is taken off. Only if the counts differ are
the ids counted, since a handler may make several rows of a message. Without a row there is no token: then the
batch is read again and counted, by the leaf of the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.spark.brokers import broker_at, resolve
from rq_dlq.spark.offsets import family_of, query_of
from rq_dlq.spark.queues import check_origin
from rq_dlq.spark.send import QUERY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def given_to(df: DataFrame, tokens: Sequence[str], url: str | None, namespace: str) -> int:
    """How many messages the epoch of rows with these tokens has, without those settled since; 0: unknown.

    Raises:
        InvalidInput: the rows are from another server.
    """
    if not tokens:
        return _rows_of_batch(df)
    if not (claims := [(family_of(token), token) for token in tokens if query_of(token)]):
        return 0
    broker = broker_at(resolve(url), namespace)
    queries = {(broker.queue(family)._core.keys, query_of(token) or "") for family, token in claims}
    known: list[batch_calls.BatchProgress]
    known = broker._run(broker._step(Pipeline([batch_calls.progress(*each) for each in queries])))
    if any(each.done is None for each in known):
        check_origin(broker, claims)
    return max(0, max(each.epoch for each in known) - sum(each.rows - each.held for each in known))


def _rows_of_batch(df: DataFrame) -> int:
    """The rows of the batch of which no row is left, read again; 0 outside of a query and with Connect."""
    context, frame = getattr(df.sparkSession, "sparkContext", None), getattr(df, "_jdf", None)
    if context is None or frame is None or not context.getLocalProperty(QUERY):
        return 0
    leaves: Any = frame.queryExecution().analyzed().collectLeaves()
    ours = [leaf for leaf in map(leaves.apply, range(leaves.size())) if "batch#" in leaf.output().mkString()]
    return max((leaf.rdd().count() for leaf in ours if leaf.nodeName() == "LogicalRDD"), default=0)
