"""Which entry of activemq.xml covers a queue, and how its dead-letter queue is called."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, differs
from tests.proofs.live_brokers.scenario import ALIKE, Reasons, Scenarios, fail, places

SCENARIOS = Scenarios()
NONE = {"maximumRedeliveries": 0}
CROSSING = differs(
    "where two patterns cross, the one that is literal earlier in the name wins; there their tree decides"
)
UNCOVERED = differs(
    "there the broker's default strategy is shared, here each queue has its own; "
    "for Classic's: an entry for # with a shared strategy ActiveMQ.DLQ"
)


def named(name: str, told: str, *queues: str, why: Reasons = ALIKE) -> None:
    """Add a scenario: a message dies in each of these queues, and where is it then?"""

    def run(side: Side) -> Facts:
        return {queue: dead_in(side, queue) for queue in queues}

    run.__name__ = name
    SCENARIOS.add(told, **why)(run)


def dead_in(side: Side, queue: str) -> tuple[str, ...]:
    """Where a message of this queue is after its only delivery failed."""
    side.send(queue, f"to {queue}")
    fail(side.consumer(queue, policy=NONE), quiet=0.5)
    return places(side.find(f"to {queue}", but=queue))


named("default_names", "individualDeadLetterStrategy without a prefix", "default.orders")
named("prefix_suffix", "queuePrefix and queueSuffix", "suffixed.orders")
named("literal_entry", "an entry with the queue's own name beside `own.>`", "own.literal", "own.other")
named("wildcards", "`wild.>`, `wild.*.x` and `wild.a.*`", "wild.b", "wild.b.x", "wild.a.b", "wild.a.b.c")
named(
    "crossing_wildcards",
    "a queue that `wild.*.x` and `wild.a.*` cover",
    "wild.a.x",
    why={"wild.a.x": CROSSING},
)
named("uncovered", "a queue that no policyEntry covers", "mail", why={"mail": UNCOVERED})


@SCENARIOS.add("sharedDeadLetterStrategy for two queues")
def shared(side: Side) -> Facts:
    for queue in ("shared.a", "shared.b"):
        dead_in(side, queue)
    letters = side.find("to shared.", 2)
    return {"ends_in": places(letters), "origins": tuple(letter.origin for letter in letters)}


@SCENARIOS.add("the same after something was sent to the shared dead-letter queue's name")
def sent_to_shared(side: Side) -> Facts:
    side.send("Mixed", "sent to Mixed")
    return {"sent": places(side.find("sent to Mixed")), "ends_in": dead_in(side, "mixed.orders")}
