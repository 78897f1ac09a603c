"""A process joins the Lua, reads it and hashes it once."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import fakeredis
import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import _scripts
from rq_dlq._scripts import verb


def use() -> None:
    """Send, claim and ack with a new broker."""
    with rq_dlq.Broker(pool=fakeredis.FakeRedis().connection_pool) as broker:
        queue = broker.queue("once")
        queue.send("x")
        (delivery,) = queue.claim()
        delivery.ack()


async def use_awaiting() -> None:
    """The same in the other colour."""
    async with rq_dlq.asyncio.Broker(pool=fakeredis.FakeAsyncRedis().connection_pool) as broker:
        queue = broker.queue("once")
        await queue.send("x")
        (delivery,) = await queue.claim()
        await delivery.ack()


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a second time")


def test_a_second_broker_joins_reads_and_hashes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    use()
    monkeypatch.setattr(_scripts, "join", refuse)
    monkeypatch.setattr(_scripts, "_files", refuse)
    monkeypatch.setattr(verb, "hashlib", None)
    use()
    asyncio.run(use_awaiting())
