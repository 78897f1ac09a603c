"""Redis Streams without a library: the loop that Redis' own documentation shows, by redis-py."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import redis

from tests.benchmarks.peers import peer

COMMAND = "{python} -m tests.benchmarks.peers.adapters.streams worker"
STREAM, GROUP, CONSUMER = "bench", "workers", "one"
AT_ONCE = 100  # messages of one XREADGROUP

client: Any = redis.Redis.from_url(peer.URL)


def take(count: int, block: int | None = None) -> int:
    """Read some messages, handle them, ack them; how many."""
    found = client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=count, block=block)
    entries = found[0][1] if found else []
    for _, fields in entries:
        peer.work(json.loads(fields[b"body"]))
    if entries:
        client.xack(STREAM, GROUP, *[entry for entry, _ in entries])
    return len(entries)


class Streams(peer.Peer):
    """One reader of one group; a hundred messages are read and acked together."""

    packages = ("redis", "hiredis")
    setting = "XREADGROUP of 100, one XACK for them"
    workers = {peer.AS_IT_COMES: COMMAND}
    left = [["XINFO", "GROUPS", STREAM]]
    crash = "not redelivered, unless the program itself calls XAUTOCLAIM"
    fence = "no"
    leaves = "every message, until the program trims the stream"

    def prepare(self) -> None:
        """Create the group."""
        with suppress(redis.ResponseError):  # it is there
            client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def send(self, body: Any) -> None:
        """Send one message."""
        client.xadd(STREAM, {"body": json.dumps(body)})

    def send_chunk(self, bodies: list[Any]) -> None:
        """Send many messages, in one pipeline."""
        with client.pipeline(transaction=False) as pipe:
            for body in bodies:
                pipe.xadd(STREAM, {"body": json.dumps(body)})
            pipe.execute()

    def take_one(self) -> bool:
        """Read one message and ack it."""
        return take(1) > 0


if __name__ == "__main__":
    if "worker" in sys.argv:
        while True:
            take(AT_ONCE, block=1_000)
    else:
        peer.serve(Streams())
