"""Lives of messages over a network that loses calls and replies; what came of them, as JSON.

$ python -m tests.proofs.reliability.lossy blocking --lives 100 --seed 42
$ python -m tests.proofs.reliability.lossy awaiting --cluster

A program of its own, so that it can run with any version of redis-py.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import redis

from rq_dlq._redis import pools
from tests.colours import Awaited
from tests.connections.sources import TIMEOUT, Address, Colour, Way, ways
from tests.servers import Server
from tests.servers.clusters import Cluster, PlainClient
from tests.servers.proxy import Chance, Fault, Proxy
from tests.verbs.life import Life, drive

SHARES: dict[Fault, float] = {"drop": 0.145, "reset": 0.145, "hole": 0.01}
"""30 % of what is said; black holes are few, since each costs a timeout."""
TOGETHER = 3  # threads or tasks that share a broker


@dataclass(frozen=True)
class Work:
    """So many lives by one way to a broker."""

    way: Way
    name: str
    times: int


def live(works: Sequence[Work], at: Address, colour: Colour) -> list[list[Life]]:
    """Live by every way at once: in threads, or in the tasks of one event loop."""
    if colour == "blocking":
        with ThreadPoolExecutor(len(works)) as threads:
            return list(threads.map(lambda work: live_blocking(work, at), works))

    async def live_all() -> list[list[Life]]:
        return await asyncio.gather(*(live_awaiting(work, at) for work in works))

    return asyncio.run(live_all())


def live_blocking(work: Work, at: Address) -> list[Life]:
    """By one way, in threads that share the broker."""
    broker = work.way(at)
    lives = [Life(Awaited(broker), f"{work.name}-{n}") for n in range(TOGETHER)]
    turns = iter(range(work.times))
    threads = [threading.Thread(target=drive, args=(live_on(life, turns),)) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    broker.close()
    return lives


async def live_awaiting(work: Work, at: Address) -> list[Life]:
    """By one way, in tasks that share the broker."""
    broker = work.way(at)
    lives = [Life(broker, f"{work.name}-{n}") for n in range(TOGETHER)]
    turns = iter(range(work.times))
    await asyncio.gather(*(live_on(life, turns) for life in lives))
    await broker.close()
    return lives


async def live_on(life: Life, turns: Iterator[int]) -> None:
    """One life after the other, as long as there are turns; an error ends it, and is noted."""
    try:
        for _ in turns:
            await life.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        life.wrong.append(f"{life.name}, life {life.lived}: {type(error).__name__}: {error}")


def one_server(stack: ExitStack, directory: Path, chance: Chance) -> tuple[Proxy, Any]:
    """A server behind the network; and a client that sees it as it is."""
    server = stack.enter_context(Server(directory))
    return stack.enter_context(Proxy(server.socket, directory, chance)), server.client()


def cluster(stack: ExitStack, directory: Path, chance: Chance) -> tuple[Proxy, Any]:
    """The same of a cluster, whose nodes all say that they are at the other end of the network."""
    nodes = stack.enter_context(Cluster(directory))
    raw = PlainClient(nodes)
    return stack.enter_context(nodes.behind(chance)), raw


@click.command()
@click.argument("colour", type=click.Choice(["blocking", "awaiting"]))
@click.option("--cluster/--one-server", "clustered", help="Of three nodes; by its URL only.")
@click.option("--lives", default=100, show_default=True, help="In all, by every way.")
@click.option("--seed", default=0, show_default=True)
@click.option("--only", help="This way only.")
def main(colour: Colour, lives: int, seed: int, only: str | None, *, clustered: bool) -> None:
    """Live, and tell."""
    pools.SHORTEST_TIMEOUT = pools.SOCKET_TIMEOUT = TIMEOUT  # which is seconds otherwise
    only = "redis://" if clustered else only
    found = {name: way for name, way in ways(colour).items() if only in {None, name}}
    chance = Chance(seed, SHARES)
    calls: Counter[str] = Counter()
    acknowledged, unknown, wrong = 0, 0, list[str]()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rq-dlq-")))
        proxy, raw = (cluster if clustered else one_server)(stack, directory, chance)
        works = [
            Work(way, f"w{number}", lives // len(found) + (number < lives % len(found)))
            for number, way in enumerate(found.values())
        ]
        for name, lived in zip(found, live(works, proxy, colour), strict=True):
            for life in lived:
                life.look(raw)
                calls += life.calls
                acknowledged += life.acknowledged
                unknown += life.unknown
                wrong += [f"{name}: {fault}" for fault in life.wrong]
    told = {
        "calls": calls,
        "faults": chance.seen,
        "acknowledged": acknowledged,
        "unknown": unknown,
        "wrong": wrong,
    }
    click.echo(json.dumps({"redis-py": redis.__version__, **told}))


if __name__ == "__main__":
    main()
