"""The driver of a stream dies: at every point, at random, and for longer than its lease."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import LeaseLost
from rq_dlq.spark.heartbeat import NOT_HELD
from tests.proofs.spark_chaos.handlers import POISON
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import Process, World, only_died, require, wait_for

if TYPE_CHECKING:
    import rq_dlq

# Where it dies in its second batch; the first is the one in which the driver before it died.
POINTS = {
    "committed:2": "after the commit log",
    "acking:3": "noted as done, before the ack",
    "claiming:3": "before it claims a batch ahead",
    "claiming:6": "between two claims of a batch, ahead, beside the ack and the tasks",
    "claimed:2": "after the claim, before the offset log",
    "logged:2": "after the offset log",
    "planned:2": "before the tasks",
    "reading:5": "in a task",
    "sinking:2": "before the sink",
    "sunk:2": "after the sink, before the commit log",
}


MOST_DRIVERS = 16  # each takes half of what the one before it took; three take the last message


def at_every_point(world: World) -> None:
    """Each driver goes on where the one before it died; the last one ends the work."""
    sent = world.send("orders", 16_000)
    for point, when in POINTS.items():
        world.stream("orders", die_at=point, maxMessagesPerTrigger=600).until_killed(point)
        world.trial(when)
    world.stream("orders").until_ended()
    world.count(world.outcome("orders", sent))


def at_random(world: World) -> None:
    """All at once, or Java alone: then the reader beside it has to end by itself, and renew no lease."""
    sent = world.send("orders", 20_000)
    for kill in (Process.kill, Process.kill_java) * 3:
        driver = world.stream("orders", maxMessagesPerTrigger=500)
        world.until_passed(driver, "sunk", world.random.randrange(1, 4))
        time.sleep(world.random.uniform(0.0, 1.5))
        require(not driver.ended, "the driver had ended before it was killed")
        kill(driver)
        world.trial(f"{kill.__name__} after {_acked(world):,} acked")
    world.stream("orders").until_ended()
    world.count(world.outcome("orders", sent))


def _acked(world: World) -> int:
    return world.broker.queue("orders").stats().totals.get("acked", 0)


def _lapse(queue: rq_dlq.Queue[Any]) -> None:
    """Others look after the queue and shuffle it while nobody holds the lease."""
    wait_for(lambda: queue.maintain() and not queue.stats().leased, "the leases lapse")
    queue.release(queue.claim(300))


def while_down(world: World) -> None:
    """What was claimed goes to another batch, uncharged, and the sink's batch is overwritten."""
    queue = world.broker.queue("orders")
    said: dict[str, Any] = {"lease": "4s", "maxMessagesPerTrigger": 1_000}

    first = world.send("orders", 1_000)
    world.stream("orders", die_at="committed:1", **said).until_killed("committed:1")
    _lapse(queue)

    sent = world.send("orders", 6_000)
    for point, when in (
        ("claimed:2", "lapsed before the offset log"),
        ("planned:2", "lapsed before the tasks"),
        ("sunk:2", "lapsed before the commit log"),
    ):
        world.stream("orders", die_at=point, **said).until_killed(point)
        _lapse(queue)
        world.trial(when)
    world.stream("orders", **said).until_ended()
    world.count(world.outcome("orders", sent))
    require(not queue.stats().dead, "messages died, though no handler failed")

    found = world.outcome("orders", first)
    require(found.lost == 0, f"{found.lost} lost where the lease lapsed between commit log and ack")
    world.trial(f"window: lapsed between commit log and ack, {found.duplicated:,} twice, as the page says")


def killed_by_a_message(world: World) -> None:
    """One of a hundred kills each driver that has it, and each next one comes later than the lease."""
    queue = world.broker.queue("orders", type=bytes)
    bad = world.random.randrange(100)
    sent = queue.send_many([POISON if number == bad else b"good" for number in range(100)])
    for _ in range(MOST_DRIVERS):
        driver = world.stream("orders", handler="deadly", lease="4s")
        driver.until_gone()
        if driver.process.returncode == 0:
            break
        driver.until_killed("its message")
        _lapse(queue)
        world.trial(f"killed after {_acked(world)} acked")
    only_died(queue, sent[bad])
    world.count(world.outcome("orders", sent))


def frozen(world: World) -> None:
    """Its host is paused for longer than the lease: after the sink, and before it in a sink that checks."""
    queue, go = world.broker.queue("orders"), world.folder / "go"
    said: dict[str, Any] = {"lease": "4s", "maxMessagesPerTrigger": 1_000}

    def freeze(point: str, **more: Any) -> Process:
        driver = world.stream("orders", environment={"CHAOS_HOLD_AT": f"{point}:1"}, **said, **more)
        wait_for(lambda: world.passes(driver, point) or driver.ended, f"it comes to {point}")
        require(not driver.ended, f"it ended before {point}:\n{driver.tail}")
        with driver.frozen():
            _lapse(queue)
            go.touch()
        driver.until_ended()
        go.unlink()
        return driver

    first = world.send("orders", 1_000)
    warned = NOT_HELD % ("orders", "batch 1", 1_000) in freeze("sunk").text
    require(warned, "it did not say that 1,000 messages were no longer held")
    found = world.outcome("orders", first)
    require(found.lost == 0, f"{found.lost} lost by a frozen driver")
    world.trial(f"window: frozen after the sink, {found.duplicated:,} twice and warned of, as the page says")

    sent = world.send("orders", 3_000)
    driver = freeze("worked", checks=True, failures=1)
    require(driver.raised(LeaseLost), "check_held() raised nothing")
    world.trial("frozen before the sink, which checks")
    world.count(world.outcome("orders", sent))


SCENARIOS = (
    Scenario("driver-points", "driver SIGKILL at every point", "back within the lease", at_every_point),
    Scenario("driver-random", "driver SIGKILL at random", "back within the lease", at_random),
    Scenario(
        "killer", "a message kills each driver", "back after the lease; it alone dies", killed_by_a_message
    ),
    Scenario("frozen", "driver frozen for longer than its lease", "sink calls check_held()", frozen),
    Scenario("lapse", "lease lapses while the driver is down", "sink overwrites by batch", while_down),
)
