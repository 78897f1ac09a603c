"""Readers of a dead-letter address; ids that are sent twice."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, bodies, fail

SCENARIOS = Scenarios("artemis-")


def dead(side: Side, queue: str) -> str:
    """A message dies there; its body."""
    side.send(queue, f"to {queue}")
    fail(side.consumer(queue), quiet=0.7)
    side.find(f"to {queue}", but=queue)
    return f"to {queue}"


def read(side: Side, queue: str) -> tuple[str, ...]:
    """What a reader of this queue gets and commits."""
    consumer = side.consumer(queue)
    seen = []
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    consumer.do("close")
    return bodies(seen)


@SCENARIOS.add("a queue on the dead-letter-address, beside auto-created ones: what its reader gets")
def door(side: Side) -> Facts:
    dead(side, "door.orders")
    return {"Door": read(side, "Door")}


@SCENARIOS.add(
    "and who reads the auto-created queue afterwards",
    second=better("one letter under two names, gone from both when it is settled; there a copy for each"),
)
def second_door(side: Side) -> Facts:
    dead(side, "door.invoices")
    return {"first": read(side, "DLQ.door.invoices"), "second": read(side, "Door")}


@SCENARIOS.add("sent to the shared dead-letter name, then one dies: what a reader of it gets")
def sent_to(side: Side) -> Facts:
    side.send("Sent", "sent to Sent")
    dead(side, "sent.orders")
    return {"read": tuple(sorted({"sent to Sent", "to sent.orders"} & {*read(side, "Sent")}))}


def committed(side: Side, queue: str, **settings: str) -> int:
    """How many messages a consumer gets and commits."""
    consumer = side.consumer(queue, **settings)
    seen = 0
    for _ in consumer.rest():
        consumer.do("commit")
        seen += 1
    consumer.do("close")
    return seen


@SCENARIOS.add("an id sent again while its message is queued")
def sent_twice(side: Side) -> Facts:
    side.send("own.twice", "twice", id="one")
    side.again("own.twice", "twice", "one")
    return {"deliveries": committed(side, "own.twice")}


@SCENARIOS.add(
    "an id sent again after its message was acknowledged",
    again=differs("there the last 20,000 ids are known, here an id is free when its message is gone"),
)
def sent_after_ack(side: Side) -> Facts:
    side.send("own.after", "after", id="two")
    first = committed(side, "own.after")
    side.again("own.after", "after", "two")
    return {"first": first, "again": committed(side, "own.after")}


@SCENARIOS.add("the same, with a `dedup_window` of 2 minutes here")
def remembered(side: Side) -> Facts:
    side.send("own.remembered", "remembered", id="three")
    first = committed(side, "own.remembered", window="2m")
    side.again("own.remembered", "remembered", "three")
    return {"first": first, "again": committed(side, "own.remembered")}
