"""The queues of a Spark job."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from rq_dlq.client.broker import Broker
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.offsets import query_of
from rq_dlq.spark.options import shards_of
from rq_dlq.values.names import Naming

MOST_NAMED = 10


def check_queues(url: str, namespace: str, names: Sequence[str] = ()) -> None:
    """Raise InvalidInput unless these queues exist, before a job starts: its brokers are more patient."""
    with Broker(url, namespace=namespace) as broker:
        known = broker.queues()
    if missing := set(names).difference(known):
        raise _missing(sorted(missing), known)


def check_origin(broker: Broker, rows: Collection[tuple[str, str]]) -> None:
    """Check that rows are from this server: it has their queues, and the progress of their queries.

    Without rows, a server without any queue is refused: a sink that fails only where there are rows
    lets good messages die (`halving`).

    Args:
        rows: the queue and the token of each row; the token is empty if no batch holds it.

    Raises:
        InvalidInput: they are from another server.
        BrokerUnavailable: Redis cannot be reached.
    """
    known = broker.queues()
    if not known:
        raise _elsewhere(broker, "no queue")
    if missing := {family for family, _ in rows}.difference(known):
        raise _elsewhere(broker, f"no queue {', '.join(map(repr, sorted(missing)))}")
    for family, query in {(family, query_of(token)) for family, token in rows}:
        keys = broker.queue(family)._core.keys
        if query and broker._run(broker._step(batch_calls.progress(keys, query))).done is None:
            raise _elsewhere(broker, f"a queue {family!r} that does not know the query of the rows")


def _elsewhere(broker: Broker, what: str) -> InvalidInput:
    return InvalidInput(
        f"{broker.url}, namespace {broker.settings.namespace!r}, has {what}: the rows were read from another "
        "server or namespace, or this one has lost its data. Pass the url and namespace of the read also to "
        "split(), to check_held() and to each write, or set $RQ_DLQ_URL. Nothing was changed"
    )


def all_chosen(known: Sequence[str], names: Sequence[str], shards: int, *, whole: bool = False) -> list[str]:
    """The queues that are `chosen`; InvalidInput is raised if a name or pattern has none.

    Args:
        whole: also if a name lacks a shard.
    """
    found, missing = chosen(known, names, shards)
    without = [name for name in names if not chosen(known, [name], shards)[0]]
    if without := without or (missing if whole else []):
        raise _missing(without, known)
    return found


def chosen(known: Sequence[str], names: Sequence[str], shards: int) -> tuple[list[str], list[str]]:
    """Which of these queues have these names and patterns, and which of those have none.

    A name stands for its shards.
    """
    there = set(known)
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        wanted = shards_of(name, shards)
        if "*" in name:
            pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
            wanted = [family for family in known if pattern.fullmatch(family)] or [name]
        found += [family for family in wanted if family in there]
        missing += [family for family in wanted if family not in there]
    return list(dict.fromkeys(found)), missing


def _missing(names: Sequence[str], known: Sequence[str]) -> InvalidInput:
    for name in names:
        if family := Naming().dead.family_of(name):
            return InvalidInput(
                f"{name!r} holds the dead letters of a queue: use spark.read with view=dlq, queue={family}"
            )
    there = ", ".join(known[:MOST_NAMED]) or "none"
    return InvalidInput(
        f"there is no queue {', '.join(map(repr, names))}: the queues are {there}"
        f"{' …' * (len(known) > MOST_NAMED)} (`rq-dlq queue ls` lists all). "
        "A queue is created by its first message, or by `broker.queue(name).open()`"
    )
