"""Two executors, of which one goes: between the two writes of a sink, in a write, in a read of a table."""

from __future__ import annotations

import os
import re
from typing import Any

from tests.proofs.spark_chaos.count import Tally, kept, tally, written
from tests.proofs.spark_chaos.executors import executors_of, straggler_of
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import World, require, wait_for
from tests.proofs.spark_chaos.write_kills import bodies

CLUSTER = "local-cluster[2,1,1024]"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "20",
    "spark.deploy.maxExecutorRetries": "-1",
}
IDLE = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",  # a sink goes on sooner, also on a busy machine
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "5s",
}
KILLS, FEWER, EACH, ROWS = 20, 6, 100, 8_000
LONG = 2_700.0  # seconds: executors come again, and epochs; an epoch takes a minute on a busy machine


def both(world: World, sent: list[str]) -> Tally:
    """What was lost; doubled is also what is in the sink and in the queue."""
    output, left = written(world.place() / "sink"), kept(world.broker.queue("orders"))
    found = tally(sent, output, left)
    return Tally(found.sent, found.lost, found.duplicated + len({*output} & {*left}))


def _epochs(
    world: World, between: str, epochs: int, *, conf: dict[str, str] | None = None, in_source: bool = False
) -> None:
    sent = world.send("orders", epochs * EACH)
    driver = world.stream(
        "orders",
        master=CLUSTER,
        conf=SMALL | {"spark.task.maxFailures": "2"} | (conf or {}),  # what went does not come again
        handler="fickle",
        between=between,
        losses=epochs,
        in_source=in_source,
        failures=3 * epochs,
        maxMessagesPerTrigger=EACH,
        numPartitions=2,
        maxBatchFailures=100,
    )
    driver.until_ended(LONG)
    gone = world.passes(driver, between)
    require(gone >= epochs // 2, f"only {gone} of {epochs} epochs lost an executor between their writes")
    world.trial(f"{between}: {gone} times between the two writes")
    world.count(both(world, sent))


def killed(world: World) -> None:
    """An executor is killed in each of the first epochs; fewer have to show a bug that is planted."""
    _epochs(world, "killed", FEWER if os.environ.get("CHAOS_PLANT") else KILLS)


def killed_source(world: World) -> None:
    """The same, and the source calls the handler."""
    _epochs(world, "killed", FEWER, in_source=True)


def taken_away(world: World) -> None:
    """Dynamic allocation takes the executors away, which are idle between the writes."""
    _epochs(world, "idle", FEWER, conf=IDLE)


def tables(world: World) -> None:
    """Executors are killed in a write, while tasks stage, and in a read."""
    said: dict[str, Any] = {"master": CLUSTER, "conf": SMALL}
    writes = [{"queue": "orders", "job": "job", "first": 0, "count": ROWS}]
    driver = world.drive("write", writes=writes, environment={"CHAOS_STRAGGLE": "60"}, **said)
    straggler_of(driver).kill()  # an attempt has staged its rows there, and another one will
    driver.until_ended()
    world.trial("an executor in a write")
    world.count(tally(map(str, range(ROWS)), bodies(world, "orders")))

    driver = world.drive("read", queue="orders", place=str(world.place()), **said)
    driver.until_said("reading")
    wait_for(lambda: len(executors_of(driver)) == 2 or driver.ended, "there are two executors")
    world.random.choice(executors_of(driver)).kill()
    driver.until_ended()
    world.trial("an executor in a read")
    world.count(tally(map(str, range(ROWS)), written(world.place() / "sink", "body")))


def before(world: World) -> None:
    """A checkpoint in the form that had no `format`, of a driver that died in its batch."""
    sent = world.send("orders", 3_000)
    world.stream("orders", die_at="planned:2", maxMessagesPerTrigger=600).until_killed("planned:2")
    changed = 0
    for file in (world.place() / "checkpoint" / "offsets").glob("[0-9]*"):
        text = file.read_text()
        without = re.sub(r',\s*"format":\s*1', "", text)
        changed += without != text
        file.write_text(without)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    require(changed, "no offset had a format")
    world.trial(f"{changed} offsets without a format")
    world.stream("orders", maxMessagesPerTrigger=600).until_ended()
    world.count(world.outcome("orders", sent))


SCENARIOS = (
    Scenario("split", "executors SIGKILLed between two writes", "handlers answer otherwise", killed),
    Scenario("split-source", "executors killed so", "handlers in the source answer otherwise", killed_source),
    Scenario("split-idle", "executors taken away between them", "handlers answer otherwise", taken_away),
    Scenario("tables", "executors SIGKILLed in a write and a read of a table", "", tables),
    Scenario("old-offsets", "a checkpoint without a format", "back within the lease", before),
)
