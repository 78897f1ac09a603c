"""Lives of messages whose calls are cancelled at random points; what came of them, as JSON.

$ python -m tests.proofs.reliability.cancelled --cancels 1000 --seed 42
$ python -m tests.proofs.reliability.cancelled --cluster
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tests.connections.sources import Direct, Way, ways
from tests.proofs.reliability.site import Site, opened
from tests.servers import wait_until
from tests.verbs.life import CutShort, Life

T = TypeVar("T")
WAYS = ("redis://", "unix://", "Redis()", "BlockingConnectionPool")
TOGETHER = 8  # tasks that share a broker
SHARE = 0.4  # of the calls that are cancelled
TURNS = 14  # of the event loop, before which a call is cancelled; one takes some five
AGAIN = 0.2  # of the cancellations that are repeated at once, while the first one is at work


class Cancels:
    """Makes calls, and cancels some of them.

    Attributes:
        done: how many were cancelled so far.
    """

    def __init__(self, seed: int) -> None:
        self.done = 0
        self._random = random.Random(seed)

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T:
        if self._random.random() > SHARE:
            return await call()
        task = asyncio.ensure_future(call())
        for _ in range(self._random.randrange(TURNS)):
            await asyncio.sleep(0)
        task.cancel()
        while self._random.random() < AGAIN:
            await asyncio.sleep(0)
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            self.done += 1
            raise CutShort from None


async def live(way: Way, site: Site, name: str, cancels: Cancels, most: int) -> list[Life]:
    """Live by one way to a broker, until so many calls were cancelled."""
    broker = way(Direct(site.servers[0]))
    lives = [Life(broker, f"{name}-{n}", cancels) for n in range(TOGETHER)]
    await asyncio.gather(*(live_on(life, cancels, most) for life in lives))
    await broker.close()
    lives[0].wrong += await left(broker, site)
    return lives


async def live_on(life: Life, cancels: Cancels, most: int) -> None:
    """One life after the other; an error ends it, and is noted."""
    try:
        while cancels.done < most:
            await life.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        life.wrong.append(f"{life.name}, life {life.lived}: {type(error).__name__}: {error}")


async def left(broker: Any, site: Site) -> list[str]:
    """What is wrong with the connections, when all is closed: some are still lent, or open."""
    link = broker._connections._link
    pools = [each.pool for each in getattr(link, "_links", {"": link}).values()]
    lent = sum(len(pool._in_use_connections) for pool in pools)
    for _ in range(200):
        if not lent:
            break
        await asyncio.sleep(0.01)  # what a cancelled call has left to others ends by itself
        lent = sum(len(pool._in_use_connections) for pool in pools)
    for pool in pools:
        await pool.disconnect()
    servers = site.clients()

    def open_ones() -> int:
        return sum(raw.info("clients")["connected_clients"] - 1 for raw in servers)

    try:
        wait_until(lambda: not open_ones())
    except BaseException:  # noqa: BLE001 - pytest's
        return [f"{open_ones()} connections are open"]
    return [f"{lent} connections were not given back to their pool"] if lent else []


@click.command()
@click.option("--cancels", default=1_000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", help="This way to a broker only.")
@click.option("--cluster/--one-server", "clustered", help="Of three nodes; by its URL only.")
def main(cancels: int, seed: int, only: str | None, *, clustered: bool) -> None:
    """Live, and tell."""
    chance = Cancels(seed)
    told: dict[str, Any] = {"lives": 0, "unknown": 0, "wrong": []}
    some = ("redis://",) if clustered else (only,) if only else WAYS
    found = {name: way for name, way in ways("awaiting").items() if name in some}
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory,
        opened(Path(directory), clustered=clustered) as site,
    ):
        for number, (name, way) in enumerate(found.items()):
            lives = asyncio.run(live(way, site, f"w{number}", chance, chance.done - (-cancels // len(found))))
            for life in lives:
                life.look(site.client())
                told["lives"] += life.lived
                told["unknown"] += life.unknown
                told["wrong"] += [f"{name}: {fault}" for fault in life.wrong]
    click.echo(json.dumps({"cancels": chance.done, **told}))


if __name__ == "__main__":
    main()
