"""Times to live."""

from __future__ import annotations

import time

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, Waits, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, places

SCENARIOS = Scenarios("artemis-")
SCAN = 1200
"""Milliseconds by which an expired message may be found later on one side: Artemis scans every 300."""


def expired(side: Side, queue: str, within: float = 4, **options: int) -> Facts:
    """Where a message is that nobody takes, and after what."""
    began = time.monotonic()
    side.send(queue, f"{queue} expires", **options)
    letters = side.find(f"{queue} expires", but=queue, within=within)
    after = round((time.monotonic() - began) * 1000)
    return {"ends_in": places(letters), **({"after": Waits((after,), SCAN)} if letters else {})}


@SCENARIOS.add("time to live 500, never delivered")
def ttl(side: Side) -> Facts:
    return expired(side, "own.ttl", ttl=500)


@SCENARIOS.add("expiry-delay 600, sent without a time to live")
def default_ttl(side: Side) -> Facts:
    return expired(side, "own.late")


@SCENARIOS.add("min-expiry-delay 1500, sent with 200")
def shortest(side: Side) -> Facts:
    return expired(side, "own.clamped.up", ttl=200)


@SCENARIOS.add("max-expiry-delay 2500, sent with 60000")
def longest(side: Side) -> Facts:
    return expired(side, "own.clamped.down", ttl=60_000)


@SCENARIOS.add("no-expiry, sent with a time to live of 300")
def no_expiry(side: Side) -> Facts:
    side.send("own.lasting", "lasting", ttl=300)
    side.find("lasting", but="own.lasting", within=1.5)
    return {"deliveries": len(side.consumer("own.lasting").take(1))}


@SCENARIOS.add("auto-create-expiry-resources")
def expiry_each(side: Side) -> Facts:
    return expired(side, "each.expired", ttl=300)


@SCENARIOS.add("expiry-queue-prefix and -suffix")
def expiry_names(side: Side) -> Facts:
    return expired(side, "named.expired", ttl=300)


@SCENARIOS.add(
    "no expiry-address", ends_in=better("there it is dropped"), after=better("there it is dropped")
)
def expiry_unset(side: Side) -> Facts:
    return expired(side, "unset.expired", within=2, ttl=300)


@SCENARIOS.add("an empty expiry-address")
def expiry_empty(side: Side) -> Facts:
    return expired(side, "dropped.expired", within=2, ttl=300)


@SCENARIOS.add(
    "time to live 1500, redelivery-delay 2500, the first delivery fails",
    died_after=differs("a redelivery that would come too late is not waited for"),
)
def meanwhile(side: Side) -> Facts:
    began = time.monotonic()
    side.send("own.slow.meanwhile", "meanwhile", ttl=1500)
    consumer = side.consumer("own.slow.meanwhile")
    seen = consumer.take(1)
    consumer.do("rollback")
    letters = side.find("meanwhile", but="own.slow.meanwhile", within=6)
    died = round((time.monotonic() - began) * 1000)
    return {"counts": counts(seen), "ends_in": places(letters), "died_after": Waits((died,), SCAN)}


@SCENARIOS.add("it expires in the consumer's hands, and is committed")
def in_hand(side: Side) -> Facts:
    side.send("own.inhand", "in hand", ttl=300)
    consumer = side.consumer("own.inhand")
    seen = consumer.take(1)
    side.find("no such message", within=0.8)  # until the time is over
    consumer.do("commit")
    consumer.do("close")
    return {"counts": counts(seen), "ends_in": places(side.find("in hand", within=1))}


@SCENARIOS.add("two are sent, the time to live of the second ends while the first is worked on")
def second_expires(side: Side) -> Facts:
    side.send("own.second", "second 0")
    side.send("own.second", "second 1", ttl=700)
    consumer = side.consumer("own.second", prefetch=1000)
    seen = consumer.take(1)
    side.find("no such message", within=1.2)
    consumer.do("commit")
    seen += consumer.take(1, 1)
    return {"received": bodies(seen), "ends_in": places(side.find("second 1"))}
