"""Acknowledgements, and a server that is killed."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Consumer, DriverError, Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.nats_streaming.subscribing import (
    DURABLE,
    LONG,
    SHORT,
    WAIT,
    numbers,
    sent,
)
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts

SCENARIOS = Scenarios("stan-")


def acked(consumer: Consumer, body: str) -> str:
    """What comes of an ack."""
    try:
        consumer.do("ack", body=body)
    except DriverError as error:
        return str(error).partition(":")[0]
    return "accepted"


@SCENARIOS.add(
    "an ack of the first holder, while a second one works on the message",
    ack=better("the first holder is told"),
    delivered_again=better("the ack of who lost the lease does nothing, so a failure of the second is seen"),
)
def stale_ack(side: Side) -> Facts:
    settings = {**DURABLE, "max_inflight": 1}
    first, taken = side.consumer("stale", streaming=settings), []
    side.send("stale", "stale")
    taken += first.take(1)
    second = side.consumer("stale", streaming=settings)
    taken += second.take(1, 5)
    said = acked(first, "stale")
    return {"counts": counts(taken), "ack": said, "delivered_again": bool(second.take(1, 4))}


@SCENARIOS.add(
    "a second ack of the same delivery", second=differs("a delivery is settled once; LeaseLost says so")
)
def second_ack(side: Side) -> Facts:
    side.send("twice", "twice")
    consumer = side.consumer("twice", streaming=LONG)
    consumer.take(1)
    return {"first": acked(consumer, "twice"), "second": acked(consumer, "twice")}


@SCENARIOS.add("three of five are not acknowledged: in which order they come again")
def order(side: Side) -> Facts:
    consumer = side.consumer("order", streaming={**WAIT, "max_inflight": 5}, lease=0.4)
    sent(side, "order", 5)
    taken = consumer.take(5)
    for delivery in taken[3:]:
        consumer.do("ack", body=delivery.body)
    again = consumer.take(3)
    return {"first": bodies(taken), "again": bodies(again), "counts": counts(again)}


@SCENARIOS.add(
    "the server is killed after two deliveries",
    after=better("counts are in Redis; there they begin anew"),
)
def server_killed(side: Side) -> Facts:
    side.send("crash", "crash")
    seen = side.consumer("crash", streaming=DURABLE, lease=SHORT).take(2, 3)
    side.crash()
    after = side.consumer("crash", streaming=DURABLE, lease=SHORT).take(1, 8)
    return {"before": counts(seen), "after": counts(after)}


@SCENARIOS.add("the server is killed with one message held and one new: both come")
def restart(side: Side) -> Facts:
    sent(side, "restart", 1)
    taken = side.consumer("restart", streaming=DURABLE, lease=SHORT).take(1)
    side.crash()
    sent(side, "restart", 1, first=1)
    seen = numbers(side.consumer("restart", streaming=DURABLE, lease=SHORT), 2, 8)
    return {"before": bodies(taken), "after": tuple(sorted(seen))}
