"""How often and when a message that fails comes back, by the client's policy."""

from __future__ import annotations

from typing import Any

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import TICK, Scenarios, bodies, counts, fail, places, waits

SCENARIOS = Scenarios()
QUICK = {"initialRedeliveryDelay": 300, "redeliveryDelay": 300, "maximumRedeliveries": 3}

SCENARIOS.add_failing(
    "fixed",
    "initial delay 500, then 1000, 3 redeliveries",
    "own.fixed",
    policy={"initialRedeliveryDelay": 500, "redeliveryDelay": 1000, "maximumRedeliveries": 3},
)
SCENARIOS.add_failing(
    "exponential",
    "back-off 300 x 2, at most 1000, 5 redeliveries",
    "own.exponential",
    policy={
        "initialRedeliveryDelay": 300,
        "useExponentialBackOff": True,
        "backOffMultiplier": 2,
        "maximumRedeliveryDelay": 1000,
        "maximumRedeliveries": 5,
    },
)
SCENARIOS.add_failing(
    "unset", "a client's default policy: 6 redeliveries, 1000 apart", "own.unset", policy={}
)
SCENARIOS.add_failing("none", "no redeliveries", "own.none", policy={"maximumRedeliveries": 0})
SCENARIOS.add_failing(
    "immediate",
    "no delays, 2 redeliveries",
    "own.immediate",
    policy={"initialRedeliveryDelay": 0, "redeliveryDelay": 0, "maximumRedeliveries": 2},
)
SCENARIOS.add_failing(
    "recover",
    "CLIENT_ACKNOWLEDGE and recover() instead of rollback()",
    "own.recover",
    mode="client",
    how="recover",
    policy=QUICK,
)


@SCENARIOS.add("collision avoidance of 50 % on 400")
def collision_avoidance(side: Side) -> Facts:
    policy = {"initialRedeliveryDelay": 400, "redeliveryDelay": 400, "maximumRedeliveries": 6}
    collisions = {"useCollisionAvoidance": True, "collisionAvoidancePercent": 50}
    side.send("own.collision", "collision")
    seen = fail(side.consumer("own.collision", policy={**policy, **collisions}), quiet=2)
    others = waits(seen[1:], within=(200, 600))
    spread = max(others.values) - min(others.values) > 50
    return {"first": waits(seen[:2]), "others": others, "spread": spread}


@SCENARIOS.add(
    "no limit, 15 rollbacks; then another consumer",
    next_consumer=better(
        "there the client counts, and its count is lost when it closes; here counts are in Redis"
    ),
)
def unlimited(side: Side) -> Facts:
    policy = {"initialRedeliveryDelay": 0, "redeliveryDelay": 0, "maximumRedeliveries": -1}
    side.send("own.unlimited", "unlimited")
    consumer = side.consumer("own.unlimited", policy=policy)
    seen = []
    for _ in range(15):
        seen += consumer.take(1)
        consumer.do("rollback")
    consumer.do("close")
    return {
        "counts": counts(seen),
        "next_consumer": counts(side.consumer("own.unlimited", policy=policy).take(1)),
    }


@SCENARIOS.add("sent with a delay of 1200, then fails")
def delayed(side: Side) -> Facts:
    consumer = side.consumer("own.delayed", policy=QUICK)
    side.send("own.delayed", "now")
    side.send("own.delayed", "later", delay=1200)
    (now,) = consumer.take(1)
    consumer.do("commit")
    seen = [now, *fail(consumer, quiet=2.5)]
    return {"waits": waits(seen, late=TICK), "counts": counts(seen), "ends_in": places(side.find("later"))}


@SCENARIOS.add(
    "five messages, the first fails once (blocking redelivery, the default)",
    order=differs("a message without a key holds up no other while it waits; with one it does"),
)
def blocking(side: Side) -> Facts:
    return {"order": order_of_five(side, "own.blocking")}


@SCENARIOS.add("five messages of one group, the first fails once (blocking redelivery)")
def blocking_group(side: Side) -> Facts:
    return {"order": order_of_five(side, "own.ordered", ordered=True)}


@SCENARIOS.add("five messages, the first fails once (nonBlockingRedelivery)")
def non_blocking(side: Side) -> Facts:
    return {"order": order_of_five(side, "own.flowing", non_blocking=True)}


def order_of_five(side: Side, queue: str, **given: Any) -> tuple[str, ...]:
    """The first is rolled back once; all the others are committed."""
    group = {"key": "customer"} if "ordered" in given else {}
    for number in range(5):
        side.send(queue, f"{queue} {number}", **group)
    consumer = side.consumer(queue, policy=QUICK, **given)
    seen = consumer.take(1)
    consumer.do("rollback")
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    return tuple(body.removeprefix(f"{queue} ") for body in bodies(seen))


@SCENARIOS.add(
    "priorities 1, 5, 9, and the first delivery fails",
    order=better("the others are delivered while it waits"),
)
def priorities(side: Side) -> Facts:
    for priority in (1, 5, 9):
        side.send("own.priorities", f"priority {priority}", priority=priority)
    consumer = side.consumer("own.priorities", policy=QUICK)
    seen = consumer.take(1)
    consumer.do("rollback")
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    return {"first": seen[0].body, "order": tuple(body.split()[1] for body in bodies(seen))}


@SCENARIOS.add(
    "two consumers, one message, the first consumer fails",
    second_consumer_gets_it=better("any consumer may get it, so one that is stuck holds nothing up"),
)
def two_consumers(side: Side) -> Facts:
    side.send("own.two", "two")
    one = side.consumer("own.two", policy=QUICK, prefetch=1)
    (first,) = one.take(1)
    other = side.consumer("own.two", policy=QUICK, prefetch=1)
    one.do("rollback")
    second = other.receive(1.5)
    return {"count": first.count, "second_consumer_gets_it": second is not None}


@SCENARIOS.add(
    "maximum lowered from 10 to 2 after 4 deliveries",
    more=better("the new limit holds for what has failed before; there the new client begins at 2"),
)
def lowered(side: Side) -> Facts:
    policy = {"initialRedeliveryDelay": 100, "redeliveryDelay": 100, "maximumRedeliveries": 10}
    side.send("own.lowered", "lowered")
    consumer = side.consumer("own.lowered", policy=policy)
    seen = []
    for _ in range(4):
        seen += consumer.take(1)
        consumer.do("rollback")
    consumer.do("close")
    strict = side.consumer("own.lowered", policy={**policy, "maximumRedeliveries": 2})
    return {
        "before": counts(seen),
        "more": counts(fail(strict)),
        "ends_in": places(side.find("lowered")),
    }
