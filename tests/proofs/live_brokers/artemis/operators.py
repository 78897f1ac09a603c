"""What an operator does with the messages of a queue."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, fail, places

SCENARIOS = Scenarios("artemis-")


@SCENARIOS.add("browse, while one waits for its redelivery", browsed=better("what waits is shown, too"))
def browse(side: Side) -> Facts:
    side.send("own.slow.browse", "waits")
    consumer = side.consumer("own.slow.browse", prefetch=1)
    consumer.take(1)
    consumer.do("rollback")
    consumer.do("close")
    side.send("own.slow.browse", "ready")
    return {"browsed": tuple(sorted(side.operate("browse", "own.slow.browse")))}


@SCENARIOS.add(
    "failed twice of three times, then moved: how often it is delivered there",
    counts=differs("its failures come with it; a redrive would give it all attempts again"),
)
def move(side: Side) -> Facts:
    side.send("own.from", "moved")
    consumer = side.consumer("own.from")
    for _ in range(2):
        consumer.take(1)
        consumer.do("rollback")
    consumer.do("close")
    side.find("no such message", within=0.6)  # until it is ready
    target = side.consumer("own.to")
    side.send("own.to", "first")
    target.take(1)
    target.do("commit")
    side.operate("move", "own.from", to="own.to")
    seen = fail(target)
    return {"counts": counts(seen), "ends_in": places(side.find("moved"))}


@SCENARIOS.add("sendMessagesToDeadLetterAddress")
def die(side: Side) -> Facts:
    side.send("own.die", "die")
    side.find("die")
    side.operate("die", "own.die")
    letters = side.find("die", but="own.die")
    return {"ends_in": places(letters), "origin": letters[0].origin}


@SCENARIOS.add("expireMessages")
def expire(side: Side) -> Facts:
    side.send("own.expire", "expire")
    side.find("expire")
    side.operate("expire", "own.expire")
    return {"ends_in": places(side.find("expire", but="own.expire"))}


@SCENARIOS.add(
    "changeMessagesPriority of all to 9, and one more with 5",
    order=better("a message keeps the place of its send; there it goes to the end of its priority"),
)
def prioritize(side: Side) -> Facts:
    for priority in (1, 3):
        side.send("own.prioritize", f"was {priority}", priority=priority)
    side.find("was", 2)
    side.operate("prioritize", "own.prioritize", priority=9)
    side.send("own.prioritize", "is 5", priority=5)
    return {"order": bodies(side.consumer("own.prioritize").take(3))}
