"""All queues at one look: those of a dead node are named, the others are read."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rq_dlq
from rq_dlq._redis.failures import LONGEST
from tests.behaviour.faults import connections_of
from tests.behaviour.helpers import bury
from tests.dead_nodes.conftest import HERE, LOST, THERE, Kill
from tests.servers.clusters import Cluster
from tests.variants import both_colours

pytestmark = both_colours("each colour meets a dead connection in its own way")

QUEUES = (LOST, HERE, THERE)


async def fill(broker: Any) -> None:
    """Queues with dead letters and a redrive, so that each part of an overview asks their nodes."""
    for name in QUEUES:
        queue = broker.queue(name)
        await bury(queue, range(3), ValueError("sold out"))
        await queue.dlq.redrive(limit=1)


def talks(monkeypatch: pytest.MonkeyPatch, connections: Any) -> list[Any]:
    """From now on the commands of each round trip to a node."""
    seen = list[Any]()
    link = type(next(iter(connections._link._links.values())))
    talk = link.talk

    def noted(self: Any, commands: Any) -> Any:
        seen.append(commands)
        return talk(self, commands)

    monkeypatch.setattr(link, "talk", noted)
    return seen


@pytest.mark.parametrize("number", [0, 2])
async def test_the_queues_of_other_nodes_are_read(number: int, broker: Any, kill: Kill) -> None:
    await fill(broker)
    node = kill(number)
    others = [name for name in QUEUES if name != QUEUES[number]]
    before = None
    for _ in range(2):  # at first it is asked, then it rests
        before = seen = await broker.overview(before)
        assert [queue.name for queue in seen.queues] == sorted(others)
        for queue in seen.queues:
            assert (queue.stats.dead, queue.groups[0].count, len(queue.redrives)) == (2, 2, 1)
        (lost,) = seen.unreachable
        assert (lost.name, lost.node) == (QUEUES[number], f"127.0.0.1:{node.port}")
        assert lost.error.endswith(f"its node 127.0.0.1:{node.port} does not answer")
        assert lost.why == f"unreachable: node 127.0.0.1:{node.port}"
        assert not seen.unlisted


async def test_a_queue_is_read_again_when_its_node_is_back(broker: Any, nodes: Cluster, kill: Kill) -> None:
    await fill(broker)
    connections = await connections_of(broker)
    node = kill(0)
    seen = await broker.overview()
    node.start()
    nodes.wait_well()
    connections._link.cluster.failures.clock = lambda: time.monotonic() + LONGEST
    seen = await broker.overview(seen)
    assert [queue.name for queue in seen.queues] == sorted(QUEUES)
    assert not seen.unreachable


async def test_without_the_list_the_queues_are_those_of_the_overview_before(broker: Any, kill: Kill) -> None:
    await fill(broker)
    before = await broker.overview()
    node = kill(1)
    for _ in range(2):
        before = await broker.overview(before)
        assert [queue.name for queue in before.queues] == sorted((LOST, THERE))
        assert [lost.name for lost in before.unreachable] == [HERE]
        assert before.unlisted.endswith(f"its node 127.0.0.1:{node.port} does not answer")


async def test_without_the_list_a_first_overview_fails(broker: Any, kill: Kill) -> None:
    """It knows no queue."""
    await fill(broker)
    port = kill(1).port
    with pytest.raises(rq_dlq.BrokerUnavailable, match=f"127.0.0.1:{port}"):
        await broker.overview()


async def test_a_node_that_is_lost_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, broker: Any, nodes: Cluster, kill: Kill
) -> None:
    """The counts of its queue were read; its redrives and groups cannot be."""
    await fill(broker)
    link = (await connections_of(broker))._link
    link = link.link(next(node for node in link.cluster.nodes if node.port == nodes.nodes[0].port))
    talk, left = link.talk, 5  # the clock, and three reads, come before

    def lost(commands: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            kill(0)
        return talk(commands)

    monkeypatch.setattr(link, "talk", lost)
    seen = await broker.overview()
    assert left == 0
    assert [queue.name for queue in seen.queues] == sorted((HERE, THERE))
    assert [one.name for one in seen.unreachable] == [LOST]


async def test_a_healthy_cluster_is_asked_as_often_as_its_parts_need(
    monkeypatch: pytest.MonkeyPatch, broker: Any, kill: Kill
) -> None:
    """The clock, the list, four reads at each node; then each queue's groups and redrives."""
    del kill
    await fill(broker)
    seen = await broker.overview()
    counted = talks(monkeypatch, await connections_of(broker))
    await broker.overview(seen)
    assert len(counted) == 2 + 4 * 3 + 3
