"""A worker's memory over many messages, handlers that wait beside the ideal, two processes beside one.

    python -m tests.benchmarks.scale
    python -m tests.benchmarks.scale --messages 10000000

How much a thousand idle workers cost is T29 of `make reliability`.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psutil
import redis
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import rq_dlq
from rq_dlq.worker import Worker
from tests import servers
from tests.benchmarks.heading import heading

BODY = {"data": "x" * 89}  # 100 bytes of JSON
CHUNK = 10_000  # messages that are sent at once
AHEAD = 100_000  # messages that wait at most
TICK = 0.01  # seconds between two looks
WAITING = {
    "200 async calls of 50 ms": (200, 0.05, 0.96),
    "8 async calls of 5 ms": (8, 0.005, 0.95),
    "8 threads of 5 ms": (8, 0.005, 0.95),
}
"""How many at once, the seconds of each, and the least share of the ideal."""
MOST_GROWTH, LEAST_GAIN = 1.05, 1.6
CORES = 3  # that two workers and their server need


def work(url: str, core: int | None = None) -> None:
    """A worker as it comes, until it is stopped."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    with rq_dlq.Broker(url) as broker:
        broker.queue("bench").handler()(lambda _: None)
        Worker(broker).run()


@contextmanager
def workers(url: str, *cores: int | None) -> Iterator[list[psutil.Process]]:
    """Worker processes, each on its core; None: on any."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=work, args=(url, core)) for core in cores]
    for process in started:
        process.start()
    try:
        yield [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            os.kill(process.pid or 0, signal.SIGTERM)
            process.join()


def sent(queue: Any, messages: int) -> Iterator[int]:
    """Send so many, never far ahead of the workers: how many are done, now and again, and all at the end."""
    for number in range(0, messages, CHUNK):
        while (waiting := queue.stats().ready) > AHEAD:
            time.sleep(TICK)
        queue.send_many(BODY for _ in range(CHUNK))
        yield number - waiting
    while queue.stats().ready:
        time.sleep(TICK)
    yield messages


def memory(url: str, messages: int, progress: Progress) -> tuple[float, float]:
    """The megabytes of a worker after a tenth of the messages, and after all."""
    task = progress.add_task("memory", total=messages)
    with rq_dlq.Broker(url) as broker, workers(url, None) as (process,):
        early = 0
        for done in sent(broker.queue("bench"), messages):
            progress.update(task, completed=done)
            if not early and done >= messages // 10:
                early = process.memory_info().rss
        return early / 1e6, process.memory_info().rss / 1e6


def share_of_ideal(url: str, what: str, duration: float) -> float:
    """How many handlers that wait end in a second, of as many as could, which would take so many seconds."""
    together, seconds, _ = WAITING[what]
    messages = round(together / seconds * duration)
    times: list[float] = []

    def blocking(_: Any) -> None:
        times.append(time.perf_counter())
        time.sleep(seconds)
        times.append(time.perf_counter())

    async def awaiting(_: Any) -> None:
        times.append(time.perf_counter())
        await asyncio.sleep(seconds)
        times.append(time.perf_counter())

    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("bench")
        queue.send_many(BODY for _ in range(messages))
        queue.handler(concurrency=together)(awaiting if "async" in what else blocking)
        Worker(broker, until="empty").run()
    return messages * seconds / together / (max(times) - min(times))


def bare_share(what: str, duration: float) -> float:
    """The same without a queue: bare tasks, or threads, that sleep again and again."""
    together, seconds, _ = WAITING[what]
    rounds = round(duration / seconds)

    def blocking() -> None:
        for _ in range(rounds):
            time.sleep(seconds)

    async def awaiting() -> None:
        for _ in range(rounds):
            await asyncio.sleep(seconds)

    async def all_awaiting() -> None:
        await asyncio.gather(*(awaiting() for _ in range(together)))

    began = time.perf_counter()
    if "async" in what:
        asyncio.run(all_awaiting())
    else:
        with ThreadPoolExecutor(together) as threads:
            for _ in range(together):
                threads.submit(blocking)
    return rounds * seconds / (time.perf_counter() - began)


def rate(url: str, messages: int, *cores: int | None) -> float:
    """Messages a second of workers on these cores."""
    with rq_dlq.Broker(url) as broker:
        queue = broker.queue("bench")
        queue.send_many(BODY for _ in range(messages))
        with workers(url, *cores):
            while (left := queue.stats().ready) == messages:
                time.sleep(TICK)
            began = time.perf_counter()
            while queue.stats().ready:
                time.sleep(TICK)
            return left / (time.perf_counter() - began)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="that one worker takes")
    parser.add_argument("--seconds", type=float, default=5, help="that handlers which wait take at least")
    chosen = parser.parse_args(arguments)
    console, table = Console(), Table("", "", "goal", "met")

    def add(what: str, shown: str, goal: str, *, met: bool) -> None:
        table.add_row(what, shown, goal, "yes" if met else "no")

    with tempfile.TemporaryDirectory(), servers.running() as path, Progress(console=console) as progress:
        url = f"unix://{path}"
        for what, (_, _, goal) in WAITING.items():
            found, bare = share_of_ideal(url, what, chosen.seconds), bare_share(what, chosen.seconds)
            shown = f"{found:.3f} (bare {bare:.3f})"
            add(f"{what}: of the ideal", shown, f"≥ {goal}", met=found >= goal)
        early, late = memory(url, chosen.messages, progress)
        what = f"memory of a worker after {chosen.messages // 10:,} and {chosen.messages:,} messages"
        add(what, f"{early:.1f} and {late:.1f} MB", f"≤ {MOST_GROWTH} times", met=late <= early * MOST_GROWTH)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) >= CORES:
            with redis.Redis(unix_socket_path=path) as raw:
                os.sched_setaffinity(raw.info("server")["process_id"], {cores[0]})
            gain = rate(url, chosen.messages, *cores[1:3]) / rate(url, chosen.messages, cores[1])
            add("two workers : one", f"{gain:.2f}", f"≥ {LEAST_GAIN}", met=gain >= LEAST_GAIN)
        else:
            table.caption = f"two workers and their server need {CORES} cores, here are {len(cores)}"
        console.print(heading("tests.benchmarks.scale", path))
    console.print(table)


if __name__ == "__main__":
    main()
