"""arq: https://arq-docs.helpmanual.io."""

from __future__ import annotations

import os
from typing import Any

from arq.connections import ArqRedis, RedisSettings, create_pool

from tests.benchmarks.peers import peer

MODULE = "tests.benchmarks.peers.adapters.arq"
QUIET = {"version": 1}
COMMAND = f"{{bin}}/arq {MODULE}.Settings"


async def handle(_: Any, body: Any) -> None:
    """The handler."""
    peer.work(body)


class Settings:
    """Of the worker."""

    functions = (handle,)
    redis_settings = RedisSettings.from_dsn(peer.URL)
    keep_result = 0
    if os.environ.get("BENCH_WAY", peer.AS_IT_COMES) != peer.AS_IT_COMES:
        max_jobs = peer.AT_ONCE
        poll_delay = 0.01


class Arq(peer.Peer):
    """10 jobs at once by default."""

    packages = ("arq", "redis", "hiredis")
    setting = "no results; but as it comes: polls every 10 ms, no log"
    workers = {
        peer.AS_IT_COMES: COMMAND,
        peer.ASYNC_10: f"{COMMAND} --custom-log-dict {MODULE}.QUIET",
        peer.ASYNC_100: f"{COMMAND} --custom-log-dict {MODULE}.QUIET",
    }
    left = [["ZCARD", "arq:queue"]]
    crash = "redelivered after job_timeout + 10 s, 310 s"
    fence = "no"
    leaves = "nothing"

    _redis: ArqRedis

    async def prepare(self) -> None:
        """Connect."""
        self._redis = await create_pool(Settings.redis_settings)

    async def send(self, body: Any) -> None:
        """Send one job."""
        await self._redis.enqueue_job("handle", body)


if __name__ == "__main__":
    peer.serve(Arq())
