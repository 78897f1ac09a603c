"""Blocks that a cancellation or Ctrl-C cuts off: it goes on, whatever becomes of the messages."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, closing
from typing import Any

import pytest

import rq_dlq.asyncio
from tests.behaviour.faults import connections_of, lose, lose_calls, meanwhile, put_talk
from tests.servers.counts import verb_of
from tests.tables import each_row_afresh
from tests.variants import both_colours

pytestmark = both_colours("what Ctrl-C cuts off in one colour is a cancellation in the other")

OUTAGE = 1_000


@asynccontextmanager
async def delivery(queue: Any) -> Any:
    """A claimed delivery as a block."""
    (one,) = await queue.claim()
    async with one:
        yield


@asynccontextmanager
async def session(queue: Any) -> Any:
    """A session that holds a message."""
    async with queue.session() as session:
        await session.claim()
        yield


@each_row_afresh("block", [delivery, session])
@each_row_afresh("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_what_cuts_a_block_off_goes_on(broker: Any, block: Any, error: type[BaseException]) -> None:
    queue = broker.queue("a")
    await queue.send(1)
    lost = await lose_calls(broker, "release", OUTAGE)
    with pytest.raises(error):
        async with block(queue):
            raise error
    assert lost.runs == 1  # one try
    lost.left = 0
    assert (await queue.stats()).leased == 1


async def test_a_lost_lease_does_not_replace_it(broker: Any, clock: Any) -> None:
    queue = broker.queue("a", lease="1s")
    await queue.send(1)
    (one,) = await queue.claim()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the block is what is tested
        async with one:
            clock.advance("2s")
            await queue.claim()
            raise KeyboardInterrupt


async def test_an_error_of_the_block_is_replaced_as_before(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send(1)
    await lose_calls(broker, "nack", OUTAGE)
    with pytest.raises(rq_dlq.BrokerUnavailable) as raised:
        async with delivery(queue):
            raise ValueError("mine")
    contexts, error = [], raised.value.__context__
    while error is not None:
        contexts.append(error)
        error = error.__context__
    assert any(isinstance(one, ValueError) for one in contexts)


@pytest.mark.parametrize("backend", ["real"])
async def test_a_cancelled_loop_ends(server: str) -> None:
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        await queue.send_many(range(3))
        lost = await lose_calls(broker, "release", 1)
        inside = asyncio.Event()

        async def work() -> None:
            async with aclosing(queue.consume(3)) as deliveries:
                async for _ in deliveries:
                    inside.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert lost.runs == 1


@pytest.mark.parametrize("backend", ["real"])
def test_ctrl_c_ends_a_blocking_loop(server: str) -> None:
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send(1)
        broker.queues()
        lost = lose(broker._connections, "release", OUTAGE, arrives=False)
        with pytest.raises(KeyboardInterrupt), closing(queue.consume()) as deliveries:  # noqa: PT012 - the same
            next(deliveries)
            raise KeyboardInterrupt
        assert lost.runs == 1


async def cut_off_claims(broker: Any, error: type[BaseException]) -> None:
    """The first claim from now on is cut off when the server has done it."""
    cut_off_claims_of(await connections_of(broker), error)


def cut_off_claims_of(connections: Any, error: type[BaseException]) -> None:
    """The same of what runs the steps."""
    claims = lose(connections, "claim", 0)

    def cut_off() -> None:
        if claims.runs == 0:
            claims.runs = 1
            raise error

    meanwhile(claims, cut_off)


async def claims(queue: Any) -> None:
    """Claim by hand."""
    await queue.claim(3)


async def consumes(queue: Any) -> None:
    """Claim in a loop."""
    async with aclosing(queue.consume(3)) as deliveries:
        async for _ in deliveries:
            pass


@each_row_afresh("take", [claims, consumes])
@each_row_afresh("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, MemoryError])
async def test_a_claim_that_is_cut_off_gives_back_what_it_took(
    broker: Any, take: Any, error: type[BaseException]
) -> None:
    """Nobody has seen the messages, and with no redelivery to spare they would die when the lease ends."""
    queue = broker.queue("a", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    await queue.send_many(range(3))
    await cut_off_claims(broker, error)
    with pytest.raises(error):
        await take(queue)
    stats = await queue.stats()
    assert (stats.ready, stats.leased) == (3, 0)
    other = broker.queue("a")
    assert [(one.body, one.charged) for one in await other.claim(9)] == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("take", [claims, consumes])
@pytest.mark.parametrize("backend", ["real"])
async def test_a_claim_that_is_read_late_gives_back_what_it_took(server: str, take: Any) -> None:
    """Redis reads the connection of what came after it first."""
    async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        await queue.send_many(range(3))
        await queue.release(await queue.claim(3))  # the server knows the scripts
        connections = await connections_of(broker)
        talk, late = connections._talk, list[Any]()

        async def talk_late(commands: list[Any]) -> Any:
            if verb_of(commands[0]) != "claim" or len(late) > 1:
                return await talk(commands)
            late.append(commands)
            if len(late) == 1:
                raise asyncio.CancelledError
            replies = await talk(commands)
            await talk(late[0])
            return replies

        put_talk(connections, talk_late)
        with pytest.raises(asyncio.CancelledError):
            await take(queue)
        stats = await queue.stats()
        assert (stats.ready, stats.leased) == (3, 0)


async def test_a_claim_of_shared_letters_that_is_cut_off_gives_them_back(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=rq_dlq.SharedDeadLetterStrategy("bad"))
    for name in ("a", "b"):
        queue = broker.queue(name)
        await queue.send(name)
        await queue.poison(await queue.claim())
    await cut_off_claims(broker, asyncio.CancelledError)
    with pytest.raises(asyncio.CancelledError):
        await broker.queue("bad").claim(9)
    assert sorted([one.body for one in await broker.queue("bad").claim(9)]) == ["a", "b"]


@pytest.mark.parametrize("take", [claims, consumes])
async def test_a_claim_whose_messages_cannot_go_back_is_resumed(broker: Any, take: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    await cut_off_claims(broker, asyncio.CancelledError)
    lost = await lose_calls(broker, "release", OUTAGE)
    with pytest.raises(asyncio.CancelledError):
        await take(queue)
    assert lost.runs == 1
    assert [one.body for one in await queue.claim(9)] == [0, 1, 2]


async def test_an_error_that_cuts_off_a_claim_goes_on(broker: Any) -> None:
    """Such as that of a signal handler that limits a time, though it is no cancellation."""
    queue = broker.queue("a")
    await queue.send(0)
    await cut_off_claims(broker, MemoryError)
    lost = await lose_calls(broker, "release", OUTAGE)
    with pytest.raises(MemoryError):
        await queue.claim()
    assert lost.runs == 1  # one try: the time is over


@pytest.mark.parametrize("backend", ["real"])
def test_an_error_that_cuts_off_a_loop_goes_on(server: str) -> None:
    """Awaiting, none but a cancellation can."""
    with rq_dlq.Broker(f"unix://{server}") as broker:
        queue = broker.queue("a")
        queue.send(1)
        cut_off_claims_of(broker._connections, MemoryError)
        lost = lose(broker._connections, "release", OUTAGE, arrives=False)
        with pytest.raises(MemoryError):
            next(queue.consume())
        assert lost.runs == 1
