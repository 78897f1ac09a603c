"""Consumers and brokers that are killed with SIGKILL, consumers that are slow."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, places

SCENARIOS = Scenarios()
QUICK = {"initialRedeliveryDelay": 100, "redeliveryDelay": 100, "maximumRedeliveries": 2}
LEASE = 1.0
"""Seconds after which a consumer that was killed is noticed here; there its connection breaks."""


@SCENARIOS.add(
    "a consumer is killed that had received 3 of 10",
    counts=better("there all ten count as delivered, since they were prefetched"),
)
def killed_holding(side: Side) -> Facts:
    for number in range(10):
        side.send("own.killed", f"killed {number}")
    with side.process("own.killed", policy=QUICK, lease=LEASE) as consumer:
        consumer.take(3)
        consumer.kill()
    seen = sorted(side.consumer("own.killed", policy=QUICK).take(10), key=lambda delivery: delivery.body)
    return {"deliveries": len(seen), "counts": counts(seen)}


@SCENARIOS.add("its consumer is killed each time, 2 redeliveries")
def killed_each_time(side: Side) -> Facts:
    side.send("own.killer", "killer")
    seen = []
    for _ in range(4):
        with side.process("own.killer", policy=QUICK, lease=LEASE) as consumer:
            seen += consumer.take(1, 3)
            consumer.kill()
    return {"counts": counts(seen), "ends_in": places(side.find("killer", but="own.killer"))}


@SCENARIOS.add(
    "prefetch 1000: ten messages, a consumer that takes one, and a second one",
    second_consumer_gets=better("nothing is prefetched: each claim says how many it takes"),
)
def slow_consumer(side: Side) -> Facts:
    for number in range(10):
        side.send("own.slow", f"slow {number}")
    slow = side.consumer("own.slow", policy=QUICK, prefetch=1000)
    first = slow.take(1)
    other = side.consumer("own.slow", policy=QUICK, prefetch=1000)
    return {"first": bodies(first), "second_consumer_gets": bodies(other.take(1, 1.5))}


def after_crash(side: Side, queue: str) -> Facts:
    """The broker is killed while the consumer has the message for the third time."""
    policy = {**QUICK, "maximumRedeliveries": 9}
    side.send(queue, f"{queue} crash")
    consumer = side.consumer(queue, policy=policy, lease=LEASE)
    before = []
    for verb in ("rollback", "rollback", ""):
        before += consumer.take(1)
        if verb:
            consumer.do(verb)
    side.crash()
    after = side.consumer(queue, policy=policy, lease=LEASE).take(1, 5)
    return {"before": counts(before), "deliveries": len(after), "count": counts(after)}


COUNTED = better("counts are in Redis before a consumer sees the message; there they were the client's")


@SCENARIOS.add("the broker is killed in the third delivery", count=COUNTED)
def broker_killed(side: Side) -> Facts:
    return after_crash(side, "own.crash")


@SCENARIOS.add("the same with persistJMSRedelivered", count=COUNTED)
def broker_killed_persisted(side: Side) -> Facts:
    return after_crash(side, "persisted.crash")
