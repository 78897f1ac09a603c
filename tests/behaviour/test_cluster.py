"""A node of a Redis Cluster: every operation of a queue works there (I10), and of queues that share a tag."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import CrossSlot, IndividualDeadLetterStrategy, InvalidName, SharedDeadLetterStrategy
from rq_dlq._calls import begin, claims, scans
from rq_dlq._work import batches, jobs
from tests.audit import audit
from tests.behaviour.helpers import AT_ONCE, after, bury, counts, ids, one, snapshot
from tests.behaviour.nodes import SCRIPTS, SlotClock
from tests.behaviour.stepping import alone
from tests.colours import Awaited
from tests.conftest import Clock
from tests.servers import running, wait_until

SLOTS = 16_384
TAGGED = ["{shop}.orders", "{shop}.invoices"]
APART = ["orders", "invoices"]


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """A cluster of one node, as the path of its socket."""
    with running("--cluster-enabled", "yes") as path:
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
        async with rq_dlq.asyncio.Broker(f"unix://{server}", scripts=SCRIPTS) as awaiting:
            yield awaiting
    else:
        with rq_dlq.Broker(f"unix://{server}", scripts=SCRIPTS) as blocking:
            yield Awaited(blocking)


async def two(broker: Any, names: list[str]) -> tuple[Any, Any]:
    """Two queues that exist, the first with three messages."""
    queue, other = (broker.queue(name, redelivery=AT_ONCE) for name in names)
    await queue.send_many(range(3))
    assert await other.claim() == []
    return queue, other


# One queue


@pytest.mark.parametrize("name", ["orders", "{shop}.orders"])
async def test_every_verb_of_one_queue(name: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I10; at the end every script has run."""
    raw.script_flush()
    queue = broker.queue(name, redelivery=after("1s", most=1), lease="1m")
    await settling(queue, clock)
    await the_dead(broker, queue, clock)
    await managing(broker, queue)
    await by_batches(broker, queue)
    await by_jobs(broker, queue)
    async with queue.session() as session:
        for delivery in await session.claim(9):
            await session.send(queue, delivery.body, delay="1h", ttl="2h")
    await queue.send("x")
    async with queue.session() as session:
        assert await session.claim()
    assert await queue.purge()
    if name.startswith("{"):
        await queue.send("x")
        await broker.queue("{shop}.invoices").send("y")
        assert await queue.select().move("{shop}.invoices") == 1
    scripts = SCRIPTS.for_server((7,))
    missing = {verb for verb in scripts.names() if not any(raw.script_exists(*shas(verb)))}
    assert missing == (set() if name.startswith("{") else {"transfer"})
    audit(raw, name)


def shas(verb: str) -> list[str]:
    """A script's names, for servers of any age."""
    return [SCRIPTS.for_server(version)[verb].sha for version in ((6, 2), (7,))]


async def settling(queue: Any, clock: Clock) -> None:
    await queue.send("one", ttl="1d")
    await queue.send_many(range(9))
    await queue.send("late", delay="1s")
    acked, nacked, poisoned, released, extended, *_ = await queue.claim(9)
    await acked.ack()
    await nacked.nack("boom")
    await poisoned.poison("bad")
    await released.release()
    await extended.extend("2m")
    assert [message.body for message in await queue.peek()] == [2, 8]
    clock.advance("2m")
    await queue.maintain()
    assert (await queue.stats()).totals["lapsed"] == 5


