"""Queries that fail by themselves: a poison message, an old checkpoint; and two of them on one queue."""

from __future__ import annotations

import shutil
from typing import Any

from rq_dlq.errors import DataLoss
from tests.proofs.spark_chaos.count import written
from tests.proofs.spark_chaos.handlers import POISON
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import Process, World, only_died, require, wait_for

MOST_FAILURES = 18  # of 1,000 messages: two until the batch is halved, log2(n) + 2 then, and four to spare
FAILED = "\nfailed "  # what a driver says of a query that has


def poison(world: World) -> None:
    """The query is started again until it goes through; the batch is halved until one message is left."""
    queue = world.broker.queue("orders", type=bytes)
    bad = world.random.randrange(1_000)
    sent = queue.send_many([POISON if number == bad else b"good" for number in range(1_000)])
    driver = world.stream("orders", handler="picky", failures=MOST_FAILURES)
    driver.until_ended()
    only_died(queue, sent[bad])
    processed = set(written(world.place() / "sink"))
    require(processed == {*sent} - {sent[bad]}, "not all others were processed")
    world.count(world.outcome("orders", sent))
    world.trial(f"1 of 1,000 found after {driver.text.count(FAILED)} failures")


def old_checkpoint(world: World) -> None:
    """A copy of the checkpoint is put back; the queue has gone on since."""
    here, copy = world.place() / "checkpoint", world.folder / "copy"
    sent: list[str] = []
    for _ in range(2):
        sent += world.send("orders", 500)
        world.stream("orders").until_ended()
        if not copy.exists():
            shutil.copytree(here, copy)
    shutil.rmtree(here)
    copy.rename(here)
    sent += world.send("orders", 500)
    for careful in ("true", "false"):
        driver = world.stream("orders", failOnDataLoss=careful)
        driver.until_failed()
        require(driver.raised(DataLoss), f"another error:\n{driver.text[-2_000:]}")
        require(world.broker.queue("orders").stats().ready == 500, "the refused query claimed something")
        world.trial(f"refused with failOnDataLoss={careful}; what waits is untouched")
    shutil.rmtree(here)
    world.stream("orders").until_ended()
    world.count(world.outcome("orders", sent))


def deleted_checkpoint(world: World) -> None:
    """Epochs begin again at 0, in the sink that has others from 0 on."""
    sent: list[str] = []
    for _ in range(3):
        sent += world.send("orders", 1_000)
        world.stream("orders", maxMessagesPerTrigger=500).until_ended()
        shutil.rmtree(world.place() / "checkpoint")
        world.trial("checkpoint deleted")
    world.count(world.outcome("orders", sent))


def two(world: World) -> None:
    """Each has its checkpoint and its sink; they share the queue, and then one driver dies."""
    sent = world.send("orders", 8_000)
    # Queries side by side may fail with an OptionalDataException: Spark serializes what another one changes.
    said: dict[str, Any] = {"maxMessagesPerTrigger": 300, "failures": 30}
    world.stream("orders", "one", "two", die_at="sunk:12", **said).until_killed("sunk:12")
    world.trial("their driver SIGKILLed")
    driver = world.stream("orders", "one", "two", **said)
    driver.until_ended()
    shares = [len(written(world.place(name) / "sink")) for name in ("one", "two")]
    require(all(shares), f"one of them got nothing: {shares}")
    failed = driver.text.count(FAILED)
    world.trial(f"shared {shares[0]:,} and {shares[1]:,}; a query was started again {failed} times")
    world.count(world.outcome("orders", sent, "one", "two"))


REMADE = (
    ("claimed:1", "between the first offset and its batch", 500),
    ("claimed:2", "between an offset and its batch", 500),
    ("sunk:2", "in a batch", 500),
)
"""Where a query is as its queue is deleted, and how many messages are sent to it again."""


def made_again(world: World) -> None:
    """The queue is deleted, with what waits in it, and made again, while the query is at work or has died."""
    for number, (point, when, count) in enumerate(REMADE):
        name = f"orders{number}"
        world.send(name, 2_000)
        driver = _held(world, name, point)
        world.delete(name)
        world.send(name, count)
        (world.folder / "go").touch()
        _is_refused(world, driver, name, count)
        (world.folder / "go").unlink()
        world.trial(f"{when}: refused; what was sent again is untouched" if count else f"{when}: refused")

    name = "orders"
    more: dict[str, Any] = {"maxMessagesPerTrigger": 300}
    world.send(name, 2_000)
    world.stream(name, die_at="sunk:2", **more).until_killed("sunk:2")
    world.delete(name)
    again = world.send(name, 500)
    _is_refused(world, world.stream(name, **more), name, 500)
    world.trial("while the driver is dead: refused; what was sent again is untouched")
    world.stream(name, failOnDataLoss="false", **more).until_ended()
    world.count(world.outcome(name, again))
    world.trial("failOnDataLoss=false: it goes on with what was sent again")


def _held(world: World, queue: str, point: str) -> Process:
    """A query that waits at this point for the file `go`."""
    there = {"CHAOS_HOLD_AT": point}
    driver = world.stream(queue, queue, environment=there, endless=True, maxMessagesPerTrigger=300)
    name, times = point.split(":")
    wait_for(lambda: world.passes(driver, name) >= int(times) or driver.ended, f"it comes to {point}")
    require(not driver.ended, f"it ended before {point}:\n{driver.tail}")
    return driver


def _is_refused(world: World, driver: Process, queue: str, ready: int) -> None:
    def claimed() -> int:
        return ready - world.broker.queue(queue).stats().ready

    wait_for(lambda: driver.ended or claimed(), "the query is refused")
    require(not claimed(), "the query goes on with what was sent again")
    driver.until_failed()
    require(driver.raised(DataLoss), f"another error:\n{driver.text[-2_000:]}")


SCENARIOS = (
    Scenario("poison", "a batch that fails again and again", "the poison alone dies", poison),
    Scenario("old-checkpoint", "an old checkpoint is put back", "refused", old_checkpoint),
    Scenario("made-again", "the queue is deleted and made again", "refused", made_again),
    Scenario("no-checkpoint", "the checkpoint is deleted", "sink uses epoch_key()", deleted_checkpoint),
    Scenario("two-queries", "two queries on one queue", "each message to one of them", two),
)
