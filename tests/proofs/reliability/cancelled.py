"""Lives of messages whose calls are cancelled at random points; what came of them, as JSON.

$ python -m tests.proofs.reliability.cancelled --cancels 1000 --seed 42
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from tests.connections.sources import Direct, Way, ways
from tests.servers import Server, free_port, wait_until
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


async def live(way: Way, server: Server, name: str, cancels: Cancels, most: int) -> list[Life]:
    """Live by one way to a broker, until so many calls were cancelled."""
    broker = way(Direct(server))
    lives = [Life(broker, f"{name}-{n}", cancels) for n in range(TOGETHER)]
    await asyncio.gather(*(live_on(life, cancels, most) for life in lives))
    await broker.close()
    lives[0].wrong += await left(broker, server)
    return lives


async def live_on(life: Life, cancels: Cancels, most: int) -> None:
    """One life after the other; an error ends it, and is noted."""
    try:
        while cancels.done < most:
            await life.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        life.wrong.append(f"{life.name}, life {life.lived}: {type(error).__name__}: {error}")


async def left(broker: Any, server: Server) -> list[str]:
    """What is wrong with the connections, when all is closed: some are still lent, or open."""
    pool = broker._connections.pool
    for _ in range(200):
        if not pool._in_use_connections:
            break
        await asyncio.sleep(0.01)  # what a cancelled call has left to others ends by itself
    lent = len(pool._in_use_connections)
    await pool.disconnect()
    with server.client() as raw:
        try:
            wait_until(lambda: raw.info("clients")["connected_clients"] == 1)
        except BaseException:  # noqa: BLE001 - pytest's
            return [f"{raw.info('clients')['connected_clients'] - 1} connections are open"]
    return [f"{lent} connections were not given back to their pool"] if lent else []


@click.command()
@click.option("--cancels", default=1_000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", help="This way to a broker only.")
def main(cancels: int, seed: int, only: str | None) -> None:
    """Live, and tell."""
    chance = Cancels(seed)
    told: dict[str, Any] = {"lives": 0, "unknown": 0, "wrong": []}
    found = {name: way for name, way in ways("awaiting").items() if name in ({only} if only else WAYS)}
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory,
        Server(directory, port=free_port()) as server,
    ):
        for number, (name, way) in enumerate(found.items()):
            lives = asyncio.run(
                live(way, server, f"w{number}", chance, chance.done - (-cancels // len(found)))
            )
            for life in lives:
                life.look(server.client())
                told["lives"] += life.lived
                told["unknown"] += life.unknown
                told["wrong"] += [f"{name}: {fault}" for fault in life.wrong]
    click.echo(json.dumps({"cancels": chance.done, **told}))


if __name__ == "__main__":
    main()
