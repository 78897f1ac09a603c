"""A cluster one of whose nodes is dead, with no replica to take its place: what concerns the others goes on.

It is the node of the lowest slots, where what needs no key went first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

import rq_dlq
import rq_dlq.asyncio
from tests.behaviour.faults import connections_of
from tests.behaviour.helpers import bury
from tests.colours import Awaited
from tests.servers import Server
from tests.servers.clusters import Cluster, PlainClient

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
    client = PlainClient(nodes)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def lost(nodes: Cluster, raw: PlainClient) -> Iterator[Server]:
    """The first node; it runs again after the test."""
    del raw
    node = nodes.nodes[0]
    yield node
    if node.process is None:
        node.start()
    nodes.wait_well()


@pytest_asyncio.fixture(params=["sync", "async"])
async def broker(request: pytest.FixtureRequest, nodes: Cluster, raw: PlainClient) -> AsyncIterator[Any]:
    """A broker of either colour that knows the second node."""
    del raw
    url = nodes.nodes[1].url
    if request.param == "async":
        async with rq_dlq.asyncio.Broker(url) as awaiting:
            yield awaiting
    else:
        with rq_dlq.Broker(url) as blocking:
            yield Awaited(blocking)


async def test_what_needs_no_key_goes_to_a_node_that_answers(broker: Any, lost: Server) -> None:
    """A redrive and a pause ask who the user is: any node knows."""
    queue = broker.queue(HERE)
    await bury(queue, range(3))
    lost.kill()
    for _ in range(2):  # the map is read anew in between, and still has the dead node
        await queue.pause()
        await queue.resume()
    assert int(await queue.dlq.redrive(all=True)) == 3
    assert (await queue.stats()).ready == 3


async def test_an_exchange_of_its_own_goes_to_a_node_that_answers(broker: Any, lost: Server) -> None:
    """It is not repeated, but the next one is not lost."""
    connections = await connections_of(broker)
    lost.kill()

    def ping() -> Any:
        (reply,) = yield [(b"PING",)]
        return reply

    async def said() -> Any:
        found = connections.alone(ping())
        return await found if hasattr(found, "__await__") else found

    with pytest.raises(rq_dlq.BrokerUnavailable):
        await said()
    assert await said() == b"PONG"
