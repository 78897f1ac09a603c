"""A node of a Redis Cluster: every verb works there (I10), on two queues only where they share a tag."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import pytest_asyncio
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import CrossSlot, InvalidName, KnownId, Message, SharedDeadLetterStrategy
from tests.audit import audit
from tests.behaviour.faults import acked, lose_replies, meanwhile
from tests.behaviour.helpers import AT_ONCE, bury, counts, ids, one
from tests.behaviour.nodes import JOINED, SlotClock
from tests.colours import Awaited
from tests.conftest import Clock
from tests.contents import contents
from tests.servers import running, wait_until
from tests.servers.clusters import one_node
from tests.tables import each_row_afresh
from tests.verbs import VERBS, Verb, ran_on
from tests.verbs.scene import set_up

SLOTS = 16_384
TAGGED = ["{shop}.orders", "{shop}.invoices"]
APART = ["orders", "invoices"]
GATHERS = {"send_children", "close_gather", "carry_gather"}
OF_SEVERAL = {"transfer", "offer_redrive", *GATHERS}  # `commit` may be, too; here it sends to its own queue


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """A cluster of one node, as the path of its socket."""
    with running(*one_node()) as path:
        client = redis.Redis(unix_socket_path=path)
        client.execute_command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        wait_until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))
        yield path
        client.close()


@pytest.fixture
def server(node: str) -> str:
    """The node, empty."""
    client = redis.Redis(unix_socket_path=node)
    client.flushall()
    client.close()
    return node


@pytest.fixture
def clock(raw: Any) -> Iterator[Clock]:
    """The moved clock, with a key in the slot of each queue."""
    clock = SlotClock(raw)
    with clock.everywhere():
        yield clock


@pytest_asyncio.fixture(params=["sync", "async"])
async def broker(request: pytest.FixtureRequest, server: str, clock: Clock) -> AsyncIterator[Any]:
    """A broker of either colour."""
    del clock
    if request.param == "async":
        async with rq_dlq.asyncio.Broker(f"unix://{server}", verbs=JOINED) as awaiting:
            yield awaiting
    else:
        with rq_dlq.Broker(f"unix://{server}", verbs=JOINED) as blocking:
            yield Awaited(blocking)


async def two(broker: Any, names: list[str]) -> tuple[Any, Any]:
    """Two queues that exist, the first with three messages."""
    queue, other = (broker.queue(name, redelivery=AT_ONCE) for name in names)
    await queue.send_many(range(3))
    assert await other.claim() == []
    return queue, other


@each_row_afresh(
    ("names", "verb"),
    [
        *((APART, verb) for verb in VERBS.values()),
        *((TAGGED, VERBS[name]) for name in OF_SEVERAL),  # for a verb of one queue it is the same
    ],
)
async def test_every_verb(names: list[str], verb: Verb, broker: Any, clock: Clock, raw: Any) -> None:
    """I10: it runs, or says which queues are on different nodes."""
    scene = await set_up(broker, clock, *names)
    before, refused = contents(raw), verb.name in OF_SEVERAL and names == APART
    with pytest.raises(CrossSlot) if refused else nullcontext(), ran_on(raw) as ran:
        await verb.say(scene)
    assert (verb.name in ran) != refused
    assert not refused or verb.name in GATHERS or contents(raw) == before  # it is opened, and cancelled
    for name in names:
        audit(raw, name)


async def test_what_plain_commands_tell(broker: Any, clock: Clock) -> None:
    """Of one queue, and of all of them, wherever they are."""
    scene = await set_up(broker, clock, *APART)
    assert await broker.queues() == sorted(APART)
    assert (await scene.queue.settings()).redelivery
    assert [group.count for group in await scene.queue.dlq.groups()] == [2]
    assert len(await broker.queue(f"DLQ.{scene.queue.name}").claim(9)) == 2


@pytest.mark.parametrize("names", [TAGGED, APART])
async def test_one_name_for_the_dead_letters_of_several(names: list[str], broker: Any, raw: Any) -> None:
    """Each queue keeps its own, wherever it is; the name shows them together."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("graveyard"))
    queues = [broker.queue(name) for name in names]
    for queue in queues:
        await bury(queue, range(3))
    graveyard = broker.queue("graveyard")
    assert (await graveyard.stats()).dead == 6
    assert await graveyard.select().count() == 6
    first, second, third, *others = await graveyard.claim(9)
    await first.ack()
    await second.nack("boom")
    await third.extend("1h")
    assert all(await graveyard.ack([third, *others]))
    assert (await graveyard.stats()).dead == 1
    for name in names:
        audit(raw, name)


