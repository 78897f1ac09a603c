"""What becomes of a dead letter: where it is, what it keeps, and what is dropped."""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import ALIKE, Reasons, Scenarios, counts, fail, places

SCENARIOS = Scenarios("artemis-")
KEPT = better("there it is dropped; here nothing is dropped unless you say so")
CROSSING = differs("where patterns cross, the one that is literal earlier in the name wins")


def dead_in(side: Side, queue: str) -> tuple[str, ...]:
    """Where a message of this queue is after all its attempts."""
    side.send(queue, f"to {queue}")
    fail(side.consumer(queue), quiet=0.7)
    return places(side.find(f"to {queue}", within=1))


def named(name: str, told: str, *queues: str, why: Reasons = ALIKE) -> None:
    """Add a scenario: a message dies in each of these queues, and where is it then?"""

    def run(side: Side) -> Mapping[str, tuple[str, ...]]:
        return {queue: dead_in(side, queue) for queue in queues}

    run.__name__ = name
    SCENARIOS.add(told, **why)(run)


named("shared", "one dead-letter-address for two queues", "mixed.a", "mixed.b")
named("each", "auto-create-dead-letter-resources", "each.orders", "each.invoices")
named("names", "dead-letter-queue-prefix and -suffix", "named.orders")
named("unset", "no dead-letter-address", "unset.orders", why={"unset.orders": KEPT})
named("empty", "an empty dead-letter-address", "dropped.orders")
named("nowhere", "a dead-letter-address without a queue", "nowhere.orders", why={"nowhere.orders": KEPT})
named("fqqn", "the dead-letter-address `Fqqn::Fqqn.one`", "fqqn.orders")
named("wildcards", "`wild.#`, `wild.*.x` and `wild.a.*`", "wild.b", "wild.b.x", "wild.a.b", "wild.a.b.c")
named("crossing", "a queue that `wild.*.x` and `wild.a.*` cover", "wild.a.x")
named(
    "crossing_more",
    "queues that `cross.eu.#`, `cross.*.*.#` and `cross.*` cover",
    "cross.eu",
    "cross.eu.x",
    "cross.eu.x.y",
    "cross.us",
    "cross.us.x",
    why=dict.fromkeys(("cross.eu", "cross.eu.x", "cross.eu.x.y"), CROSSING),
)


@SCENARIOS.add("a dead letter keeps its headers, priority, id and origin")
def kept(side: Side) -> Facts:
    sent = side.send("own.once.kept", "kept", headers={"tenant": "a"}, priority=7)
    fail(side.consumer("own.once.kept"), quiet=0.5)
    (letter,) = side.find("kept", but="own.once.kept")
    return {
        "same_id": letter.id == sent,
        "tenant": letter.headers.get("tenant", ""),
        "priority": letter.priority,
        "origin": letter.origin,
    }


@SCENARIOS.add("a message that is not persistent dies")
def non_persistent(side: Side) -> Facts:
    side.send("own.once.volatile", "non-persistent", persistent=False)
    fail(side.consumer("own.once.volatile"), quiet=0.5)
    return {"ends_in": places(side.find("non-persistent", but="own.once.volatile"))}


@SCENARIOS.add(
    "retryMessages, and it dies again", counts=better("counts are for life; the budget is fresh all the same")
)
def retry(side: Side) -> Facts:
    side.send("each.retry", "retry")
    consumer = side.consumer("each.retry")
    seen = fail(consumer, quiet=0.7)
    side.find("retry", but="each.retry")
    side.retry("each.retry", "DLQ.each.retry")
    seen += fail(consumer, quiet=1)
    letters = side.find("retry", but="each.retry")
    return {"counts": counts(seen), "ends_in": places(letters), "letters": len(letters)}


@SCENARIOS.add(
    "a reader of an auto-created dead-letter queue fails ten times",
    ends_in=better("there it is lost; here it stays, and rests between its deliveries"),
)
def reader_fails(side: Side) -> Facts:
    dead_in(side, "each.reader")
    consumer, seen = side.consumer("DLQ.each.reader"), 0
    while seen < 10 and consumer.receive(0.7):
        seen += 1
        consumer.do("rollback")
    consumer.do("close")
    return {"ends_in": places(side.find("to each.reader", within=1))}


@SCENARIOS.add(
    "a reader of a dead-letter queue that is its own dead-letter-address fails three times",
    origin=better("there its origin is overwritten"),
)
def around(side: Side) -> Facts:
    dead_in(side, "loop.orders")
    consumer, seen = side.consumer("Loop"), 0
    while seen < 3 and consumer.receive(2.5):
        seen += 1
        consumer.do("rollback")
    consumer.do("close")
    letters = side.find("to loop.orders")
    return {"ends_in": places(letters), "origin": letters[0].origin}


@SCENARIOS.add(
    "the dead-letter-address has an expiry-delay of 1000: its letters after 2.5 s",
    ends_in=differs(
        "the block of a dead-letter-address is skipped; its retention is `expiration` of the queues"
    ),
)
def retention(side: Side) -> Facts:
    at_first = dead_in(side, "kept.orders")
    return {"at_first": at_first, "ends_in": places(side.find("to kept.orders", 2, within=2.5))}
