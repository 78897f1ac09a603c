"""The driver of a write dies: before the marker, after it, while it moves; for jobs and for streams."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rq_dlq
from tests.proofs.spark_chaos.count import tally
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import World, require, wait_for

ROWS = 12_000
FILES, A_FILE = 8, 2_500  # it is moved in three steps, and a fourth that finds nothing
POINTS = {
    "attempt:2": ("while tasks stage", 0),
    "staged:1": ("before the marker", 0),
    "moving:1": ("after the marker", ROWS),
    "moving:4": ("in the middle of the move", ROWS),
    "moved:1": ("after the move", ROWS),
}


def bodies(world: World, queue: str) -> list[str]:
    """What waits in a queue."""
    return [str(message.body) for message in world.broker.queue(queue).select().browse()]


def until_moved(world: World, queue: rq_dlq.Queue[Any]) -> None:
    """Maintenance goes on until all that was committed is in the queue."""
    committed = queue._core.keys["committed"]
    wait_for(lambda: queue.maintain() and not world.raw.exists(committed), "maintenance moves")


def jobs(world: World) -> None:
    """Each driver writes to a queue of its own and dies; maintenance comes; one more runs all jobs again."""
    writes: list[dict[str, Any]] = [
        {"queue": f"orders{n}", "job": f"job{n}", "first": n * ROWS, "count": ROWS}
        for n in range(len(POINTS))
    ]
    for each, (point, (when, _)) in zip(writes, POINTS.items(), strict=True):
        world.drive("write", writes=[each], die_at=point).until_killed(point)
        world.trial(when)
    for each, (when, expected) in zip(writes, POINTS.values(), strict=True):
        queue = world.broker.queue(each["queue"])
        until_moved(world, queue)
        there = len(bodies(world, queue.name))
        require(there == expected, f"{when}: {there} of {expected} messages after maintenance")
    world.drive("write", writes=writes).until_ended()
    for each in writes:
        sent = [str(number) for number in range(each["first"], each["first"] + ROWS)]
        world.count(tally(sent, bodies(world, each["queue"])))


def streams(world: World) -> None:
    """Files become messages, a batch each; ids are drawn, so that a repetition would show."""
    source = world.folder / "source"
    source.mkdir()
    for number in range(FILES):
        column = [str(number * A_FILE + row) for row in range(A_FILE)]
        pq.write_table(pa.table({"body": column}), source / f"{number}.parquet")
    said: dict[str, Any] = {
        "queue": "orders",
        "source": str(source),
        "place": str(world.folder / "checkpoint"),
    }
    for point, when in (
        ("staged:2", "before the marker"),
        ("moving:5", "after the marker"),
        ("moving:2", "in the middle of the move"),
        ("moved:2", "after the move, before the commit log"),
    ):
        world.drive("stream_write", die_at=point, **said).until_killed(point)
        world.trial(when)
    world.drive("stream_write", **said).until_ended()
    queue = world.broker.queue("orders")
    until_moved(world, queue)
    world.count(tally([str(number) for number in range(FILES * A_FILE)], bodies(world, "orders")))


SCENARIOS = (
    Scenario("writer", "driver of a write SIGKILLed", "all or nothing; run again by jobId", jobs),
    Scenario("stream-write", "driver of a stream write SIGKILLed", "each batch once", streams),
)
