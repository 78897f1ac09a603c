"""A cluster of three nodes, of which tests kill one.

Mostly it is the node of the lowest slots, where what needs no key went first. The second one has the list of
queues, the third one that of processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

import rq_dlq.asyncio
from rq_dlq._redis.cluster import Node
from tests.servers import Server
from tests.servers.clusters import Cluster, PlainClient, emptied

Kill: TypeAlias = Callable[[int], Server]
LOST, HERE, THERE = "orders", "c", "invoices"  # queues by the number of their node


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, of which two serve their slots whatever the third does."""
    options = ("--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always")
    with Cluster(tmp_path_factory.mktemp("lost"), *options) as cluster:
        owners = [cluster.owner(f"{{{name}}}") for name in (LOST, HERE, THERE)]
        assert owners == cluster.nodes
        yield cluster


@pytest.fixture
def raw(nodes: Cluster) -> Iterator[PlainClient]:
    """A plain client of all three, which are empty."""
    with emptied(nodes) as client:
        yield client


@pytest.fixture
def kill(nodes: Cluster, raw: PlainClient) -> Iterator[Kill]:
    """Kills a node, until the end of the test."""
    del raw

    def killed(number: int) -> Server:
        nodes.nodes[number].kill()
        return nodes.nodes[number]

    yield killed
    for node in nodes.nodes:
        if node.process is None:
            node.start()
    nodes.wait_well()


@pytest_asyncio.fixture
async def broker(nodes: Cluster, raw: PlainClient) -> AsyncIterator[Any]:
    """A broker that knows the second node: an awaiting one; tools and workers have blocking ones."""
    del raw
    async with rq_dlq.asyncio.Broker(nodes.nodes[1].url) as awaiting:
        yield awaiting


def asked(connections: Any, node: Server) -> list[Any]:
    """From now on all that is sent to a node."""
    link, seen = connections._link.link(Node("127.0.0.1", node.port)), list[Any]()
    talk = link.talk

    def noted(commands: Any) -> Any:
        seen.append(commands)
        return talk(commands)

    link.talk = noted
    return seen
