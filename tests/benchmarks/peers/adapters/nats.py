"""NATS JetStream, whose server comes by itself: https://docs.nats.io."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from tests.benchmarks.peers import peer

WAY = os.environ.get("BENCH_WAY", peer.AS_IT_COMES)
COMMAND = "{python} -m tests.benchmarks.peers.adapters.nats worker"
STREAM = StreamConfig(
    name="bench", subjects=["bench"], retention=RetentionPolicy.WORK_QUEUE, storage=StorageType.MEMORY
)
CONSUMER = ConsumerConfig(durable_name="bench", ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000)


class JetStream(peer.Peer):
    """A pull consumer fetches 100 messages, and acks each; as it comes, the server pushes to a callback."""

    packages = ("nats-py", "uvloop")
    setting = "memory storage, work-queue retention, explicit acks; for speed fetches of 100"
    workers = {peer.AS_IT_COMES: COMMAND, peer.FOR_SPEED: COMMAND}
    crash = "redelivered after ack_wait, 30 s"
    fence = "no"
    leaves = "nothing"

    _js: Any = None
    _pull: Any = None

    async def prepare(self) -> None:
        """Connect, and create an empty stream."""
        if self._js is None:
            self._js = (await nats.connect(peer.URL)).jetstream()
        with contextlib.suppress(NotFoundError):
            await self._js.delete_stream("bench")
        await self._js.add_stream(STREAM)
        self._pull = None

    async def send(self, body: Any) -> None:
        """Send one message, and wait for the server to have it."""
        await self._js.publish("bench", json.dumps(body).encode())

    async def send_chunk(self, bodies: list[Any]) -> None:
        """Send many messages, and wait for the server to have them."""
        sent = [await self._js.publish_async("bench", json.dumps(body).encode()) for body in bodies]
        await asyncio.gather(*sent)

    async def take_one(self) -> bool:
        """Fetch one message and ack it."""
        if self._pull is None:
            self._pull = await self._js.pull_subscribe("bench", durable="bench", config=CONSUMER)
        (message,) = await self._pull.fetch(1)
        await message.ack()
        return True


async def run() -> None:
    """The worker."""
    js = (await nats.connect(peer.URL)).jetstream()

    async def handle(message: Any) -> None:
        peer.work(json.loads(message.data))

    if WAY == peer.AS_IT_COMES:
        await js.subscribe("bench", cb=handle, durable="bench", config=CONSUMER)
        await asyncio.Event().wait()
    pull = await js.pull_subscribe("bench", durable="bench", config=CONSUMER)
    while True:
        with contextlib.suppress(TimeoutError):
            for message in await pull.fetch(100, timeout=60):
                await handle(message)
                await message.ack()


if __name__ == "__main__":
    if "worker" in sys.argv:
        with asyncio.Runner(loop_factory=peer.fast_loop()) as runner:
            runner.run(run())
    else:
        peer.serve(JetStream())
