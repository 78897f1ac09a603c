"""What becomes of a dead letter, and what does not become one."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Delivery, Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, counts, fail, places

SCENARIOS = Scenarios()
NONE = {"maximumRedeliveries": 0}
ONCE = {"initialRedeliveryDelay": 100, "redeliveryDelay": 100, "maximumRedeliveries": 1}


@SCENARIOS.add("a dead letter keeps its id, headers, priority and origin")
def kept(side: Side) -> Facts:
    sent = side.send("own.kept", "kept", headers={"tenant": "a"}, priority=7)
    fail(side.consumer("own.kept", policy=NONE), quiet=0.5)
    (letter,) = side.find("kept", but="own.kept")
    return {
        "same_id": letter.id == sent,
        "tenant": letter.headers.get("tenant", ""),
        "priority": letter.priority,
        "origin": letter.origin,
    }


@SCENARIOS.add("a message that is not persistent dies")
def non_persistent(side: Side) -> Facts:
    side.send("own.volatile", "non-persistent", persistent=False)
    seen = fail(side.consumer("own.volatile", policy=ONCE), quiet=1)
    return {"deliveries": len(seen), "ends_in": places(side.find("non-persistent"))}


@SCENARIOS.add("the same with processNonPersistent")
def process_non_persistent(side: Side) -> Facts:
    side.send("volatile.orders", "volatile", persistent=False)
    seen = fail(side.consumer("volatile.orders", policy=ONCE), quiet=1)
    return {"deliveries": len(seen), "ends_in": places(side.find("volatile"))}


SCENARIOS.add_failing("discarding", "`<discarding/>`", "discarded.orders", policy=ONCE)


@SCENARIOS.add(
    "discardingDLQBrokerPlugin with dropOnly `own.noise.[0-9]{3}`",
    **{"own.noisex123": better("the dot of a pattern is a dot")},
)
def drop_only(side: Side) -> Facts:
    queues = ("own.noise.123", "own.noisex123", "own.noise.1234")
    for queue in queues:
        side.send(queue, f"drop {queue},")
        fail(side.consumer(queue, policy=NONE), quiet=0.5)
    return {queue: places(side.find(f"drop {queue},", but=queue, within=1)) for queue in queues}


@SCENARIOS.add(
    "a consumer of a dead-letter queue fails",
    ends_in=better("there it moves on to the next dead-letter queue; here it stays in its own"),
    origin=better("there the origin is lost on the way"),
    deliveries=differs("a dead letter that fails comes again after a rest, for its budget is spent"),
)
def failing_again(side: Side) -> Facts:
    side.send("own.again", "failing again")
    fail(side.consumer("own.again", policy=NONE), quiet=0.5)
    side.find("failing again", but="own.again")
    consumer = side.consumer("DLQ.own.again", policy=None, client=ONCE)
    seen: list[Delivery] = []
    while len(seen) < 4 and (delivery := consumer.receive(3)):
        seen.append(delivery)
        consumer.do("rollback")
    consumer.do("close")
    letters = side.find("failing again")
    return {"deliveries": len(seen), "ends_in": places(letters), "origin": letters[0].origin}


@SCENARIOS.add(
    "retryMessages, and it dies again",
    counts=better("counts are for life; the budget is fresh all the same"),
)
def retry(side: Side) -> Facts:
    sent = side.send("own.retry", "retry")
    consumer = side.consumer("own.retry", policy=ONCE)
    seen = fail(consumer)
    side.find("retry", but="own.retry")
    side.retry("own.retry", "DLQ.own.retry")
    seen += fail(consumer)
    letters = side.find("retry", but="own.retry")
    return {
        "deliveries": len(seen),
        "counts": counts(seen),
        "ends_in": places(letters),
        "letters": len(letters),
        "same_id": letters[0].id == sent,
    }


@SCENARIOS.add(
    "the dead letter of a strategy with expiration 1000, left alone for longer",
    ends_in=differs("there it moves on to the next dead-letter queue; here it is dropped and counted"),
)
def expiration(side: Side) -> Facts:
    side.send("fleeting.orders", "fleeting")
    fail(side.consumer("fleeting.orders", policy=NONE), quiet=0.5)
    at_first = places(side.find("fleeting", but="fleeting.orders"))
    at_last = places(side.find("fleeting", 2, within=3))  # two there never are: it waits to the end
    return {"at_first": at_first, "ends_in": at_last}


def committed(side: Side, queue: str, **settings: str) -> int:
    """How many messages a consumer gets and commits."""
    consumer = side.consumer(queue, policy=NONE, **settings)
    seen = 0
    for _ in consumer.rest():
        consumer.do("commit")
        seen += 1
    consumer.do("close")
    return seen


@SCENARIOS.add("an id sent again while its message is queued")
def sent_twice(side: Side) -> Facts:
    sent = side.send("own.twice", "twice")
    side.again("own.twice", "twice", sent)
    return {"deliveries": committed(side, "own.twice")}


@SCENARIOS.add(
    "an id sent again after its message was acknowledged",
    again=differs("there the audit knows the last ids, here an id is free when its message is gone"),
)
def sent_after_ack(side: Side) -> Facts:
    sent = side.send("own.after", "after")
    first = committed(side, "own.after")
    side.again("own.after", "after", sent)
    return {"first": first, "again": committed(side, "own.after")}


@SCENARIOS.add("the same, with a `dedup_window` of 2 minutes here")
def remembered(side: Side) -> Facts:
    sent = side.send("own.remembered", "remembered")
    first = committed(side, "own.remembered", window="2m")
    side.again("own.remembered", "remembered", sent)
    return {"first": first, "again": committed(side, "own.remembered")}
