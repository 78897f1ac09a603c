"""Calls without a key, and maintenance: what concerns the other nodes goes on."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import rq_dlq
from rq_dlq._redis.cluster import SLOTS, slot_of
from rq_dlq._redis.failures import LONGEST, REST, Failures
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.rounds import MaintainedNamespace
from rq_dlq.core.upkeep.upkeep import ROLES
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.worker.maintenance import Maintenance
from tests.behaviour.faults import connections_of
from tests.behaviour.helpers import bury
from tests.dead_nodes.conftest import HERE, LOST, THERE, Kill, asked
from tests.servers import wait_until
from tests.servers.clusters import Cluster, Migration, PlainClient
from tests.variants import both_colours

pytestmark = both_colours("each colour meets a dead connection in its own way")


async def test_what_needs_no_key_goes_to_a_node_that_answers(broker: Any, kill: Kill) -> None:
    """A redrive and a pause ask who the user is: any node knows."""
    queue = broker.queue(HERE)
    await bury(queue, range(3))
    kill(0)
    for _ in range(2):  # the map is read anew in between, and still has the dead node
        await queue.pause()
        await queue.resume()
    assert (await queue.dlq.redrive(all=True)).counts.moved == 3
    assert (await queue.stats()).ready == 3


async def test_an_exchange_of_its_own_goes_to_a_node_that_answers(broker: Any, kill: Kill) -> None:
    """It is not repeated, but the next one is not lost."""
    connections = await connections_of(broker)
    kill(0)

    def ping() -> Any:
        (reply,) = yield [(b"PING",)]
        return reply

    async def said() -> Any:
        found = connections.alone(ping())
        return await found if hasattr(found, "__await__") else found

    with pytest.raises(rq_dlq.BrokerUnavailable):
        await said()
    assert await said() == b"PONG"


# Maintenance

SEVERAL = [name for name in map("q{}".format, range(90)) if slot_of(f"{{{name}}}") < SLOTS // 3]


async def scene(broker: Any, *names: str) -> MaintainedNamespace:
    """Queues with a message whose time is over; the process knows them."""
    for name in names:
        await broker.queue(name).send("x", ttl="1ms")
    watch = MaintainedNamespace("rq", ROLES)
    await one_round(broker, watch, find_only=True)
    return watch


async def one_round(broker: Any, watch: MaintainedNamespace, *, find_only: bool = False) -> Any:
    return await broker.queue(HERE)._run(watch.find() if find_only else rounds.one_round(watch, bool))


@pytest.mark.parametrize("number", range(3))
async def test_queues_of_other_nodes_are_maintained(
    number: int, broker: Any, nodes: Cluster, kill: Kill, caplog: pytest.LogCaptureFixture
) -> None:
    """In one round. The others are logged once, and are maintained when their node is back."""
    watch = await scene(broker, LOST, HERE, THERE)
    connections = await connections_of(broker)
    node, name = kill(number), (LOST, HERE, THERE)[number]
    for _ in range(3):
        await one_round(broker, watch)
        assert watch.done["expired"] == 2
    said = [line for line in caplog.messages if "cannot be maintained" in line]
    assert len(said) == 1
    assert said[0].startswith(f"{name} cannot be maintained: ")
    assert said[0].endswith(f"its node 127.0.0.1:{node.port} does not answer")
    node.start()
    nodes.wait_well()
    connections._link.cluster.failures.clock = lambda: time.monotonic() + LONGEST
    await one_round(broker, watch)
    assert watch.done["expired"] == 3


async def test_a_dead_node_is_asked_once_for_all_its_queues(broker: Any, kill: Kill) -> None:
    """It rests for some rounds then; a frozen one costs a timeout each time."""
    watch = await scene(broker, *SEVERAL, HERE)
    connections = await connections_of(broker)
    seen = asked(connections, kill(0))
    for _ in range(3):
        await one_round(broker, watch)
    assert len(seen) == 1
    connections._link.cluster.failures.clock = lambda: time.monotonic() + REST
    await one_round(broker, watch)
    assert len(seen) == 2
    assert watch.done["expired"] == 1


def test_a_node_rests_longer_each_time() -> None:
    """Until it answers. What asks it meanwhile, since it cannot wait, changes no rest."""
    now, node = 0.0, ("127.0.0.1", 7000)
    failures = Failures(lambda: now)
    for rest in (10, 20, 40, 60, 60):
        for _ in range(2):
            failures.note(node, OSError())
        now += rest - 1
        assert failures.recent(node)
        now += 1
        assert not failures.recent(node)
    failures.forget(node)
    failures.note(node, OSError())
    now += REST
    assert not failures.recent(node)


async def test_where_no_queue_can_be_reached_the_process_waits(broker: Any, kill: Kill) -> None:
    watch = await scene(broker, *SEVERAL)
    kill(0)
    with pytest.raises(rq_dlq.BrokerUnavailable):
        await one_round(broker, watch)


async def test_a_round_does_not_wait_for_a_slot_that_moves(
    broker: Any, nodes: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Scripts get TRYAGAIN there; another queue of the same node is maintained."""
    watch = await scene(broker, *SEVERAL)
    connections = await connections_of(broker)
    moving = SEVERAL[0]
    move = Migration(nodes, slot_of(f"{{{moving}}}"), nodes.nodes[1])
    move.begin()
    try:
        seen = asked(connections, nodes.nodes[0])
        await one_round(broker, watch)
        assert watch.done["expired"] == len(SEVERAL) - 1
        assert len(seen) < 10
        said = [line for line in caplog.messages if "cannot be maintained" in line]
        assert len(said) == 1
        assert said[0].startswith(moving)
    finally:
        move.carry()
        move.end()
    await one_round(broker, watch)
    assert watch.done["expired"] == len(SEVERAL)
    Migration(nodes, slot_of(f"{{{moving}}}"), nodes.nodes[0]).run()


