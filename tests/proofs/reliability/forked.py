"""A process that forks while its brokers are in use, and children that use them, too; what came of it: JSON.

$ python -m tests.proofs.reliability.forked --forks 40 --seed 42
$ python -m tests.proofs.reliability.forked --cluster

A program of its own, with nothing in it but brokers, threads and forks.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import select
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from rq_dlq import BrokerUnavailable
from tests.colours import Awaited
from tests.connections.sources import Colour, Direct, Way, ways
from tests.proofs.reliability.site import Site, opened
from tests.servers import wait_until
from tests.servers.counts import WORDS
from tests.servers.proxy import Commands, Fault
from tests.verbs.life import Life, drive

TOGETHER = 8  # threads or tasks that call while it forks
REST = 0.01  # seconds at most between two of their lives: some connections are idle at any time
LIVES = 2  # of each thread or task in a child
PATIENCE = 30.0  # seconds that a child may take


@dataclass
class Forks:
    """Forks of this process.

    Attributes:
        told: children that came to their end, and told what they had found.
    """

    told: int = 0

    def child(self, work: Callable[[], list[str]]) -> list[str]:
        """Fork, and have the child do this; what it found wrong, as that it does not end."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                wrong = work()
            except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
                wrong = [traceback.format_exc()]
            os.write(writing, json.dumps(wrong).encode())
            os._exit(0)
        os.close(writing)
        try:
            if not select.select([reading], [], [], PATIENCE)[0]:
                return ["a child hangs"]
            wrong = list[str](json.loads(os.read(reading, 1 << 16)))
        finally:
            os.close(reading)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.told += 1
        return wrong


async def live(life: Life, turns: Iterable[object], rest: Callable[[], Awaitable[None]]) -> None:
    """One life after the other, as long as there are turns; an error ends it, and is noted."""
    try:
        for _ in turns:
            await life.live()
            await rest()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        life.wrong.append(f"{life.name}, life {life.lived}: {type(error).__name__}: {error}")


async def nap() -> None:
    """A rest of a thread."""
    time.sleep(random.uniform(0, REST))  # noqa: ASYNC251 - it runs in a thread of its own


async def doze() -> None:
    """A rest of a task."""
    await asyncio.sleep(random.uniform(0, REST))


def seen(lives: Sequence[Life], site: Site) -> list[str]:
    """What was wrong with these lives, when they are over."""
    raw = site.client()
    for life in lives:
        life.look(raw)
    raw.close()
    return [fault for life in lives for fault in life.wrong]


def until(over: threading.Event) -> Iterator[None]:
    """Turns without an end, until it is told."""
    while not over.is_set():
        yield


# What a child does with its parent's broker


def call(broker: Any, site: Site, name: str) -> list[str]:
    """Live in two threads."""
    lives = [Life(Awaited(broker), f"{name}-{n}") for n in range(2)]
    join(start(lives, lambda: range(LIVES)))
    gc.collect()
    return seen(lives, site)


def run_loop(broker: Any, site: Site, name: str) -> list[str]:
    """Live in two tasks of an event loop of its own."""
    lives = [Life(broker, f"{name}-{n}") for n in range(2)]

    async def live_all() -> None:
        await asyncio.gather(*(live(life, range(LIVES), doze) for life in lives))

    asyncio.run(live_all())
    gc.collect()  # closes what nobody holds any more, which must not be the parent's
    return seen(lives, site)


def start(lives: Sequence[Life], turns: Callable[[], Iterable[object]]) -> list[threading.Thread]:
    """A thread for each."""
    threads = [threading.Thread(target=drive, args=(live(life, turns(), nap),)) for life in lives]
    for thread in threads:
        thread.start()
    return threads


def join(threads: Sequence[threading.Thread]) -> None:
    """Wait for all."""
    for thread in threads:
        thread.join()


# The forks, of each kind so many


def beside_threads(way: Way, site: Site, forks: Forks, name: str, times: int) -> list[str]:
    """While threads call; the child uses the parent's queue, too."""
    broker = way(Direct(site.servers[0]))
    queue = broker.queue(f"{{{name}}}.shared")
    queue.send_many(range(times))
    lives = [Life(Awaited(broker), f"{name}-{n}") for n in range(TOGETHER)]
    over = threading.Event()
    threads = start(lives, lambda: until(over))
    wrong: list[str] = []
    for number in range(times):
        at_random(lives)
        wrong += forks.child(lambda n=number: [*take(queue), *call(broker, site, f"{name}-child{n}")])  # type: ignore[misc]
    over.set()
    join(threads)
    if (totals := queue.stats().totals)["acked"] != times:
        wrong.append(f"{name}: each of {times} children acked a message: {totals}")
    broker.close()
    return wrong + seen(lives, site)


