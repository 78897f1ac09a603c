"""The driver of JetStream: a stream for each queue, a pull consumer for each consumer.

$ python -m tests.proofs.live_brokers.nats_driver nats://127.0.0.1:4222
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from tests.proofs.live_brokers.serve import serve


@dataclass
class Held:
    """A consumer, and what it holds by body: the last delivery of each."""

    pull: JetStreamContext.PullSubscription
    held: dict[str, Msg] = field(default_factory=dict)


class JetStream:
    """The verbs. Consumers of one queue share one durable consumer, as members of a queue group do."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._stream = connection.jetstream()
        self._clients: dict[str, Held] = {}

    async def _made(self, queue: str) -> str:
        try:
            await self._stream.stream_info(queue)
        except NotFoundError:
            await self._stream.add_stream(name=queue, subjects=[queue], retention="workqueue")
        return queue

    async def open(self, *, consumer: str, queue: str, jetstream: dict[str, Any], **_: Any) -> None:
        """Create the durable consumer, unless it is there."""
        stream = await self._made(queue)
        config = ConsumerConfig(**jetstream)
        pull = await self._stream.pull_subscribe(queue, "workers", stream=stream, config=config)
        self._clients[consumer] = Held(pull)

    async def send(self, *, queue: str, body: str, id: str | None = None) -> str:
        """Publish; returns its id, or its number in the stream."""
        headers = None if id is None else {"Nats-Msg-Id": id}
        ack = await self._stream.publish(await self._made(queue), body.encode(), headers=headers)
        return id or str(ack.seq)

    async def again(self, *, queue: str, body: str, id: str) -> None:
        """Publish it a second time."""
        await self.send(queue=queue, body=body, id=id)

    async def receive(self, *, consumer: str, wait: int) -> dict[str, Any] | None:
        """Fetch one message."""
        client = self._clients[consumer]
        try:
            (message,) = await client.pull.fetch(1, timeout=wait / 1000)
        except TimeoutError:
            return None
        at = time.monotonic_ns() // 1_000_000
        body = message.data.decode()
        client.held[body] = message
        number = message.metadata.sequence.stream
        return {"at": at, "count": message.metadata.num_delivered, "body": body, "id": str(number)}

    async def ack(self, *, consumer: str, body: str) -> None:
        """Settle, and wait until the server has it."""
        await self._clients[consumer].held[body].ack()
        await self._connection.flush()

    async def nak(self, *, consumer: str, body: str, delay: float | None = None) -> None:
        """Settle, and wait until the server has it."""
        await self._clients[consumer].held[body].nak(delay=delay)
        await self._connection.flush()

    async def term(self, *, consumer: str, body: str) -> None:
        """Settle, and wait until the server has it."""
        await self._clients[consumer].held[body].term()
        await self._connection.flush()

    async def progress(self, *, consumer: str, body: str) -> None:
        """Say that work goes on."""
        await self._clients[consumer].held[body].in_progress()
        await self._connection.flush()

    async def find(self, *, body: str) -> list[dict[str, Any]]:
        """Which messages the streams still have."""
        found = []
        for info in await self._stream.streams_info():
            for number in range(info.state.first_seq, info.state.last_seq + 1):
                try:
                    message = await self._stream.get_msg(info.config.name or "", number)
                except NotFoundError:
                    continue
                if (text := (message.data or b"").decode()).startswith(body):
                    found.append(left(info.config.name or "", text, number))
        return found


def left(stream: str, body: str, number: int) -> dict[str, Any]:
    """A message in a stream, as a line says it."""
    where = {"queue": f"stream {stream}", "body": body, "id": str(number), "origin": stream}
    return {**where, "cause": "", "priority": 4, "headers": {}}


async def main(url: str) -> None:
    """Connect, and serve."""
    async with await nats.connect(url) as connection:
        await serve(JetStream(connection))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
