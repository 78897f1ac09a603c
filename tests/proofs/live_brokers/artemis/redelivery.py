"""How often and when a message that fails comes back, by the address-settings of broker.xml."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, fail, places, waits

SCENARIOS = Scenarios("artemis-")

SCENARIOS.add_failing("fixed", "redelivery-delay 500, 4 attempts", "own.fixed")
SCENARIOS.add_failing("growing", "300 x 2, at most 1000, 6 attempts", "own.growing")
SCENARIOS.add_failing("tenfold", "100 x 20, no maximum: ten times the delay", "own.tenfold")
SCENARIOS.add_failing("once", "max-delivery-attempts 1", "own.once")
SCENARIOS.add_failing("merged", "fields of `own.#`, where `own.other` has no block", "own.other")
SCENARIOS.add_failing("plain", "nothing but a dead-letter-address: 10 attempts at once", "plain.orders")


@SCENARIOS.add("redelivery-collision-avoidance-factor 0.5 of 400")
def collisions(side: Side) -> Facts:
    side.send("own.collisions", "collisions")
    seen = waits(fail(side.consumer("own.collisions"), quiet=2), within=(200, 600))
    return {"waits": seen, "spread": max(seen.values) - min(seen.values) > 50}


@SCENARIOS.add("max-delivery-attempts -1, 15 rollbacks; then another consumer")
def unlimited(side: Side) -> Facts:
    side.send("own.unlimited", "unlimited")
    consumer, seen = side.consumer("own.unlimited"), []
    for _ in range(15):
        seen += consumer.take(1)
        consumer.do("rollback")
    consumer.do("close")
    return {"counts": counts(seen), "next_consumer": counts(side.consumer("own.unlimited").take(1))}


@SCENARIOS.add(
    "no address-setting covers the queue, for 3 s",
    deliveries=differs("our own policy holds: back-off, 13 attempts; for Artemis' set an entry for #"),
    ends_in=better("there the message is gone; here nothing is dropped unless you say so"),
)
def stray(side: Side) -> Facts:
    side.send("stray", "stray")
    consumer, seen = side.consumer("stray"), 0
    for _ in consumer.rest(3):
        seen += 1
        consumer.do("rollback")
    return {"deliveries": seen, "ends_in": places(side.find("stray", within=0.5))}


def of_five(side: Side, queue: str, prefetch: int) -> Facts:
    """Of five messages the first is rolled back once; all the others are committed."""
    for number in range(5):
        side.send(queue, f"{queue} {number}")
    consumer = side.consumer(queue, prefetch=prefetch)
    seen = consumer.take(1)
    consumer.do("rollback")
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    return {"order": tuple(body.removeprefix(f"{queue} ") for body in bodies(seen))}


@SCENARIOS.add("five messages, the first fails once; the client prefetches none")
def of_five_single(side: Side) -> Facts:
    return of_five(side, "own.flow.single", prefetch=1)


@SCENARIOS.add(
    "five messages, the first fails once; the client prefetches all",
    order=better("one that waits holds up no other; there what the client has prefetched waits with it"),
)
def of_five_prefetched(side: Side) -> Facts:
    return of_five(side, "own.flow.many", prefetch=1000)


@SCENARIOS.add("a batch of 5 rolled back, 3 attempts")
def batch(side: Side) -> Facts:
    for number in range(5):
        side.send("own.batch", f"batch {number}")
    consumer, orders, seen = side.consumer("own.batch"), [], []
    while taken := consumer.take(5, 1.5):
        orders.append(tuple(body.removeprefix("batch ") for body in bodies(taken)))
        seen += taken
        consumer.do("rollback")
    dead = side.find("batch", 5)
    return {"order": orders[0], "rounds": len(orders), "order_kept": len(set(orders)) == 1, "dead": len(dead)}


@SCENARIOS.add("priorities 1, 5, 9, and the first delivery fails")
def priorities(side: Side) -> Facts:
    for priority in (1, 5, 9):
        side.send("own.priorities", f"priority {priority}", priority=priority)
    consumer = side.consumer("own.priorities", prefetch=1)
    seen = consumer.take(1)
    consumer.do("rollback")
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    return {"order": tuple(body.split()[1] for body in bodies(seen))}


@SCENARIOS.add("sent with a delay of 900, then fails, 3 attempts")
def delayed(side: Side) -> Facts:
    consumer = side.consumer("own.delayed")
    side.send("own.delayed", "now")
    side.send("own.delayed", "later", delay=900)
    now = consumer.take(1)
    consumer.do("commit")
    seen = [*now, *fail(consumer, quiet=2)]
    return {"waits": waits(seen), "counts": counts(seen), "ends_in": places(side.find("later"))}


@SCENARIOS.add(
    "a group of three, the first fails, a fourth is sent meanwhile",
    order=better("a key keeps its order; there the fourth overtakes those that wait"),
)
def group(side: Side) -> Facts:
    for name in "abc":
        side.send("own.group", f"group {name}", key="customer")
    consumer = side.consumer("own.group", ordered=True)
    first = consumer.take(1)
    consumer.do("rollback")
    side.send("own.group", "group d", key="customer")
    seen = []
    for delivery in consumer.rest(1.5):
        seen.append(delivery)
        consumer.do("commit")
    return {"first": bodies(first), "order": tuple(body.split()[1] for body in bodies(seen))}
