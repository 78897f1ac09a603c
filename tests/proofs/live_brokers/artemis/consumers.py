"""Consumers that close, are killed, or prefetch; the outcomes of AMQP; a broker that is killed."""

from __future__ import annotations

import time

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, Waits, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, counts, places, waits

SCENARIOS = Scenarios("artemis-")
LEASE = 1.0
"""Seconds after which a consumer that was killed is noticed here; there its connection breaks."""


@SCENARIOS.add("closed before the commit, 3 attempts")
def closed(side: Side) -> Facts:
    side.send("own.closed", "closed")
    seen = []
    while taken := (consumer := side.consumer("own.closed")).take(1, 1.5):
        seen += taken
        consumer.do("close")
    return {"counts": counts(seen), "ends_in": places(side.find("closed"))}


@SCENARIOS.add("5 prefetched, 1 taken, and the consumer closes")
def untried(side: Side) -> Facts:
    for number in range(5):
        side.send("own.untried", f"untried {number}")
    consumer = side.consumer("own.untried", prefetch=1000)
    consumer.take(1)
    consumer.do("close")
    seen = side.consumer("own.untried").take(5)
    return {"counts": tuple(sorted(counts(seen)))}


@SCENARIOS.add(
    "5 messages, a consumer that prefetches takes one, and a second one",
    second=better("nothing is prefetched: each claim says how many it takes"),
)
def slow_consumer(side: Side) -> Facts:
    for number in range(5):
        side.send("own.held", f"held {number}")
    first = side.consumer("own.held", prefetch=1000).take(1)
    second = side.consumer("own.held").take(1, 1)
    return {"first": len(first), "second": len(second)}


@SCENARIOS.add(
    "redelivery-delay 2500, and the consumer is killed: when another one gets its message",
    after=differs("it is back when its lease ends, and then the delay holds; there at once, without it"),
)
def killed(side: Side) -> Facts:
    side.send("own.slow.killed", "killed")
    with side.process("own.slow.killed", lease=LEASE) as consumer:
        seen = consumer.take(1)
        consumer.kill()
    began = time.monotonic()
    seen += side.consumer("own.slow.killed").take(1, 6)
    return {"counts": counts(seen), "after": Waits((round((time.monotonic() - began) * 1000),), late=600)}


@SCENARIOS.add("its consumer is killed each time, 3 attempts")
def killed_each_time(side: Side) -> Facts:
    side.send("own.killer", "killer")
    seen = []
    for _ in range(4):
        with side.process("own.killer", lease=LEASE) as consumer:
            seen += consumer.take(1, 3)
            consumer.kill()
    return {"counts": counts(seen), "ends_in": places(side.find("killer", but="own.killer"))}


def outcomes(side: Side, queue: str, verb: str, **given: float) -> Facts:
    """What comes of this outcome of AMQP, three times."""
    side.send(queue, queue)
    consumer = side.consumer(queue, mode="amqp")
    seen = []
    for _ in range(3):
        for delivery in consumer.take(1):
            seen.append(delivery)
            consumer.do(verb, body=delivery.body, **given)
    return {"counts": counts(seen), "waits": waits(seen)}


@SCENARIOS.add("AMQP released, redelivery-delay 300; `release(delay=…, begun=False)` here")
def released(side: Side) -> Facts:
    return outcomes(side, "own.released", "release", delay=0.3)


@SCENARIOS.add("AMQP modified, delivery-failed")
def modified(side: Side) -> Facts:
    return {**outcomes(side, "own.modified", "nak"), "ends_in": places(side.find("own.modified"))}


@SCENARIOS.add("AMQP rejected; `poison` here")
def rejected(side: Side) -> Facts:
    return {**outcomes(side, "own.rejected", "term"), "ends_in": places(side.find("own.rejected"))}


@SCENARIOS.add("a listener that throws, 3 attempts")
def listener(side: Side) -> Facts:
    side.send("own.listener", "listener")
    consumer = side.consumer("own.listener", mode="auto")
    consumer.do("listen")
    letters = side.find("listener", but="own.listener", within=5)
    consumer.do("close")
    return {"counts": counts(consumer.heard()), "ends_in": places(letters)}


@SCENARIOS.add("the broker is killed in the second delivery, persist-delivery-count-before-delivery")
def broker_killed(side: Side) -> Facts:
    side.send("own.crash", "crash")
    consumer = side.consumer("own.crash", lease=LEASE)
    before = consumer.take(1)
    consumer.do("rollback")
    before += consumer.take(1)
    side.crash()
    after = side.consumer("own.crash").take(1, 5)
    return {"before": counts(before), "after": counts(after)}


@SCENARIOS.add(
    "14 rollbacks, and the broker is killed",
    after=better("there it keeps the records of 10 redeliveries; here the count is a field"),
)
def many_killed(side: Side) -> Facts:
    side.send("own.unlimited.crash", "many")
    consumer = side.consumer("own.unlimited.crash", lease=LEASE)
    for _ in range(14):
        consumer.take(1)
        consumer.do("rollback")
    side.crash()
    return {"after": counts(side.consumer("own.unlimited.crash").take(1, 5))}
