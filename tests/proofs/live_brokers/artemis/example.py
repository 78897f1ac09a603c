"""Scenarios of examples/broker.xml, as it is."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, fail, places, waits

SCENARIOS = Scenarios("example-")


@SCENARIOS.add("`#`: ten attempts at once")
def mail(side: Side) -> Facts:
    side.send("mail", "mail")
    seen = fail(side.consumer("mail"))
    return {"deliveries": len(seen), "ends_in": places(side.find("mail"))}


@SCENARIOS.add("`orders.#`: 5000 x 1.5, spread by 15 %: the first two redeliveries")
def orders(side: Side) -> Facts:
    side.send("orders.eu", "order")
    consumer = side.consumer("orders.eu")
    seen = consumer.take(1)
    for longest in (7, 10):
        consumer.do("rollback")
        seen += consumer.take(1, longest)
    first, second = waits(seen[:2], within=(4250, 5750)), waits(seen[1:], within=(6375, 8625))
    consumer.do("commit")
    return {"counts": counts(seen), "first": first, "second": second}


def after(side: Side, queue: str, verb: str) -> tuple[str, ...]:
    """Where a message is after an operator sent it away."""
    side.send(queue, f"{verb} {queue}")
    side.find(f"{verb} {queue}")
    side.operate(verb, queue)
    return places(side.find(f"{verb} {queue}", but=queue, within=1))


TWICE = better("one letter under two names; there a copy for each")


@SCENARIOS.add(
    "`orders.#` and `orders.express`: the names of their dead-letter queues",
    **{"orders.names": TWICE, "express": TWICE},
)
def names(side: Side) -> Facts:
    return {
        "orders.names": after(side, "orders.names", "die"),
        "express": after(side, "orders.express", "die"),
    }


@SCENARIOS.add("`quotes.*`: an empty dead-letter-address")
def quotes(side: Side) -> Facts:
    side.send("quotes.eu", "quote")
    seen = fail(side.consumer("quotes.eu"))
    return {"deliveries": len(seen), "ends_in": places(side.find("quote", within=1))}


@SCENARIOS.add(
    "an expired message of a queue that only `#` covers, and one of `quotes.*`", **{"quotes.us": TWICE}
)
def expired(side: Side) -> Facts:
    return {"post": after(side, "post", "expire"), "quotes.us": after(side, "quotes.us", "expire")}


@SCENARIOS.add("a dead letter of `orders.us`: a reader of `DLQ` gets it")
def reader(side: Side) -> Facts:
    after(side, "orders.us", "die")
    consumer, seen = side.consumer("DLQ"), []
    for delivery in consumer.rest():
        seen.append(delivery)
        consumer.do("commit")
    return {"read": tuple(body for body in bodies(seen) if body.endswith("orders.us"))}
