"""A part of the suite on a cluster of three nodes: each call finds the node of its queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

import rq_dlq
import rq_dlq.asyncio
from tests.behaviour.batches.test_jobs import test_several_queues_commit_together  # noqa: F401
from tests.behaviour.claiming.test_waiting import *  # noqa: F403
from tests.behaviour.dead_letters.test_strategies import *  # noqa: F403
from tests.behaviour.nodes import JOINED, SlotClock
from tests.behaviour.queues.test_views import *  # noqa: F403
from tests.behaviour.settling.test_settle import *  # noqa: F403
from tests.servers.clusters import Cluster, emptied

del test_remove_and_move  # noqa: F821 - between queues that share no tag: refused here, see test_cluster.py
del test_no_queue_of_its_own  # noqa: F821 - it looks for keys of any kind, and the clock is one


@pytest.fixture  # type: ignore[no-redef]
def backend() -> str:
    """As the suite asks."""
    return "real"


@pytest.fixture  # type: ignore[no-redef]
def url(cluster: Cluster) -> str:
    """Where one of its nodes is."""
    return cluster.url


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[Any]:
    """A plain client of the empty cluster."""
    with emptied(cluster) as client:
        yield client


@pytest.fixture
def clock(raw: Any) -> Iterator[SlotClock]:
    """The moved clock."""
    clock = SlotClock(raw)
    with clock.everywhere():
        yield clock


@pytest.fixture
def sync_broker(cluster: Cluster, clock: SlotClock) -> Iterator[rq_dlq.Broker]:
    """A blocking broker."""
    del clock
    with rq_dlq.Broker(cluster.url, verbs=JOINED) as broker:
        yield broker


@pytest_asyncio.fixture
async def async_broker(cluster: Cluster, clock: SlotClock) -> AsyncIterator[rq_dlq.asyncio.Broker]:
    """An awaiting one."""
    del clock
    async with rq_dlq.asyncio.Broker(cluster.url, verbs=JOINED) as broker:
        yield broker
