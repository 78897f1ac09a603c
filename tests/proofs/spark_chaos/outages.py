"""A service that messages need is down, and comes back: what waits follows, also past a dead driver."""

from __future__ import annotations

from typing import Any

import rq_dlq
from tests.proofs.spark_chaos.count import sizes
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import World, require, wait_for

NEEDED = "payments"
MESSAGES, A_TRIGGER = 4_000, 400
MOST = 40  # epochs: 1, 2, … 256, then 400 each are 18; 32 at a time would be 125
LONGEST = 4.0  # seconds that a call which tests the service may take
BREAKER = rq_dlq.Breaker(distinct=3, probe="500ms", longest_probe=f"{LONGEST}s")
AGAIN = rq_dlq.RedeliveryPolicy(max_redeliveries=5, delays=["1s"])
A_PROBE = "sinking:6"  # at most five epochs had begun as the third one opened the breaker


def outage(world: World) -> None:
    """A driver dies with what tests the service; another one, beside it, takes what waits once it is up."""
    queue, down = world.broker.queue("orders", breaker=BREAKER, redelivery=AGAIN), world.folder / "down"
    down.touch()
    ids = (queue.send_many(range(500), dependency=NEEDED) for _ in range(0, MESSAGES, 500))
    sent = [each for some in ids for each in some]
    said: dict[str, Any] = {"handler": "needy", "between": "nobody"}
    dead = world.stream("orders", "one", die_at=A_PROBE, maxMessagesPerTrigger=100, **said)
    dead.until_killed(A_PROBE)
    held = queue.stats().leased
    require(queue.dependency(NEEDED).stats().open, "the service does not count as down")
    require(0 < held <= 3, f"{held} messages test the service")
    world.trial(f"a driver SIGKILLed with {held} messages that test the service, under a lease of 15 minutes")

    driver = world.stream("orders", "two", maxMessagesPerTrigger=A_TRIGGER, **said)
    driver.until_said("started")
    wait_for(lambda: queue.dependency(NEEDED).stats().hangs or driver.ended, "its call counts as hanging", 60)
    hanging = len(queue.dependency(NEEDED).stats().hangs)
    require(hanging == 1, f"the batch of the dead driver counts as {hanging} calls that hang")
    wait_for(lambda: queue.dependency(NEEDED).stats().waiting >= MESSAGES - 2 * held, "all others wait")
    down.unlink()
    out = _follow(world, len(sent) - held)
    require(out <= 2 * A_TRIGGER, f"{out} were let in at a time, after batches of {A_TRIGGER}")
    epochs = [rows for rows in sizes(world.place("two") / "sink") if rows]
    require(len(epochs) <= MOST, f"what waited took {len(epochs)} epochs: {epochs[:12]}…")
    world.trial(f"all others came back in {len(epochs)} epochs: {', '.join(map(str, epochs))}")

    world.stream("orders", "one", **said).until_ended()
    driver.until_ended()
    require(not queue.stats().dead, "messages died of an outage")
    world.count(world.outcome("orders", sent, "one", "two"))


def _follow(world: World, wanted: int) -> int:
    """Wait until so many are acked; the most that were let in at a time."""
    most = 0

    def is_over() -> bool:
        nonlocal most
        stats = world.broker.queue("orders").stats()
        most = max(most, stats.ready)
        return stats.totals.get("acked", 0) >= wanted

    wait_for(is_over, "what waited comes back")
    return most


SCENARIOS = (
    Scenario(
        "outage", "a service is down, a driver dies as it tests it", "its batch holds nothing up", outage
    ),
)
