"""A managed Redis closes what is idle: the next call takes a new connection, without an error."""

from __future__ import annotations

from pathlib import Path

from tests.connections.conftest import Opening
from tests.servers import Server, wait_until


async def test_the_next_call_takes_a_new_connection(opened: Opening, tmp_path: Path) -> None:
    with Server(tmp_path, "--timeout", "1") as server, server.client() as raw:
        async with opened(server.url) as broker:
            queue = broker.queue("a")
            await queue.send(1)
            wait_until(lambda: len(raw.client_list()) == 1)  # this look itself
            await queue.send(2)
            assert [delivery.body for delivery in await queue.claim(2)] == [1, 2]
