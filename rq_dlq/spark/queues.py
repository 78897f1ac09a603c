"""The queues of a Spark job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rq_dlq.client.broker import Broker
from rq_dlq.errors import InvalidInput
from rq_dlq.spark.options import shards_of
from rq_dlq.values.names import Naming

MOST_NAMED = 10


def check_queues(url: str, namespace: str, names: Sequence[str]) -> None:
    """Like `existing`, with a broker that gives up sooner than those of tasks; called before a job starts.

    Raises:
        InvalidInput: one does not exist.
        BrokerUnavailable: Redis cannot be reached.
    """
    with Broker(url, namespace=namespace) as broker:
        existing(broker, names)


def existing(broker: Broker, names: Sequence[str]) -> None:
    """Check on the driver, before a job starts, that these queues exist.

    Raises:
        InvalidInput: one does not.
        BrokerUnavailable: Redis cannot be reached.
    """
    known = broker.queues()
    if missing := set(names).difference(known):
        raise _missing(sorted(missing), known)


def chosen(broker: Broker, names: Sequence[str], shards: int) -> list[str]:
    """The existing queues with these names and patterns; a name stands for its shards.

    Raises:
        InvalidInput: there is no queue for one of them.
        BrokerUnavailable: Redis cannot be reached.
    """
    known = broker.queues()
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        if "*" in name:
            families = [family for family in known if re.fullmatch(expression(name), family)]
        else:
            families = [family for family, _ in shards_of(name, shards) if family in known]
        found += families
        missing += [] if families else [name]
    if missing:
        raise _missing(missing, known)
    return list(dict.fromkeys(found))


def expression(pattern: str) -> str:
    """A pattern, in which `*` stands for anything, as a regular expression of Python and of Spark."""
    return re.escape(pattern).replace(r"\*", ".*")


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
