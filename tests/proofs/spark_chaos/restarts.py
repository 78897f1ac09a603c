"""Redis crashes and comes back with what it has on disk, in the middle of a stream and of writes."""

from __future__ import annotations

import contextlib

import redis

from tests.proofs.spark_chaos.count import tally
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import Process, World, wait_for
from tests.proofs.spark_chaos.write_kills import bodies

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes")
DOWN = 700  # milliseconds
ROWS = 60_000  # of a write: moved in 60 steps


def _crash(world: World) -> None:
    before = world.raw.info("server")["run_id"]
    with contextlib.suppress(redis.ConnectionError):
        world.raw.execute_command("DEBUG", "CRASH-AND-RECOVER", DOWN)

    def back() -> bool:
        try:
            return bool(world.raw.info("server")["run_id"] != before)
        except redis.RedisError:
            return False

    wait_for(back, "Redis is back")


def _crash_in(world: World, driver: Process, point: str, times: int, sentence: str) -> None:
    """Crash it some times, each time after the driver has come a little further."""
    for _ in range(times):
        world.until_passed(driver, point, world.random.randrange(1, 4))
        _crash(world)
        world.trial(sentence)


def redis_restarted(world: World) -> None:
    """Drivers and tasks wait until it is back; no query and no job fails."""
    sent = world.send("orders", 10_000)
    driver = world.stream("orders", maxMessagesPerTrigger=500)
    _crash_in(world, driver, "reading", 4, "in a stream")
    driver.until_ended()
    world.count(world.outcome("orders", sent))

    driver = world.drive("write", writes=[{"queue": "copies", "job": "job", "first": 0, "count": ROWS}])
    _crash_in(world, driver, "attempt", 1, "in a write, while tasks stage")
    _crash_in(world, driver, "moving", 3, "in a write, while it moves")
    driver.until_ended()
    world.count(tally(map(str, range(ROWS)), bodies(world, "copies")))


SCENARIOS = (
    Scenario("redis", "Redis crashes (AOF, fsync always)", "nothing fails", redis_restarted, DURABLE),
)