async def the_dead(broker: Any, queue: Any, clock: Clock) -> None:
    await queue.send("mortal", ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    assert [letter.body for letter in await queue.expired.browse()] == ["mortal"]
    dead = broker.queue(f"DLQ.{queue.name}")
    held = await dead.claim(9)
    assert held
    await dead.release(held)
    assert await queue.dlq.groups()
    assert await queue.dlq.redrive(where="reason = 'poison'") == 1
    assert await queue.expired.redrive() == 1
    await bury(queue, ["again"])
    assert await queue.dlq.purge(all=True)
    await broker.policies.set("#", dead_letter=IndividualDeadLetterStrategy(expiration="1h"))
    await bury(queue, ["forgotten"])
    clock.advance("1h")
    assert (await queue.maintain())["retired"] == 1


async def managing(broker: Any, queue: Any) -> None:
    await queue.send_many(range(3), delay="1h")
    assert await queue.pause()
    assert await queue.claim() == []
    assert await queue.resume()
    assert await queue.reset()
    assert await queue.select("body = 0", places=["scheduled"]).deliver_now() == 1
    assert await queue.select(limit=1).prioritise(9) == 1
    assert await queue.select("body = 1", places=["scheduled"]).dead_letter() == 1
    assert await queue.select("body = 2", places=["scheduled"]).expire() == 1
    assert await queue.select().count()
    assert (await queue.settings()).redelivery
    assert queue.name in await broker.queues()


async def by_batches(broker: Any, queue: Any) -> None:
    await queue.send_many(range(4))
    keys = queue.work.keys
    batch = await broker.run_steps(batches.claim_batch(queue.work, "b", limit=4, lease=60_000))
    assert len(await broker.run_steps(batches.read_claim(keys, batch.tokens[0], 0, 9))) == 4
    assert await broker.run_steps(batches.extend_batch(keys, batch.tokens, 60_000)) == []
    assert not await broker.run_steps(alone(begin(keys, batch.tokens[0], ["x"])))  # no worker claimed it
    assert await broker.run_steps(batches.halve_batch(keys, batch.tokens, "rest")) == 2
    rest = await broker.run_steps(batches.find_batch(keys, "rest"))
    assert await broker.run_steps(batches.ack_batch(keys, batch.tokens + rest.tokens)) == 4
    for call in (claims.begin_batch(keys, "query", batch=1, run="a"), claims.note_done(keys, "query", 1)):
        await broker.run_steps(alone(call))


async def by_jobs(broker: Any, queue: Any) -> None:
    payload = queue.work.codec.packer(4, {})("staged")
    stage = jobs.Stage(queue.work.keys, "job", "task")
    await broker.run_steps(stage.add(["i1", payload, "i2", payload]))
    lost = jobs.Stage(queue.work.keys, "job", "another")
    await broker.run_steps(lost.add(["i3", payload]))
    lists = {queue.work.keys.home: stage.counts}
    assert await broker.run_steps(jobs.commit([queue.work], "job", lists))
    assert await broker.run_steps(jobs.move(queue.work.keys, "job", next(iter(stage.counts)))) == 2
    assert await broker.run_steps(jobs.drop(queue.work.keys, "job", list(lost.counts))) == 1
    whole = scans.scan(
        queue.work.keys, "ready", after=scans.START, upto=scans.END, limit=100, wanted=scans.Wanted()
    )
    assert {b"i1", b"i2"} <= set((await broker.run_steps(alone(whole))).ids)


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


async def test_a_session_across_nodes_is_refused(broker: Any, raw: Any) -> None:
    """All or nothing is not to be had there, and it is not pretended."""
    queue, other = await two(broker, APART)
    session = queue.session()
    await session.claim(2)
    await session.send(other, "bill")
    before = snapshot(raw)
    with pytest.raises(CrossSlot, match=r"\{shop\}\.orders"):
        await session.commit()
    assert snapshot(raw) == before
    with pytest.raises(CrossSlot):
        async with session:
            pass
    assert await counts(other) == {}
    assert await counts(queue) == {"ready": 3}
    (first, *_) = await queue.claim(3)
    assert (first.charged, first.history[0].cause.type) == (1, "rq_dlq.errors.CrossSlot")


async def test_a_session_of_each_queue_alone_works(broker: Any) -> None:
    queue, other = await two(broker, APART)
    for place in (queue, other):
        async with place.session() as session:
            await session.claim(9)
            await session.send(place, "x")
    assert await counts(queue) == await counts(other) == {"ready": 1}


@pytest.mark.parametrize("verb", ["move", "copy"])
@pytest.mark.parametrize("place", ["ready", "dead"])
async def test_a_move_across_nodes_is_refused(place: str, verb: str, broker: Any, raw: Any) -> None:
    queue, other = await two(broker, APART)
    if place == "dead":
        await queue.poison(await queue.claim(3))
    before = snapshot(raw)
    with pytest.raises(CrossSlot, match="give them one hash tag"):
        await getattr(queue.select(places=[place]), verb)(other)
    assert snapshot(raw) == before


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
    assert await queue.select().move(other) == 1
    assert await counts(queue) == {}
    assert await counts(other) == {"ready": 1, "leased": 2}
    for name in TAGGED:
        audit(raw, name)


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


@pytest.mark.parametrize(
    "name", ["orders.{shop}", "{shop}", "{shop}orders", "{}.orders", "{a}{b}.orders", "{a.b"]
)
def test_braces_elsewhere(name: str) -> None:
    with pytest.raises(InvalidName, match="braces only around a hash tag in front"):
        rq_dlq.Broker("redis://localhost").queue(name)
