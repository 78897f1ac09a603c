"""Dramatiq on Redis: https://dramatiq.io."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.benchmarks.peers import peer

dramatiq.set_broker(RedisBroker(url=peer.URL))
handle: Any = dramatiq.actor(queue_name="bench", actor_name="work")(peer.work)
COMMAND = "{bin}/dramatiq tests.benchmarks.peers.adapters.dramatiq"


class Dramatiq(peer.Peer):
    """Two processes of 8 threads by default here."""

    packages = ("dramatiq", "redis", "hiredis")
    setting = "for speed one process, 8 threads, prefetch 1,000"
    workers = {
        peer.AS_IT_COMES: COMMAND,
        peer.FOR_SPEED: f"env dramatiq_queue_prefetch=1000 {COMMAND} --processes 1 --threads 8",
        peer.THREADS: f"{COMMAND} --processes 1 --threads 8",
    }
    left = [["HLEN", "dramatiq:bench.msgs"]]
    crash = "redelivered by another worker's maintenance, minutes later"
    fence = "yes"
    leaves = "nothing"

    def send(self, body: Any) -> None:
        """Send one message."""
        handle.send(body)


if __name__ == "__main__":
    peer.serve(Dramatiq())
