"""SAQ: https://saq-py.readthedocs.io."""

from __future__ import annotations

import os
from typing import Any

from saq import Queue

from tests.benchmarks.peers import peer

queue = Queue.from_url(peer.URL)
COMMAND = "{bin}/saq tests.benchmarks.peers.adapters.saq.settings"


async def handle(_: Any, *, body: Any) -> None:
    """The handler."""
    peer.work(body)


settings: dict[str, Any] = {"queue": queue, "functions": [handle]}
if os.environ.get("BENCH_WAY", peer.AS_IT_COMES) != peer.AS_IT_COMES:
    settings["concurrency"] = peer.AT_ONCE


class Saq(peer.Peer):
    """10 jobs at once by default."""

    packages = ("saq", "redis", "hiredis")
    setting = "no results (ttl=-1)"
    workers = dict.fromkeys((peer.AS_IT_COMES, peer.ASYNC_10, peer.ASYNC_100), COMMAND)
    left = [["ZCARD", "saq:default:incomplete"]]
    crash = "lost (aborted by the sweep; redelivered only with retries set)"
    fence = "no"
    leaves = "nothing"

    async def send(self, body: Any) -> None:
        """Send one job."""
        await queue.enqueue("handle", body=body, ttl=-1)


if __name__ == "__main__":
    peer.serve(Saq())
