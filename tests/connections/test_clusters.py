"""A real cluster that changes under its clients."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import pytest_asyncio
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import BrokerRefused, CrossSlot, MissingRights
from rq_dlq._redis import Retries
from rq_dlq._redis.cluster import slot_of
from rq_dlq.core.steps.call import Command
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.rounds import MaintainedNamespace
from rq_dlq.core.upkeep.upkeep import ROLES
from tests.audit import audit
from tests.behaviour.stepping import alone
from tests.colours import Awaited
from tests.servers import wait_until
from tests.servers.clusters import SETSLOT, Cluster, Migration, PlainClient, said
from tests.variants import both_colours

pytestmark = both_colours("connections are given back and closed by the files `own.py`")

SLOT = slot_of("{orders}")


@pytest.fixture(autouse=True)
def _as_it_was(cluster: Cluster) -> Iterator[None]:
    """The slot is at its own node again after each test, and no node knows anything."""
    family = cluster.owner("{orders}")
    PlainClient(cluster).flushall()
    PlainClient(cluster).script_flush()
    yield
    PlainClient(cluster).flushall()
    for node in cluster.nodes:
        said(node, *SETSLOT, SLOT, "STABLE")
    if cluster.owner("{orders}") is not family:
        Migration(cluster, SLOT, family).run()


@pytest_asyncio.fixture(params=["sync", "async"])
async def broker(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[Any]:
    """A broker of either colour."""
    if request.param == "async":
        async with rq_dlq.asyncio.Broker(cluster.url) as awaiting:
            yield awaiting
    else:
        with rq_dlq.Broker(cluster.url) as blocking:
            yield Awaited(blocking)


def moving(cluster: Cluster) -> Migration:
    return Migration(cluster, SLOT, cluster.other(cluster.owner("{orders}")))


async def test_a_slot_that_was_moved_between_two_calls(broker: Any, cluster: Cluster) -> None:
    queue = broker.queue("orders")
    await queue.send_many(range(9))
    moving(cluster).run()
    deliveries = await queue.claim(5)
    assert [delivery.body for delivery in deliveries] == [0, 1, 2, 3, 4]
    moving(cluster).run()
    assert all(await queue.ack(deliveries))
    assert (await queue.stats()).totals["acked"] == 5
    audit(PlainClient(cluster), "orders")


async def test_the_last_calls_know_the_nodes_and_the_rights(broker: Any, cluster: Cluster) -> None:
    queue = broker.queue("orders")
    await queue.send(1)
    (one,) = await queue.claim()
    for node in cluster.nodes:
        said(node, "CONFIG", "RESETSTAT")
    await broker.close()
    stats = [node.client().info("commandstats") for node in cluster.nodes]
    assert not [name for each in stats for name in each if name in {"cmdstat_multi", "cmdstat_cluster|slots"}]
    assert (await queue.stats()).ready == 1
    del one


def test_what_is_sent_while_a_slot_moves_waits_for_it(cluster: Cluster) -> None:
    """No TRYAGAIN for the user, whom half of the keys here and half of them there do not concern."""
    move = moving(cluster)
    with rq_dlq.Broker(cluster.url) as broker, ThreadPoolExecutor(1) as thread:
        queue = broker.queue("orders")
        queue.send("before")
        before = refused(move)
        move.begin()
        sending = thread.submit(queue.send, "meanwhile")
        wait_until(lambda: refused(move) > before + 1)
        assert not sending.done()
        move.carry()
        move.end()
        sending.result(timeout=10)
        assert [message.body for message in queue.peek()] == ["before", "meanwhile"]


def refused(move: Migration) -> int:
    """How often one of the two said that it has but a part of the keys."""
    stats: list[Any] = [node.client().info("errorstats") for node in (move.source, move.target)]
    counts = [str(said.get("errorstat_TRYAGAIN", 0)) for said in stats]  # text where redis-py is old
    return sum(int(re.findall(r"\d+", count)[0]) for count in counts)


def test_patience_has_an_end(cluster: Cluster) -> None:
    """Of one's own choice; the slot that never arrives is named."""
    move = moving(cluster)
    with rq_dlq.Broker(cluster.url, retries=Retries(attempts=3, seconds=0.5)) as broker:
        queue = broker.queue("orders")
        queue.send("before")
        move.begin()
        with pytest.raises(rq_dlq.BrokerUnavailable, match=r"127\.0\.0\.1:\d+ cannot do this at the moment"):
            queue.send("meanwhile")
    move.carry()
    move.end()


def test_a_call_that_waits_is_sent_on_with_its_slot(cluster: Cluster) -> None:
    with rq_dlq.Broker(cluster.url) as broker, ThreadPoolExecutor(1) as thread:
        queue = broker.queue("orders")
        queue.send("first")
        queue.claim()[0].ack()
        claiming = thread.submit(queue.claim, wait="20s")
        source = cluster.owner("{orders}")
        wait_until(lambda: source.client().info("clients")["blocked_clients"])
        moving(cluster).run()
        queue.send("second")
        assert [delivery.body for delivery in claiming.result(timeout=10)] == ["second"]


async def test_scripts_reach_the_nodes_that_lack_them(broker: Any, cluster: Cluster) -> None:
    """One exchange with several nodes: each is told what it does not know."""
    names = [f"q{number}" for number in range(12)]
    for name in names:
        await broker.queue(name).send("x")
    PlainClient(cluster).script_flush()
    for name in names:
        (delivery,) = await broker.queue(name).claim()
        await delivery.ack()