# Two queues


async def test_a_send_is_one_send_though_it_was_acked_meanwhile(broker: Any, server: str) -> None:
    """I12, I10: the register of its sender is in the queue's slot."""
    queue, taken = broker.queue("orders"), list[str]()
    with rq_dlq.Broker(f"unix://{server}", verbs=JOINED) as consumer:
        lost = await lose_replies(broker, "send")
        meanwhile(lost, lambda: taken.extend(acked(consumer.queue("orders"))))
        sent = await queue.send_many(range(600))
        assert sorted(taken) == sorted(sent)
    assert await counts(queue) == {}


async def test_a_session_across_nodes_is_refused(broker: Any, raw: Any) -> None:
    """All or nothing is not to be had there, and it is not pretended."""
    queue, other = await two(broker, APART)
    session = queue.session()
    await session.claim(2)
    await session.send(other, "bill")
    before = contents(raw)
    with pytest.raises(CrossSlot, match=r"\{shop\}\.orders"):
        await session.commit()
    assert contents(raw) == before
    with pytest.raises(CrossSlot):
        async with session:
            pass
    assert await counts(other) == {}
    assert await counts(queue) == {"ready": 3}
    (first, *_) = await queue.claim(3)
    assert (first.charged, first.history[0].cause.type) == (1, "rq_dlq.errors.CrossSlot")


async def test_an_ack_that_sends_across_nodes_is_refused(broker: Any, raw: Any) -> None:
    queue, other = await two(broker, APART)
    delivery = await one(queue)
    await other.open()
    before = contents(raw)
    with pytest.raises(CrossSlot, match=r"\{shop\}\.orders"):
        await delivery.ack(send=[(other, "bill")])
    assert contents(raw) == before
    await delivery.ack(send=[(queue, "bill")])
    assert await counts(queue) == {"ready": 3}


async def test_an_ack_sends_to_a_queue_with_the_same_tag(broker: Any, raw: Any) -> None:
    queue, other = await two(broker, TAGGED)
    await (await one(queue)).ack(send=[(other, Message("x", id="link"))])
    with pytest.raises(KnownId):
        await (await one(queue)).ack(send=[(other, Message("x", id="link"))])
    assert await ids(other) == ["link"]
    for name in TAGGED:
        audit(raw, name)


async def test_a_session_of_each_queue_alone_works(broker: Any) -> None:
    queue, other = await two(broker, APART)
    for place in (queue, other):
        async with place.session() as session:
            await session.claim(9)
            await session.send(place, "x")
    assert await counts(queue) == await counts(other) == {"ready": 1}


@each_row_afresh("verb", ["move", "copy"])
@each_row_afresh("place", ["ready", "dead"])
async def test_a_move_across_nodes_is_refused(place: str, verb: str, broker: Any, raw: Any) -> None:
    queue, other = await two(broker, APART)
    if place == "dead":
        await queue.poison(await queue.claim(3))
    before = contents(raw)
    with pytest.raises(CrossSlot, match="give them the same hash tag"):
        await getattr(queue.select(places=[place]), verb)(other)
    assert contents(raw) == before


async def test_a_redrive_across_nodes_is_refused(broker: Any, raw: Any) -> None:
    queue, other = await two(broker, APART)
    await queue.poison(await queue.claim(3))
    before = contents(raw)
    with pytest.raises(CrossSlot, match="give them the same hash tag"):
        await queue.dlq.redrive(all=True, to=other)
    assert contents(raw) == before
    assert (await queue.dlq.redrive(all=True, edit=lambda body: body, ttl="1h")).counts.moved == 3


async def test_a_redrive_between_queues_that_share_a_tag(broker: Any, raw: Any) -> None:
    queue, other = await two(broker, TAGGED)
    await queue.poison(await queue.claim(3))
    assert (await queue.dlq.redrive(all=True, to=other)).counts.moved == 3
    assert await counts(other) == {"ready": 3}
    for name in TAGGED:
        audit(raw, name)


