"""Times to live."""

from __future__ import annotations

import time

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, Waits, better
from tests.proofs.live_brokers.scenario import Scenarios, counts, fail, places

SCENARIOS = Scenarios()
SLOW = {"initialRedeliveryDelay": 2000, "redeliveryDelay": 2000, "maximumRedeliveries": 6}


@SCENARIOS.add("time to live 500, never delivered")
def expired(side: Side) -> Facts:
    side.send("own.expired", "expired", ttl=500)
    return {"ends_in": places(side.find("expired", but="own.expired", within=4))}


@SCENARIOS.add("the same with processExpired=false")
def process_expired(side: Side) -> Facts:
    side.send("unexpired.orders", "unexpired", ttl=500)
    return {"ends_in": places(side.find("unexpired", but="unexpired.orders", within=4))}


@SCENARIOS.add(
    "time to live 3000, redelivery delay 2000, all fail",
    died_after=better("a redelivery that would come too late is not waited for"),
)
def expires_meanwhile(side: Side) -> Facts:
    began = time.monotonic()
    side.send("own.meanwhile", "meanwhile", ttl=3000)
    consumer = side.consumer("own.meanwhile", policy=SLOW)
    seen = []
    while not (letters := side.find("meanwhile", but="own.meanwhile", within=0)):
        for delivery in consumer.take(1, 0.1):
            seen.append(delivery)
            consumer.do("rollback")
    died = round((time.monotonic() - began) * 1000)
    return {"counts": counts(seen), "ends_in": places(letters), "died_after": Waits((died,))}


@SCENARIOS.add("it expires in the consumer's hands, and is committed")
def expires_in_hand(side: Side) -> Facts:
    side.send("own.inhand", "in hand", ttl=300)
    consumer = side.consumer("own.inhand", policy=SLOW)
    seen = consumer.take(1)
    consumer.receive(0.6)  # nothing: it waits until the time is over
    consumer.do("commit")
    consumer.do("close")
    return {"counts": counts(seen), "ends_in": places(side.find("in hand", within=1.5))}


@SCENARIOS.add("a dead letter outlives its message's time to live")
def dead_before(side: Side) -> Facts:
    side.send("own.before", "before", ttl=700)
    fail(side.consumer("own.before", policy={"maximumRedeliveries": 0}), quiet=0.2)
    at_first = places(side.find("before", but="own.before"))
    return {"at_first": at_first, "ends_in": places(side.find("before", 2, within=2.5))}


@SCENARIOS.add(
    "sent with a delay of 1500 and a time to live of 500",
    deliveries=better("an expired message is never delivered"),
)
def expires_before_due(side: Side) -> Facts:
    side.send("own.undue", "undue", delay=1500, ttl=500)
    seen = side.consumer("own.undue", policy=SLOW).take(1, 3)
    return {"deliveries": len(seen), "ends_in": places(side.find("undue", but="own.undue"))}
