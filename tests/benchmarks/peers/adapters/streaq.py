"""streaQ: https://streaq.readthedocs.io."""

from __future__ import annotations

import os
from typing import Any

from streaq import Worker

from tests.benchmarks.peers import peer

IS_DEFAULT = os.environ.get("BENCH_WAY", peer.AS_IT_COMES) == peer.AS_IT_COMES
SPEED: dict[str, Any] = (
    {} if IS_DEFAULT else {"concurrency": peer.AT_ONCE, "anyio_kwargs": {"use_uvloop": True}}
)
worker: Any = Worker(redis_url=peer.URL, **SPEED)
COMMAND = "{bin}/streaq run tests.benchmarks.peers.adapters.streaq:worker"


@worker.task(silent=True, ttl=0)
async def handle(body: Any) -> None:
    """The handler."""
    peer.work(body)


class Streaq(peer.Peer):
    """16 tasks at once by default."""

    packages = ("streaq", "coredis", "uvloop")
    setting = "no results, silent; but as it comes: uvloop"
    workers = dict.fromkeys((peer.AS_IT_COMES, peer.ASYNC_10, peer.ASYNC_100), COMMAND)
    left = [["XLEN", "streaq:default:queues:normal"]]
    crash = "redelivered after idle_timeout, 60 s"
    fence = "no"
    leaves = "nothing"

    _is_open = False

    async def prepare(self) -> None:
        """Open the worker's connections, which senders use, too."""
        if not self._is_open:
            await worker.__aenter__()
            self._is_open = True

    async def send(self, body: Any) -> None:
        """Send one task."""
        await handle.enqueue(body)

    async def send_chunk(self, bodies: list[Any]) -> None:
        """Send many tasks."""
        await worker.enqueue_many([handle.enqueue(body) for body in bodies])


if __name__ == "__main__":
    peer.serve(Streaq())
