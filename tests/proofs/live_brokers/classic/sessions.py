"""Transactions: what is rolled back, in which order it returns, what is sent in them."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, places

SCENARIOS = Scenarios()
TWICE = {"initialRedeliveryDelay": 300, "redeliveryDelay": 300, "maximumRedeliveries": 2}
ONCE = {**TWICE, "maximumRedeliveries": 1}


def rounds(
    side: Side, queue: str, size: int, policy: dict[str, int], non_blocking: bool | None = None
) -> Facts:
    """All of a transaction's messages are rolled back together, until none comes."""
    for number in range(size):
        side.send(queue, f"{queue} {number}")
    consumer = side.consumer(queue, policy=policy, non_blocking=non_blocking)
    orders = []
    while taken := consumer.take(size, 1.5):
        orders.append(tuple(body.removeprefix(f"{queue} ") for body in bodies(taken)))
        consumer.do("rollback")
    dead = side.find(queue, size)
    return {
        "rounds": len(orders),
        "order": orders[0],
        "order_kept": len(set(orders)) == 1,
        "dead": len(dead),
        "ends_in": places(dead),
    }


@SCENARIOS.add("a transaction of 10 rolled back, 2 redeliveries")
def transaction(side: Side) -> Facts:
    return rounds(side, "own.transaction", 10, TWICE)


@SCENARIOS.add("a transaction of 10 rolled back, 2 redeliveries (nonBlockingRedelivery)")
def transaction_non_blocking(side: Side) -> Facts:
    return rounds(side, "own.nonblocking", 10, TWICE, non_blocking=True)


@SCENARIOS.add("a transaction of 3 of which one always fails, 1 redelivery")
def poison_in_transaction(side: Side) -> Facts:
    return rounds(side, "own.poison", 3, ONCE)


@SCENARIOS.add("closed before the commit, 2 redeliveries")
def closed(side: Side) -> Facts:
    side.send("own.closed", "closed")
    seen = []
    while taken := (consumer := side.consumer("own.closed", policy=TWICE)).take(1, 1.5):
        seen += taken
        consumer.do("close")
    return {"deliveries": len(seen), "counts": counts(seen), "ends_in": places(side.find("closed"))}


@SCENARIOS.add("a send in a transaction that is rolled back, then in one that is committed")
def sends(side: Side) -> Facts:
    side.send("own.orders", "order")
    consumer = side.consumer("own.orders", policy=TWICE)
    consumer.take(1)
    consumer.send("own.invoices", "invoice 1")
    consumer.do("rollback")
    consumer.take(1)
    consumer.send("own.invoices", "invoice 2")
    before = len(side.find("invoice", within=0.5))
    consumer.do("commit")
    return {
        "visible_before_commit": before,
        "then": bodies(side.find("invoice")),
        "order_is_done": not side.find("order", within=0.5),
    }


@SCENARIOS.add("an earlier transaction was committed, a later one rolled back")
def commit_between(side: Side) -> Facts:
    for number in range(4):
        side.send("own.between", f"between {number}")
    consumer = side.consumer("own.between", policy=TWICE)
    consumer.take(2)
    consumer.do("commit")
    consumer.take(2)
    consumer.do("rollback")
    again = consumer.take(2)
    consumer.do("commit")
    return {"again": bodies(again), "counts": counts(again), "left": len(side.find("between", within=0.5))}


@SCENARIOS.add(
    "a listener that throws",
    cause=better("there it names the policy that was exceeded; here it is the error"),
)
def listener(side: Side) -> Facts:
    side.send("own.listener", "listener")
    consumer = side.consumer("own.listener", mode="auto", policy=TWICE)
    consumer.do("listen")
    (letter,) = side.find("listener", but="own.listener", within=5)
    consumer.do("close")
    cause = letter.cause.partition(" limit:")[0]
    return {"counts": counts(consumer.heard()), "ends_in": letter.queue, "cause": cause}
