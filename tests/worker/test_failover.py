"""The name of a server leads to its replica, which is the master now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rq_dlq
from tests.servers import Server, free_port, online, replica_of, wait_until
from tests.servers.proxy import Proxy
from tests.worker.conftest import Working


def test_worker_and_producer_go_on_at_the_new_master(tmp_path: Path, working: Working) -> None:
    """Old connections stay open, to what is a replica now, and answer READONLY for ever."""
    handled: list[Any] = []
    with (
        Server(tmp_path / "old", port=free_port()) as old,
        replica_of(old, tmp_path / "new") as new,
        Proxy(old.socket, tmp_path) as name,
        old.client() as raw_old,
        new.client() as raw_new,
        rq_dlq.Broker(f"unix://{name.socket}") as broker,
    ):
        queue = broker.queue("a")
        queue.handler()(handled.append)
        with working(broker):
            queue.send("before")
            wait_until(lambda: handled == ["before"])
            wait_until(lambda: queue.stats().totals.get("acked") == 1)
            wait_until(lambda: online(old))
            name.server = new.socket
            raw_new.replicaof("NO", "ONE")
            raw_old.replicaof("127.0.0.1", old.port)  # of itself: it is read-only
            passages = {*name.passages}
            queue.send("after")
            wait_until(lambda: handled == ["before", "after"])
        assert queue.stats().totals["acked"] == 2
        assert passages - name.passages
