"""The page for operators, while a node is dead."""

from __future__ import annotations

import asyncio
from html import unescape
from typing import Any

import httpx
import pytest

import rq_dlq.asyncio
from tests.dead_nodes.conftest import HERE, LOST, THERE, Kill
from tests.servers.clusters import Cluster

web: Any = pytest.importorskip("rq_dlq.web", reason="no web extra here: pip install -e '.[web]'")


async def test_the_pages_name_what_cannot_be_reached(nodes: Cluster, kill: Kill) -> None:
    async with rq_dlq.asyncio.Broker(f"redis://127.0.0.1:{nodes.nodes[1].port}") as broker:
        for name in (LOST, HERE, THERE):
            await broker.queue(name).send("x")
        app = web.app(broker, user=lambda _: "anna", write=True)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        port = kill(0).port
        async with (
            asyncio.timeout(120),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
            app.router.lifespan_context(app),
        ):
            text = unescape((await client.get("/")).text)
            assert f"unreachable: node 127.0.0.1:{port}, with 1 queue: {LOST}" in text
            assert "All is well where it can be seen" in text
            assert all(f"name={name}" in text for name in (HERE, THERE))
            assert "no queue" not in unescape((await client.get("/", params={"q": LOST})).text)
            lost = await client.get("/queue", params={"name": LOST})
            assert lost.status_code == 503
            assert f"{LOST} is unreachable: node 127.0.0.1:{port}" in unescape(lost.text)
            assert (await client.get("/queue", params={"name": HERE})).status_code == 200
            group = await client.get("/group", params={"queue": LOST, "id": "abc"})
            assert group.status_code == 503
            assert (await client.get("/queue", params={"name": "never"})).status_code == 404
