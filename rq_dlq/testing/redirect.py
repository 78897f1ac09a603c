"""Makes every broker of this process use the server of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import rq_dlq.asyncio
from rq_dlq import doctor
from rq_dlq._redis import FAIL_FAST
from rq_dlq.client.base import BrokerBase
from rq_dlq.client.broker import Broker
from rq_dlq.client.settings import BrokerSettings
from rq_dlq.core.queues.client import Client
from rq_dlq.testing.broker import TestBroker
from rq_dlq.testing.clock import MOVED_CLOCK
from rq_dlq.testing.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from rq_dlq._redis import AsyncConnections, Connections
    from rq_dlq.testing.server import Server


def redirected(server: Server, patch: pytest.MonkeyPatch) -> TestBroker:
    """A broker on this server, which all brokers use until the patches are undone.

    Durability depends on the server, so it is not checked, and replicas need not confirm.
    """
    blocking: WeakKeyDictionary[BrokerBase, Connections] = WeakKeyDictionary()
    awaiting: WeakKeyDictionary[BrokerBase, AsyncConnections] = WeakKeyDictionary()

    def settings(broker: BrokerBase) -> dict[str, Any]:
        pool = server.pool(awaiting=isinstance(broker, rq_dlq.asyncio.Broker))
        return {"url": server.url, "verbs": MOVED_CLOCK, "pool": pool, "revive": None}

    def connected(broker: Broker) -> Connections:
        if broker not in blocking:
            connections = broker._connect(FAIL_FAST)
            if blocking.setdefault(broker, connections) is not connections:
                connections.close()
        return blocking[broker]

    async def connected_awaiting(broker: rq_dlq.asyncio.Broker) -> AsyncConnections:
        if broker not in awaiting:
            connections = await broker._connect(FAIL_FAST)
            if awaiting.setdefault(broker, connections) is not connections:
                await connections.close()
        return awaiting[broker]

    patch.setattr(BrokerBase, "_connection_settings", settings)
    patch.setattr(BrokerBase, "_known_url", property(lambda _: server.url))
    patch.setattr(BrokerBase, "_pool", _in_place_of("_pool", None), raising=False)
    patch.setattr(BrokerBase, "_verbs", _in_place_of("_verbs", MOVED_CLOCK), raising=False)
    patch.setattr(Broker, "_connections", property(blocking.get))
    patch.setattr(Broker, "_connected", connected)
    patch.setattr(rq_dlq.asyncio.Broker, "_connections", property(awaiting.get))
    patch.setattr(rq_dlq.asyncio.Broker, "_connected", connected_awaiting)
    patch.setattr(BrokerSettings, "_check_promise", _nothing_to_do)
    patch.setattr(Client, "confirm", _in_place_of("confirm", None))
    patch.setattr(doctor.Watch, "look", _nothing_to_do)
    return TestBroker(server, Faults(MOVED_CLOCK, patch), patch)


def _in_place_of(name: str, value: object) -> property:
    """A value that hides an attribute of the instances during the test."""
    return property(lambda _: value, lambda instance, kept: instance.__dict__.__setitem__(name, kept))


def _nothing_to_do(*_: object) -> Iterator[Any]:
    return iter(())