def test_several_nodes_at_once(cluster: Cluster) -> None:
    """Rounds of maintenance, and a name for the dead letters of queues on all nodes."""
    with rq_dlq.Broker(cluster.url) as broker:
        broker.policies.set("#", dead_letter=rq_dlq.SharedDeadLetterStrategy("graveyard"))
        queues = [broker.queue(f"q{number}") for number in range(12)]
        for queue in queues:
            queue.send("x")
            queue.claim()[0].poison("bad")
            queue.send("y", ttl="1ms")

        def expired() -> bool:
            broker._run(rounds.one_round(MaintainedNamespace("rq", ROLES), bool))
            return all(queue.stats().expired for queue in queues)

        wait_until(expired)
        assert sorted(broker.queues()) == sorted(queue.name for queue in queues)
        assert broker.queue("graveyard").stats().dead == 12
        for queue in queues:
            audit(PlainClient(cluster), queue.name)


def test_two_queues_in_one_step_need_one_tag(cluster: Cluster) -> None:
    with rq_dlq.Broker(cluster.url) as broker:
        queue, other = broker.queue("orders"), broker.queue("invoices")
        queue.send("x")
        other.send("y")
        with pytest.raises(CrossSlot, match="give them the same hash tag"):
            queue.select(all=True).move("invoices")
        session = queue.session()
        session.claim()
        session.send(other, "z")
        with pytest.raises(CrossSlot):
            session.commit()
        session.rollback()


def test_each_node_has_users_of_its_own(cluster: Cluster) -> None:
    """What one of them does not grant is named, before anything is done there."""
    lacking = cluster.owner("{orders}")
    for node in cluster.nodes:
        right = "-zadd" if node is lacking else "+@all"
        said(node, "ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", right)
    try:
        with rq_dlq.Broker(cluster.url.replace("//", "//me:secret@")) as broker:
            broker.queue("invoices").send("x")
            with pytest.raises(MissingRights, match=r"\+zadd"):
                broker.queue("orders").send("x")
            assert not PlainClient(cluster).exists("rq:{orders}:messages")
    finally:
        for node in cluster.nodes:
            said(node, "ACL", "DELUSER", "me")


def test_every_master_is_looked_at(cluster: Cluster) -> None:
    """One that evicts would drop whole queues, whichever it is."""
    for node in cluster.nodes:
        said(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            with rq_dlq.Broker(cluster.url) as broker, pytest.raises(BrokerRefused, match="allkeys-lru"):
                broker.queues()
        finally:
            said(node, "CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_any_node_will_do(cluster: Cluster) -> None:
    """Also by a socket, and with a pool of one's own."""
    for node in cluster.nodes:
        pool = redis.ConnectionPool(host="127.0.0.1", port=node.port)
        for broker in (rq_dlq.Broker(node.url), rq_dlq.Broker(pool=pool)):
            with broker:
                for name in ("a", "b", "c", "d"):
                    broker.queue(name).send("x")
        pool.disconnect()
    with rq_dlq.Broker(cluster.url) as broker:
        assert [broker.queue(name).stats().ready for name in "abcd"] == [6] * 4


async def test_the_node_that_does_not_answer_is_named(broker: Any, cluster: Cluster) -> None:
    """Whether it is at the URL or elsewhere, and whichever way it is asked."""
    await broker.queues()
    for node in cluster.nodes:
        name = next(name for name in "abcdefgh" if cluster.owner(f"{{{name}}}") is node)
        impatient = type(broker.inner) if isinstance(broker, Awaited) else type(broker)
        place = rf"node 127\.0\.0\.1:{node.port} of the cluster at {re.escape(cluster.url)}"
        other = impatient(cluster.url, retries=Retries(attempts=2))
        face: Any = Awaited(other) if isinstance(broker, Awaited) else other
        await face.queue(name).send("x")
        node.kill()
        try:
            with pytest.raises(rq_dlq.BrokerUnavailable, match=f"cannot reach {place}"):
                await face.queue(name).send("y")
        finally:
            node.start()
            cluster.wait_well()
            await face.close()


async def test_a_master_that_is_asked_alone_is_named(broker: Any, cluster: Cluster) -> None:
    await broker.queues()
    core = broker.inner if isinstance(broker, Awaited) else broker
    masters = core._connections.masters()
    masters = masters if isinstance(broker, Awaited) else await masters
    node = cluster.nodes[1]
    master = masters[f"127.0.0.1:{node.port}"]

    async def ask() -> None:
        running = master.run(alone(Command((b"PING",), bool)))
        if not isinstance(broker, Awaited):
            await running

    node.kill()
    try:
        with pytest.raises(rq_dlq.BrokerUnavailable, match=rf"node 127\.0\.0\.1:{node.port} of the cluster"):
            await ask()
    finally:
        node.start()
        cluster.wait_well()


def test_a_node_is_gone_and_comes_back(cluster: Cluster) -> None:
    """Its queues wait; where the cluster is told to, those of others go on."""
    node = cluster.owner("{orders}")
    for each in cluster.nodes:
        said(each, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    with rq_dlq.Broker(cluster.other(node).url, retries=Retries(attempts=2)) as broker:
        orders = broker.queue("orders")
        orders.send("x")
        elsewhere = next(name for name in "abcdef" if cluster.owner(f"{{{name}}}") is not node)
        other = broker.queue(elsewhere)
        other.send("x")
        node.kill()
        try:
            with pytest.raises(rq_dlq.BrokerUnavailable):
                orders.send("y")
            other.send("y")
        finally:
            node.start()
            for each in cluster.nodes:
                said(each, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
            cluster.wait_well()
        orders.send("y")
