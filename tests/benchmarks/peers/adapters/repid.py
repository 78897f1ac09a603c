"""Repid on Redis streams: https://repid.aleksul.space."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from repid import Repid, Router
from repid.connections import RedisServer

from tests.benchmarks.peers import peer

app = Repid(title="bench", version="1.0.0")
app.servers.register_server("default", RedisServer(peer.URL), is_default=True)
router = Router()
COMMAND = "{python} -m tests.benchmarks.peers.adapters.repid worker"
IS_DEFAULT = os.environ.get("BENCH_WAY", peer.AS_IT_COMES) == peer.AS_IT_COMES
LIMITS: dict[str, Any] = {} if IS_DEFAULT else {"tasks_limit": peer.AT_ONCE}


@router.actor(channel="bench")
async def work(body: dict[str, Any]) -> None:
    """The handler."""
    peer.work(body)


app.include_router(router)


class RepidOnRedis(peer.Peer):
    """1,000 tasks at once by default."""

    packages = ("repid", "redis", "hiredis", "uvloop")
    setting = "uvloop"
    workers = dict.fromkeys((peer.AS_IT_COMES, peer.ASYNC_10, peer.ASYNC_100), COMMAND)
    left = [["XINFO", "GROUPS", "repid:bench"]]
    crash = "lost from view: claim_interval is 0 by default"
    fence = "no"
    leaves = "every message"

    _connection: Any = None

    async def prepare(self) -> None:
        """Connect."""
        if self._connection is None:
            self._connection = app.servers.default.connection()
            await self._connection.__aenter__()

    async def send(self, body: Any) -> None:
        """Send one message."""
        await app.send_message_json(channel="bench", payload={"body": body}, headers={"topic": "work"})


async def run() -> None:
    """The worker, as its documentation has it."""
    async with app.servers.default.connection():
        await app.run_worker(**LIMITS)


if __name__ == "__main__":
    if "worker" in sys.argv:
        with asyncio.Runner(loop_factory=peer.fast_loop()) as runner:
            runner.run(run())
    else:
        peer.serve(RepidOnRedis())