async def test_schedules_of_other_nodes_fire(broker: Any, kill: Kill, raw: PlainClient) -> None:
    """As workers fire them; each queue is asked for, the dead node once."""
    queues = [MaintainedQueue(broker.queue(name)._core.keys) for name in (*SEVERAL, HERE, THERE)]
    for name in (*SEVERAL, HERE, THERE):
        await broker.queue(name).schedule("beat", "tick", every="1h")
    for name in (HERE, THERE):
        raw.zadd(f"rq:{{{name}}}:ticks", {"beat": 1})  # too early: firing it puts that right
    connections = await connections_of(broker)
    seen = asked(connections, kill(0))
    soonest = await broker.queue(HERE)._run(rounds.fire_due(queues))
    assert soonest == 0
    assert len(seen) == 1
    assert all(raw.zscore(f"rq:{{{name}}}:ticks", "beat") > 1 for name in (HERE, THERE))


@pytest.mark.parametrize("number", [0, 2])
def test_the_process_maintains_what_it_reaches(
    number: int, nodes: Cluster, kill: Kill, raw: PlainClient
) -> None:
    """It is ready, although it cannot store its own report on the third node."""
    names = [name for name in (LOST, HERE, THERE) if name != (LOST, HERE, THERE)[number]]
    with rq_dlq.Broker(nodes.nodes[1].url) as broker:
        for name in (LOST, HERE, THERE):
            broker.queue(name).schedule("beat", "tick", every="1s")
        maintenance = Maintenance(broker, period="50ms")
        thread = threading.Thread(target=maintenance.run)
        kill(number)
        thread.start()
        try:
            wait_until(lambda: all(raw.zcard(f"rq:{{{name}}}:ready") for name in names))
            wait_until(lambda: not maintenance.vitals.redis)
        finally:
            maintenance.stop()
            thread.join(30)
        assert not thread.is_alive(), "the maintenance did not stop"