def take(queue: Any, body: object = None) -> list[str]:
    """Claim a message, which has this body, and ack it."""
    claimed = queue.claim(1)
    if body is not None and [delivery.body for delivery in claimed] != [body]:
        return [f"claimed {[delivery.body for delivery in claimed]}, not what is {body}"]
    return [] if [bool(delivery.ack()) for delivery in claimed] == [True] else ["nothing to claim"]


def while_connecting(way: Way, site: Site, forks: Forks, name: str, times: int) -> list[str]:
    """While a thread connects for the first time."""
    wrong: list[str] = []
    for number in range(times):
        asked = threading.Event()

        def rule(commands: Commands, asked: threading.Event = asked) -> Fault | None:
            if commands[0][0] != b"INFO":
                return None
            asked.set()
            return "delay"

        with site.behind(rule) as proxy:
            broker = way(proxy)
            lives = [Life(Awaited(broker), f"{name}-{number}")]
            threads = start(lives, lambda: range(1))
            asked.wait()
            wrong += forks.child(lambda n=number, b=broker: call(b, site, f"{name}-child{n}"))  # type: ignore[misc]
            join(threads)
            broker.close()
        wrong += seen(lives, site)
    return wrong


def after_a_lost_claim(way: Way, site: Site, forks: Forks, name: str, times: int) -> list[str]:
    """When the parent does not know what became of its claim, and takes it up with its next one."""
    wrong: list[str] = []
    for number in range(times):
        lost = threading.Event()

        def rule(commands: Commands, lost: threading.Event = lost) -> Fault | None:
            return "drop" if lost.is_set() and commands[0][0] in WORDS else None

        with site.behind(rule) as proxy:
            broker = way(proxy)
            queue = broker.queue(f"{{{name}}}.{number}")
            queue.send_many(["of the parent", "of the child"])
            lost.set()
            with suppress(BrokerUnavailable):
                wrong += [f"{name}: {queue.claim()} in spite of lost replies"]
            lost.clear()
            wrong += forks.child(partial(take, queue, "of the child"))
            wrong += take(queue, "of the parent")
            broker.close()
    return wrong


def beside_loop(
    way: Way, site: Site, forks: Forks, name: str, times: int, *, inside: bool = False
) -> list[str]:
    """While tasks call in the event loop of another thread; or `inside` of it."""
    broker = way(Direct(site.servers[0]))
    lives = [Life(broker, f"{name}-{n}") for n in range(TOGETHER)]
    over = threading.Event()
    loop = asyncio.new_event_loop()

    async def live_all() -> None:
        await asyncio.gather(*(live(life, until(over), doze) for life in lives))
        await broker.close()

    async def fork_here(child: Callable[[], list[str]]) -> list[str]:
        return forks.child(child)

    thread = threading.Thread(target=loop.run_until_complete, args=(live_all(),))
    thread.start()
    wrong: list[str] = []
    for number in range(times):
        at_random(lives)
        child = partial(run_loop, broker, site, f"{name}-child{number}")
        if inside:
            wrong += asyncio.run_coroutine_threadsafe(fork_here(child), loop).result()
        else:
            wrong += forks.child(child)
    over.set()
    thread.join()
    loop.close()
    return wrong + seen(lives, site)


def at_random(lives: Sequence[Life]) -> None:
    """A random moment, when all have begun."""
    wait_until(lambda: all(life.lived or life.wrong for life in lives))
    time.sleep(random.uniform(0, 2 * REST))


@click.command()
@click.option("--forks", default=40, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--cluster/--one-server", "clustered", help="Of three nodes; by its URL only.")
def main(forks: int, seed: int, *, clustered: bool) -> None:
    """Fork, and tell."""
    random.seed(seed)
    children = Forks()

    def way(colour: Colour, name: str) -> Way:
        return ways(colour)["redis://" if clustered else name]

    kinds = [
        partial(beside_threads, way("blocking", "unix://")),
        partial(beside_threads, way("blocking", "BlockingConnectionPool")),
        partial(while_connecting, way("blocking", "unix://")),
        partial(after_a_lost_claim, way("blocking", "unix://")),
        partial(beside_loop, way("awaiting", "unix://")),
        partial(beside_loop, way("awaiting", "Redis()")),
        partial(beside_loop, way("awaiting", "redis://"), inside=True),
    ]
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory,
        opened(Path(directory), clustered=clustered) as site,
    ):
        for number, kind in enumerate(kinds):
            times = forks // len(kinds) + (number < forks % len(kinds))
            wrong += kind(site, children, f"kind{number}", times)
    click.echo(json.dumps({"forks": children.told, "wrong": wrong}))


if __name__ == "__main__":
    main()
