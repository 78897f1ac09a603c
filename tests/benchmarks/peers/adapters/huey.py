"""Huey on Redis: https://huey.readthedocs.io."""

from __future__ import annotations

from typing import Any

from huey import RedisHuey

from tests.benchmarks.peers import peer

huey = RedisHuey("bench", url=peer.URL, results=False)
handle: Any = huey.task(name="work")(peer.work)
COMMAND = "{bin}/huey_consumer tests.benchmarks.peers.adapters.huey.huey"


class Huey(peer.Peer):
    """One thread by default."""

    packages = ("huey", "redis", "hiredis")
    setting = "no results"
    workers = {peer.AS_IT_COMES: COMMAND, peer.THREADS: f"{COMMAND} --workers 8"}
    left = [["LLEN", "huey.redis.bench"]]
    crash = "lost: popped before it runs"
    fence = "no"
    leaves = "nothing"

    def send(self, body: Any) -> None:
        """Send one task."""
        handle(body)


if __name__ == "__main__":
    peer.serve(Huey())
