"""Trouble in executors: they are killed, their tasks fail, their tasks run twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.proofs.spark_chaos.count import tally
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import Process, World, require, wait_for
from tests.proofs.spark_chaos.write_kills import bodies


def executors_of(driver: Process) -> list[psutil.Process]:
    """Their Java processes."""
    found: list[psutil.Process] = []
    for each in psutil.Process(driver.process.pid).children(recursive=True):
        try:
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                found.append(each)
        except psutil.NoSuchProcess:
            continue
    return found


def straggler_of(driver: Process) -> psutil.Process:
    """The executor with the attempt that is slow (`failpoints.straggle`), once there is one."""
    told = driver.log.with_suffix(".passes") / "straggler"
    wait_for(lambda: (told.exists() and told.read_text()) or driver.ended, "an attempt is slow")
    require(not driver.ended, f"it ended before an attempt was slow:\n{driver.tail}")
    above = psutil.Process(int(told.read_text())).parents()
    return next(each for each in executors_of(driver) if each in above)


def killed(world: World) -> None:
    """One executor after the other, in one driver, while tasks are at work."""
    sent = world.send("orders", 8_000)
    driver = world.stream(
        "orders",
        master="local-cluster[2,1,1024]",
        conf={"spark.executor.memory": "512m", "spark.task.maxFailures": "20"},
        handler="slow",
        maxMessagesPerTrigger=400,
        numPartitions=4,
    )
    driver.until_said("started")
    for _ in range(5):
        wait_for(lambda: executors_of(driver), "there is an executor")
        world.until_passed(driver, "reading", world.random.randrange(2, 8))
        time.sleep(world.random.uniform(0.0, 0.5))
        victim = world.random.choice(executors_of(driver))
        victim.kill()
        world.trial("executor SIGKILL while tasks run")
    driver.until_ended()
    world.count(world.outcome("orders", sent))


def failing_tasks(world: World) -> None:
    """Each task fails twice, before it has read and after it has written."""
    sent = world.send("orders", 2_000)
    driver = world.stream("orders", master="local[2,4]", handler="flaky", maxMessagesPerTrigger=1_000)
    driver.until_ended()
    failed = driver.text.count("the task fails when")
    require(failed, "no task failed")
    world.trial("each task failed twice")
    world.count(world.outcome("orders", sent))


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}


@contextmanager
def cluster(world: World) -> Iterator[str]:
    """A master and workers on two addresses, since a second attempt never runs on the first one's host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    package = "org.apache.spark.deploy"
    small = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    parts = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    master = world.start(program, f"{package}.master.Master", *parts, **small)
    try:
        master.until_said("New state: ALIVE")
        for host in ("127.0.0.1", "127.0.0.2"):
            parts = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            parts += ["--work-dir", str(world.folder / host), url]
            world.start(program, f"{package}.worker.Worker", *parts, **small, SPARK_LOCAL_IP=host)
        wait_for(lambda: master.text.count("Registering worker") == 2, "both workers come")
        yield url
    finally:
        for each in world.started:
            each.kill()


def speculation(world: World) -> None:
    """The first attempt at a part hangs, the second one on the other host is quick: one of them counts."""
    slow = {"CHAOS_STRAGGLE": "8"}
    with cluster(world) as master:
        writes = [{"queue": "orders", "job": "job", "first": 0, "count": 8_000}]
        driver = world.drive("write", master=master, conf=SPECULATION, environment=slow, writes=writes)
        driver.until_ended()
        again = world.passes(driver, "again")
        require(again, "no second attempt staged")
        world.count(tally(map(str, range(8_000)), bodies(world, "orders")))
        world.trial(f"write of 4 parts, {again} staged by two attempts")

        sent = [message.id for message in world.broker.queue("orders").select().browse()]
        driver = world.stream(
            "orders",
            master=master,
            conf=SPECULATION,
            environment=slow,
            handler="straggling",
            numPartitions=4,
            maxMessagesPerTrigger=4_000,
        )
        driver.until_ended()
        again = world.passes(driver, "again")
        require(again, "no second attempt read")
        world.count(world.outcome("orders", sent))
        world.trial(f"read, {again} parts by two attempts")


SCENARIOS = (
    Scenario("executor", "executor SIGKILL in local-cluster", "", killed),
    Scenario("task", "tasks fail and are tried again", "", failing_tasks),
    Scenario("speculation", "tasks run twice, on two hosts", "", speculation),
)
