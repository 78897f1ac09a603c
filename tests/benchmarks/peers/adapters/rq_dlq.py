"""This library, as its README tells to use it."""

from __future__ import annotations

import os
from typing import Any

from rq_dlq import Broker
from tests.benchmarks.peers import peer

broker = Broker(peer.URL)
queue = broker.queue("bench")
WAY = os.environ.get("BENCH_WAY", peer.AS_IT_COMES)
COMMAND = "{bin}/rq-dlq worker tests.benchmarks.peers.adapters.rq_dlq:broker"


async def awaiting(body: Any) -> None:
    """The handler of the async ways."""
    peer.work(body)


if WAY == peer.AS_IT_COMES:
    queue.handler(peer.work)
elif WAY == peer.THREADS:
    queue.handler(concurrency=peer.AT_ONCE)(peer.work)
else:
    queue.handler(concurrency=peer.AT_ONCE)(awaiting)


class RqDlq(peer.Peer):
    """Everything at its default."""

    packages = ("rq-dlq", "redis", "hiredis")
    setting = "all defaults"
    workers = dict.fromkeys((peer.AS_IT_COMES, peer.THREADS, peer.ASYNC_10, peer.ASYNC_100), COMMAND)
    left = [["HLEN", "rq:{bench}:messages"]]
    crash = "redelivered when the lease ends, 30 s; an idle queue too"
    fence = "yes"
    leaves = "nothing"

    def send(self, body: Any) -> None:
        """Send one message."""
        queue.send(body)

    def send_chunk(self, bodies: list[Any]) -> None:
        """Send many messages."""
        queue.send_many(bodies)

    _loop = None

    def take_one(self) -> bool:
        """A step of the loop that `Queue.consume` is made for."""
        self._loop = self._loop or queue.consume()
        delivery = next(self._loop, None)
        if delivery is None:
            return False
        delivery.ack()
        return True


if __name__ == "__main__":
    peer.serve(RqDlq())
