"""Taskiq on Redis streams: https://taskiq-python.github.io."""

from __future__ import annotations

from typing import Any

from taskiq_redis import RedisStreamBroker

from tests.benchmarks.peers import peer

broker = RedisStreamBroker(url=peer.URL, consumer_id="0")
COMMAND = "{bin}/taskiq worker tests.benchmarks.peers.adapters.taskiq:broker"


@broker.task(task_name="work")
async def handle(body: Any) -> None:
    """The handler."""
    peer.work(body)


class Taskiq(peer.Peer):
    """Two processes of 100 tasks at once by default."""

    packages = ("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop")
    setting = "streams, which ack; uvloop"
    workers = {
        peer.AS_IT_COMES: COMMAND,
        peer.ASYNC_10: f"{COMMAND} --workers 1 --max-async-tasks 10 --log-level ERROR",
        peer.ASYNC_100: f"{COMMAND} --workers 1 --max-async-tasks 100 --log-level ERROR",
    }
    left = [["XINFO", "GROUPS", "taskiq"]]
    crash = "not redelivered while other messages do not come; after 10 min"
    fence = "no"
    leaves = "every message, unless maxlen cuts the stream"

    async def send(self, body: Any) -> None:
        """Send one task."""
        await handle.kiq(body)


if __name__ == "__main__":
    peer.serve(Taskiq())
