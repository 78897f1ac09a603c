"""A network that loses the reply of each send, and a consumer that acks before the send is repeated (I12)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from tests.colours import Awaited
from tests.servers import Server, wait_until
from tests.servers.counts import WORDS
from tests.servers.proxy import Commands, Fault, Proxy

SENDS = 200
BODY = b"a body"


@contextmanager
def consuming(url: str) -> Iterator[list[str]]:
    """A consumer that acks what comes at once: the ids, as often as they came."""
    taken, stop = list[str](), threading.Event()

    def consume() -> None:
        with rq_dlq.Broker(url) as broker:
            queue = broker.queue("a")
            while not stop.is_set():
                for delivery in queue.claim(100, wait="20ms"):
                    delivery.ack()
                    taken.append(delivery.id)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()


class LoseFirst:
    """A rule: the reply to the first try of each send is dropped; the second one waits for its ack."""

    def __init__(self, taken: list[str]) -> None:
        self.taken, self.tries = taken, 0

    def __call__(self, commands: Commands) -> Fault | None:
        sends = [
            command for command in commands if command[0] in WORDS and any(BODY in word for word in command)
        ]
        if not sends:
            return None
        self.tries += 1
        if self.tries % 2:
            return "drop"
        wait_until(lambda: len(self.taken) >= self.tries // 2)
        return None


@pytest.mark.redis
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_nothing_is_delivered_twice(colour: str, tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        url = f"unix://{server.socket}"
        with rq_dlq.Broker(url) as opening:
            opening.queue("a", type=bytes).send(b"so that the scripts are there")
        with consuming(url) as taken, Proxy(server.socket, tmp_path) as proxy:
            wait_until(lambda: len(taken) == 1)
            taken.clear()
            kind: Any = rq_dlq.asyncio.Broker if colour == "async" else rq_dlq.Broker
            broker = kind(f"unix://{proxy.socket}")
            queue = (broker if colour == "async" else Awaited(broker)).queue("a", type=bytes)
            await queue.stats()
            proxy.rule = rule = LoseFirst(taken)
            sent = [await queue.send(BODY) for _ in range(SENDS)]
            wait_until(lambda: len(taken) >= SENDS)
            assert (await queue.stats()).totals["sent"] == SENDS + 1
            await (broker.close() if colour == "async" else Awaited(broker).close())
        assert rule.tries == 2 * SENDS
        assert taken == sent