async def test_queues_that_share_a_tag(broker: Any, raw: Any) -> None:
    """Sessions and moves between them, and with their dead letters."""
    queue, other = await two(broker, TAGGED)
    async with queue.session() as session:
        (delivery,) = await session.claim()
        await session.send(other, delivery.body, id="bill")
    assert await ids(other) == ["bill"]
    await (await one(queue)).poison("bad")
    async with broker.queue("DLQ.{shop}.orders").session() as session:
        (letter,) = await session.claim()
        await session.send(other, letter.body, id="from the dead")
    assert await ids(other) == ["from the dead"]
    assert await queue.select(all=True).move(other) == 1
    assert await counts(queue) == {}
    assert await counts(other) == {"ready": 1, "leased": 2}
    for name in TAGGED:
        audit(raw, name)


async def test_a_result_is_heard_of(broker: Any) -> None:
    """Of two queues of different slots, over one connection."""
    queues = [broker.queue(name) for name in APART]
    sent = [await queue.send(queue.name, result=True) for queue in queues]
    waiting = [
        asyncio.create_task(queue.result(message, wait="20s"))
        for queue, message in zip(queues, sent, strict=True)
    ]
    for queue in queues:
        await (await one(queue)).ack(result=queue.name)
    assert await asyncio.gather(*waiting) == APART


async def test_a_session_through_a_shared_name(broker: Any) -> None:
    """It reaches several queues, so they must share a tag, too."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("graveyard"))
    for names, works in ((TAGGED, True), (APART, False)):
        queues = [broker.queue(name) for name in names]
        for queue in queues:
            await bury(queue, ["x"])
        session = broker.queue("graveyard").session()
        assert len(await session.claim(9)) == 2
        if works:
            assert await session.commit() == 2
        else:
            with pytest.raises(CrossSlot):
                await session.commit()
            assert await session.rollback() == 2
        assert [await counts(queue) for queue in queues] == [{} if works else {"dead": 1}] * 2


@each_row_afresh("name", ["orders.{shop}", "{shop}", "{shop}orders", "{}.orders", "{a}{b}.orders", "{a.b"])
def test_braces_elsewhere(name: str) -> None:
    with pytest.raises(InvalidName, match="braces only around a hash tag in front"):
        rq_dlq.Broker("redis://localhost").queue(name)


async def test_a_deleted_queue_is_opened_again(broker: Any, raw: Any) -> None:
    """The list of queues, the aliases and the queue's keys may be on three nodes."""
    await broker.queue("a").open()
    producer = broker.queue("b")
    await producer.send("x")
    assert await broker.queue("b").delete(force=True) == 1
    assert await broker.queues() == ["a"]
    assert await producer.send("y", id="y") == "y"
    assert await broker.queues() == ["a", "b"]
    await (await one(producer)).ack()
    assert not raw.exists("rq:{b}:messages")


async def test_the_letters_under_a_queue_s_name_may_be_on_another_node(broker: Any) -> None:
    """Of these queues some are on each node; an object that had DLQ open finds the letters, too."""
    reader = broker.queue("DLQ")
    await reader.send("sent")
    families = ["a", "b", "c", "d"]
    await broker.policies.set("#", dead_letter_aliases="DLQ")
    for name in families:
        await bury(broker.queue(name), [name])
    found = await reader.claim(9)
    assert sorted(delivery.body for delivery in found) == [*families, "sent"]
    assert await broker.queue("DLQ.a").claim() == []
    assert all(await reader.ack(found))
    for name in (*families, "DLQ"):
        assert await counts(broker.queue(name)) == {}


async def test_a_gather_across_nodes_is_refused(broker: Any, raw: Any) -> None:
    """At the first child of another tag; so nothing waits for it."""
    queue, other = await two(broker, APART)
    gather = broker.gather(then=(other, "then"))
    await gather.__aenter__()
    with pytest.raises(CrossSlot) as refused:
        await gather.send(queue, "x")
    await gather.__aexit__(CrossSlot, refused.value, None)
    assert await counts(other) == {}
    assert await counts(queue) == {"ready": 3}
    assert not any(raw.exists(f"rq:{{{name}}}:gathers") for name in APART)


async def test_a_gather_of_queues_with_one_tag(broker: Any, raw: Any) -> None:
    queue, other = await two(broker, TAGGED)
    await queue.purge(all=True)
    async with broker.gather(then=(other, "then")) as gather:
        await gather.send(queue, "x", id="child")
    await (await one(queue)).ack()
    assert [child.end for child in (await (await one(other)).gathered).values()] == ["acked"]
    for name in TAGGED:
        audit(raw, name)
