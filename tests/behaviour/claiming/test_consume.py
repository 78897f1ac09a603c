"""`consume`: a loop whose acks ride in the round trip of its next claim."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import deque
from contextlib import aclosing, nullcontext, suppress
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable, InvalidInput, LeaseLost
from rq_dlq.core.claiming import consume
from rq_dlq.values.settlement import Settlement
from tests.behaviour.faults import change_talk, connections_of, lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, bury, counts, ids, one
from tests.colours import Awaited
from tests.conftest import MOVED_CLOCK, Clock
from tests.servers.counts import verbs_of
from tests.tables import each_row_afresh
from tests.variants import both_colours

pytestmark = both_colours("the loop is in the files `own.py`")


async def watch(broker: Any) -> list[list[Any]]:
    """The verbs of each round trip from now on, and the other commands."""
    await broker.queues()
    seen: list[Any] = []

    def sent(commands: list[Any]) -> list[Any]:
        seen.append([verb for command in commands for verb in verbs_of(command) or (command[0],)])
        return commands

    await change_talk(broker, sent, lambda replies: replies)
    return seen


async def test_the_ack_of_the_last_and_the_next_claim_are_one_round_trip(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    await queue.ack([await one(queue)])  # the server knows the scripts
    seen = await watch(broker)
    done = []
    async for delivery in queue.consume():
        async with delivery:
            done.append(delivery.body)
    assert done == ["b", "c"]
    assert seen == [["claim"], ["ack", "claim"], ["ack", "claim"]]
    assert await counts(queue) == {}


async def test_what_was_acked_is_done_when_the_next_one_comes(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    for_later: list[Any] = []
    async for delivery in queue.consume():
        assert all(earlier.outcome == "acked" for earlier in for_later)
        assert await counts(queue) == {
            state: n for state, n in {"ready": 2 - len(for_later), "leased": 1}.items() if n
        }
        settlement = await delivery.ack()
        assert settlement
        assert (settlement.outcome, delivery.outcome) == ("deferred", "deferred")
        for_later.append(delivery)
    assert [delivery.outcome for delivery in for_later] == ["acked"] * 3


async def test_it_waits_for_the_next_one_and_makes_the_acks_before(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send("a")
    seen = await watch(broker)
    async for delivery in queue.consume(wait="30ms"):
        await delivery.ack()
    flat = [name for trip in seen for name in trip]
    assert flat.index("ack") < flat.index(b"BLPOP")
    assert await counts(queue) == {}


async def test_several_of_a_claim_come_one_by_one_and_their_acks_together(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", 60)
    queue = broker.queue("orders")
    await queue.send_many(range(5))
    await queue.ack([await one(queue)])
    seen = await watch(broker)
    async for delivery in queue.consume(2):
        async with delivery:
            pass
    assert seen == [["claim"], ["ack", "claim"], ["ack", "claim"]]
    assert await counts(queue) == {}


async def test_acks_do_not_wait_for_slow_messages_of_their_claim(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", -1)  # each message takes longer
    queue = broker.queue("orders")
    await queue.send_many(range(3))
    left = []
    async for delivery in queue.consume(3):
        left.append((await counts(queue))["leased"])
        await delivery.ack()
    assert left == [3, 2, 1]


async def test_the_ack_of_an_earlier_delivery_is_made_at_once(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    deliveries = queue.consume()
    earlier = await anext(deliveries)
    await anext(deliveries)
    assert (await earlier.ack()).outcome == "acked"
    assert await counts(queue) == {"leased": 1}
    await deliveries.aclose()


async def test_an_ack_does_not_wait_for_the_next_claim_of_its_loop(sync_broker: rq_dlq.Broker) -> None:
    queue = sync_broker.queue("orders")
    queue.send("a")
    handed: list[Any] = []
    outcomes: list[str] = []

    def ack_late(commands: list[Any]) -> list[Any]:
        if handed and any(b"BLPOP" in command for command in commands):
            outcomes.append(handed.pop().ack().outcome)  # as another thread would
        return commands

    await change_talk(Awaited(sync_broker), ack_late, lambda replies: replies)
    for delivery in queue.consume(wait="30ms"):
        handed.append(delivery)  # noqa: PERF402 - one by one
    assert outcomes == ["acked"]


async def test_an_ack_that_the_end_of_the_loop_overtakes_is_made_at_once(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    deliveries = queue.consume(2)
    delivery = await anext(deliveries)
    consuming = delivery._consuming
    (unseen,) = consuming._unseen

    class Overtaken(deque[Any]):
        """Another thread ends the loop just before, and just after."""

        def append(self, late: Any) -> None:
            ending = consuming.leave()
            next(ending)
            super().append(late)
            with suppress(StopIteration):
                ending.send([Settlement(unseen.id, "released")])

    consuming._acked = Overtaken()
    assert (await delivery.ack()).outcome == "acked"
    assert await counts(queue) == {"leased": 1}
    assert [again async for again in deliveries] == []


async def test_it_is_settled_once(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    async for delivery in queue.consume():
        async with delivery:
            await delivery.ack()
            assert delivery.settled
        for again in (delivery.ack, delivery.nack, delivery.poison, delivery.release, delivery.extend):
            with pytest.raises(LeaseLost, match="acked before"):
                await again()
    assert await counts(queue) == {}


async def test_other_settlements_are_made_at_once(broker: Any) -> None:
    queue = broker.queue("orders", redelivery=AT_ONCE)
    await queue.send_many(["nack", "poison", "release", "ack"])
    verbs = []
    async for delivery in queue.consume():
        verbs.append(delivery.body)
        if delivery.delivery_count > 1:
            await delivery.ack()
        elif delivery.body == "ack":
            await delivery.ack()
            assert [each.outcome for each in await queue.ack([delivery])] == ["acked"]
        else:
            settlement = await getattr(delivery, delivery.body)()
            assert settlement.outcome == delivery.outcome != "deferred"
    assert verbs == ["nack", "nack", "poison", "release", "release", "ack"]
    assert await counts(queue) == {"dead": 1}


async def test_an_error_nacks_ends_the_loop_and_releases_the_rest(broker: Any) -> None:
    queue = broker.queue("orders", redelivery=AT_ONCE)
    await queue.send_many(["good", "bad", "rest", "rest"])

    async def run() -> None:
        async with aclosing(queue.consume(4)) as deliveries:
            async for delivery in deliveries:
                async with delivery:
                    if delivery.body == "bad":
                        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        await run()
    left = await queue.claim(10)
    assert [(d.body, d.nacked, d.released) for d in left] == [("bad", 1, 0), ("rest", 0, 1), ("rest", 0, 1)]


async def test_a_break_makes_the_ack_and_releases_the_rest(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    async for delivery in queue.consume(3):
        async with delivery:
            break
    gc.collect()  # PyPy has no other way, and a loop closes its generators in its next turns
    for _ in range(1_000):
        if delivery.outcome == "acked":
            break
        await asyncio.sleep(0)
    await broker.queues()
    assert await counts(queue) == {"ready": 2}
    assert delivery.outcome == "acked"


@pytest.mark.parametrize("how", ["close", "throw"])
async def test_leaving_makes_the_acks_and_releases_the_rest(
    broker: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", 60)
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    seen = await watch(broker)
    deliveries = queue.consume(3)
    await (first := await anext(deliveries)).ack()
    second = await anext(deliveries)
    if how == "close":
        await deliveries.aclose()
    else:
        with pytest.raises(KeyboardInterrupt):
            await deliveries.athrow(KeyboardInterrupt())
    assert ["ack", "release"] in seen
    assert (first.outcome, second.outcome) == ("acked", "released")
    assert await counts(queue) == {"ready": 2}
    assert [d.body for d in await queue.claim(2)] == ["b", "c"]


async def test_an_ack_after_the_loop_is_made_at_once(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send("a")
    (kept,) = [delivery async for delivery in queue.consume()]
    assert await counts(queue) == {"leased": 1}  # the loop went on without it
    assert (await kept.ack()).outcome == "acked"
    assert await counts(queue) == {}


async def test_a_lost_lease_is_told_by_the_next_step(
    broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", 60)
    queue = broker.queue("orders", lease="10s", redelivery=AT_ONCE)
    sent = await queue.send_many(["a", "b", "c"])
    deliveries = queue.consume(2, wait="1h")
    late = []
    for _ in range(2):
        late.append(await anext(deliveries))
        await late[-1].ack()
    clock.advance("11s")
    assert await ids(queue) == [*sent[:2], sent[2]]  # another consumer has them
    with pytest.raises(LeaseLost, match=sent[0]) as caught:
        await anext(deliveries)
    assert sent[1] in caught.value.__notes__[0]
    assert [delivery.outcome for delivery in late] == ["lost", "lost"]
    assert await counts(queue) == {"leased": 3}


async def test_beside_a_lost_lease_the_other_acks_are_done_and_what_was_claimed_is_released(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", 60)
    queue = broker.queue("orders")
    sent = await queue.send_many(["a", "b", "c"])
    deliveries = queue.consume(2)
    await (lost := await anext(deliveries)).ack()
    await (good := await anext(deliveries)).ack()
    getattr(lost, "inner", lost)._held = (sent[0], "stale")
    with pytest.raises(LeaseLost, match=sent[0]):
        await anext(deliveries)
    assert good.outcome == "acked"
    (back,) = await queue.claim()
    assert (back.body, back.released) == ("c", 1)


async def test_leaving_tells_of_a_lost_lease_if_the_loop_is_closed(broker: Any, clock: Clock) -> None:
    queue = broker.queue("orders", lease="10s", redelivery=AT_ONCE)
    await queue.send("a")
    deliveries = queue.consume()
    await (await anext(deliveries)).ack()
    clock.advance("11s")
    assert await ids(queue)
    with pytest.raises(LeaseLost):
        await deliveries.aclose()


async def test_leaving_makes_the_release_though_the_ack_is_refused(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "ACK_WITHIN", 60)
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    await (await queue.claim())[0].release()  # the server knows the scripts
    deliveries = queue.consume(3)
    await (acked := await anext(deliveries)).ack()
    released = await anext(deliveries)
    verbs: list[tuple[str, ...]] = []

    def noted(commands: list[Any]) -> list[Any]:
        verbs[:] = map(verbs_of, commands)
        return commands

    def refused(replies: list[Any]) -> list[Any]:
        no = redis.ResponseError("no")
        return [no if "ack" in ran else reply for ran, reply in zip(verbs, replies, strict=True)]

    talk = (await connections_of(broker))._talk
    await change_talk(broker, noted, refused)
    with pytest.raises(BrokerRefused):
        await deliveries.aclose()
    (await connections_of(broker))._talk = talk
    assert (acked.settled, released.outcome) == (False, "settled")
    assert (await counts(queue))["ready"] == 2


@pytest.mark.parametrize("verb", ["ack", "claim"])
async def test_a_lost_reply_is_repeated_as_one_call(broker: Any, verb: str) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b", "c"])
    await queue.ack([await one(queue)])  # the server knows the scripts
    done: list[Any] = []
    async for delivery in queue.consume():
        if not done:
            lost = await lose_replies(broker, verb)
        async with delivery:
            done.append(delivery)
    assert (lost.left, [each.outcome for each in done]) == (0, ["settled", "acked"])
    assert [each.delivery_count for each in done] == [1, 1]
    assert await counts(queue) == {}


async def test_without_redis_the_loop_ends_and_the_ack_can_be_repeated(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    deliveries = queue.consume()
    delivery = await anext(deliveries)
    await delivery.ack()
    lost = await lose_replies(broker, "ack", times=100)
    with pytest.raises(BrokerUnavailable):
        await anext(deliveries)
    assert not delivery.settled
    lost.left = 0
    assert (await delivery.ack()).outcome == "settled"  # it was done, and is not said to be lost
    assert [(d.body, d.delivery_count) for d in await queue.claim(2)] == [("b", 1)]


async def test_a_call_that_did_not_arrive_is_made_again(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send("a")
    async for delivery in queue.consume():
        await lose_calls(broker, "ack")
        await delivery.ack()
    assert await counts(queue) == {}


async def test_a_refused_claim_leaves_the_ack_done(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    deliveries = queue.consume()
    delivery = await anext(deliveries)
    await delivery.ack()

    def refused(replies: list[Any]) -> list[Any]:
        claims = [isinstance(reply, list) and len(reply) > 1 for reply in replies]
        return [redis.ResponseError("no") if no else r for no, r in zip(claims, replies, strict=True)]

    await change_talk(broker, lambda commands: commands, refused)
    with pytest.raises(BrokerRefused):
        await anext(deliveries)
    assert delivery.outcome == "settled"


async def test_an_ack_counts_once_though_redis_fails_in_the_claim_after_it(broker: Any, raw: Any) -> None:
    """Both are one call, of which nothing is undone: each is repeated alone."""
    queue = broker.queue("orders")
    await queue.send("a")
    deliveries = queue.consume()
    await (delivery := await anext(deliveries)).ack()
    raw.set("rq:{orders}:ready", "of another program")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        await anext(deliveries)
    raw.delete("rq:{orders}:ready")
    assert delivery.outcome == "settled"
    assert (await queue.stats()).totals["acked"] == 1
    assert await counts(queue) == {}


async def test_a_refused_ack_leaves_the_claim_to_the_next_one(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    deliveries = queue.consume()
    delivery = await anext(deliveries)
    await delivery.ack()
    refuse, verbs = True, list[tuple[str, ...]]()

    def noted(commands: list[Any]) -> list[Any]:
        verbs[:] = map(verbs_of, commands)
        return commands

    def refused(replies: list[Any]) -> list[Any]:
        no = redis.ResponseError("no")
        return [no if refuse and "ack" in ran else r for ran, r in zip(verbs, replies, strict=True)]

    await change_talk(broker, noted, refused)
    with pytest.raises(BrokerRefused):
        await anext(deliveries)
    refuse = False
    assert not delivery.settled
    assert [(d.body, d.delivery_count) for d in await queue.claim(2)] == [("b", 1)]


async def test_dead_letters(broker: Any) -> None:
    queue = broker.queue("orders")
    await bury(queue, ["a", "b"])
    async for letter in broker.queue("DLQ.orders").consume():
        async with letter:
            assert letter.reason == "poison"
    assert await counts(queue) == {}


async def test_dead_letters_of_several_queues(broker: Any) -> None:
    shared = rq_dlq.SharedDeadLetterStrategy("graves")
    queues = [broker.queue(name, dead_letter=shared) for name in ("orders", "mail")]
    for queue in queues:
        await bury(queue, ["a", "b"])
    seen = []
    async for letter in broker.queue("graves").consume(3):
        async with letter:
            seen.append(letter.original_queue)
    assert sorted(seen) == ["mail", "mail", "orders", "orders"]
    assert [await counts(queue) for queue in queues] == [{}, {}]


async def test_a_body_that_does_not_fit_rests_and_is_not_seen(broker: Any) -> None:
    await broker.queue("orders").send_many([1, "two", 3])
    queue = broker.queue("orders", type=int)
    done = []
    async for delivery in queue.consume():
        async with delivery:
            done.append(delivery.body)
    assert done == [1, 3]
    assert await counts(queue) == {"scheduled": 1}


@pytest.mark.parametrize("backend", ["real"])
@pytest.mark.parametrize("how", ["break", "slowly", "error", "kept"])
def test_closing_an_awaiting_broker_ends_its_loops(server: str, sync_broker: rq_dlq.Broker, how: str) -> None:
    sync_broker.queue("orders").send_many(["a", "b", "c"])
    seen: list[Any] = []

    async def main() -> None:
        async with rq_dlq.asyncio.Broker(f"unix://{server}", verbs=MOVED_CLOCK) as broker:
            kept = [deliveries := broker.queue("orders").consume(3)]
            if how != "kept":
                kept.clear()
            seen.append(await anext(deliveries))
            await seen[0].ack()
            connections = await connections_of(broker)
            talk = connections._talk

            async def far(commands: list[Any]) -> list[Any]:
                for _ in range(100):  # turns of the event loop
                    await asyncio.sleep(0)
                replies: list[Any] = await talk(commands)
                return replies

            connections._talk = far
            del deliveries  # as the end of an `async for` does
            if how == "slowly":
                await asyncio.sleep(0)  # its generator is being closed
                await asyncio.sleep(0)
            if how == "error":
                raise ValueError("boom")
        for loop in kept:
            assert [delivery async for delivery in loop] == []

    with pytest.raises(ValueError, match="boom") if how == "error" else nullcontext():
        asyncio.run(main())
    assert seen[0].outcome == "acked"
    stats = sync_broker.queue("orders").stats()
    assert (stats.ready, stats.leased) == (2, 0)


DROPPED = "orders: ending a loop that was not closed failed: no server"


def no_server(*_: object) -> Any:
    message = "no server"
    raise BrokerUnavailable(message)


def test_a_loop_that_is_dropped_in_an_outage_logs_a_line(
    sync_broker: rq_dlq.Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets its error; who closes a loop does. Python would print a traceback."""
    queue = sync_broker.queue("orders")
    queue.send_many(["a", "b"])
    dropped, closed = queue.consume(), queue.consume()
    for loop in (dropped, closed):
        next(loop).ack()
    del loop
    monkeypatch.setattr(consume, "ack", no_server)
    with pytest.raises(BrokerUnavailable, match="no server"):
        closed.close()
    del dropped
    assert caplog.messages == [DROPPED]


@pytest.mark.parametrize("backend", ["real"])
def test_an_awaiting_loop_that_is_dropped_in_an_outage_logs_a_line(
    server: str, raw: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with rq_dlq.asyncio.Broker(f"unix://{server}") as broker:
            queue = broker.queue("orders")
            await queue.send_many(["a", "b"])
            dropped, closed = queue.consume(), queue.consume()
            for loop in (dropped, closed):
                await (await anext(loop)).ack()
            del loop
            with monkeypatch.context() as outage:
                outage.setattr(consume, "ack", no_server)
                with pytest.raises(BrokerUnavailable, match="no server"):
                    await closed.aclose()
                del dropped
                while not caplog.messages:  # noqa: ASYNC110 - the event loop closes it
                    await asyncio.sleep(0)

    del raw
    asyncio.run(main())
    assert caplog.messages == [DROPPED]


@each_row_afresh("wrong", [{"count": 0}, {"count": 1_001}, {"wait": "soon"}, {"lease": 0}])
async def test_wrong_arguments_are_refused_at_once(broker: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        broker.queue("orders").consume(**wrong)


@pytest.mark.parametrize("backend", ["real"])
def test_a_forked_child_leaves_the_loop_to_its_parent(sync_broker: rq_dlq.Broker) -> None:
    queue = sync_broker.queue("orders")
    queue.send_many(["a", "b"])
    deliveries = queue.consume(2)
    first = next(deliveries)
    first.ack()
    if not (child := os.fork()):
        deliveries.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert queue.stats().leased == 2
    with next(deliveries) as second:
        assert second.body == "b"
    assert list(deliveries) == []
    assert queue.stats().leased == 0


@pytest.mark.parametrize("backend", ["real"])
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_forked_child_leaves_a_block_to_its_parent(
    sync_broker: rq_dlq.Broker, error: type[BaseException] | None
) -> None:
    queue = sync_broker.queue("orders")
    queue.send_many(["a", "b"])
    parent = os.getpid()
    with suppress(ValueError, KeyboardInterrupt), queue.claim()[0] as delivery, queue.session() as session:
        (other,) = session.claim()
        child = os.fork()
        if not child and error is not None:
            raise error
    if os.getpid() != parent:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [delivery.outcome, other.outcome] == ["acked", "acked"]
    assert queue.stats().totals["acked"] == 2
    assert queue.stats().totals.get("redelivered", 0) == 0


async def test_what_expires_while_a_caller_works_is_not_handed_out(broker: Any, clock: Clock) -> None:
    """It was claimed with others, and its time to live ended before its turn (I7)."""
    queue = broker.queue("a", lease="60s")
    await queue.send_many([0, 1], ttl="10s")
    await queue.send_many([2, 3, 4])
    await queue.send(5, ttl="20s")
    seen = []
    async for delivery in queue.consume(count=6):
        seen.append(delivery.body)
        if delivery.body == 0:
            clock.advance("11s")
        await delivery.ack()
    assert seen == [0, 2, 3, 4, 5]
    assert await counts(queue) == {"expired": 1}


async def test_what_was_lost_while_a_caller_worked_is_not_handed_out(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", lease="10s", redelivery=AT_ONCE)
    await queue.send_many([0, 1], ttl="1h")
    loop = queue.consume(count=2)
    first = await anext(loop)
    clock.advance("11s")
    other = await queue.claim(2)
    with pytest.raises(StopAsyncIteration):
        await anext(loop)
    assert [delivery.body for delivery in other] == [0, 1]
    with pytest.raises(LeaseLost):
        await first.ack()


async def test_a_message_with_a_time_to_live_costs_no_round_trip_of_its_own(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(4), ttl="1h")
    await queue.ack([await one(queue)])  # the server knows the scripts
    seen = await watch(broker)
    async for delivery in queue.consume(count=3):
        await delivery.ack()
    assert [len(step) for step in seen if "claim" in step or "ack" in step] == [1, 2, 2, 2]


class Working:
    """A clock of the client that goes on with the server's, while a caller works."""

    def __init__(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._clock = 1_000.0, clock
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def work(self, seconds: float) -> None:
        self.now += seconds
        self._clock.advance(seconds)


async def test_the_rest_of_a_batch_is_kept_while_a_caller_works(
    broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten messages of 4 s each, under a lease of 5 s; beside it somebody maintains the queue."""
    queue = broker.queue("orders", lease="5s", redelivery=AT_ONCE)
    await queue.send_many(range(10))
    working, done = Working(clock, monkeypatch), []
    async for delivery in queue.consume(count=1000):
        async with delivery:
            for _ in range(4):
                working.work(1)
                assert (await queue.maintain()).get("lapsed", 0) == 0
            done.append((delivery.body, delivery.attempt))
    assert done == [(number, 1) for number in range(10)]
    assert await counts(queue) == {}


async def test_quick_work_extends_nothing(broker: Any, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    queue = broker.queue("orders", lease="30s")
    await queue.send_many(range(20))
    await queue.ack([await one(queue)])
    working = Working(clock, monkeypatch)
    seen = await watch(broker)
    async for delivery in queue.consume(count=1000):
        async with delivery:
            working.work(0.1)
    assert all(set(trip) <= {"claim", "ack"} for trip in seen), seen


async def test_a_batch_that_was_lost_is_dropped_at_once(
    broker: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller worked for longer than the lease on its first message: the others come anew, whole."""
    queue = broker.queue("orders", lease="5s", redelivery=AT_ONCE)
    await queue.send_many(range(50))
    working, done = Working(clock, monkeypatch), []
    loop = queue.consume(count=1000)
    first = await anext(loop)
    working.work(6)
    await queue.maintain()
    seen = await watch(broker)
    second = await anext(loop)
    assert len(seen) <= 4, "not a round trip for each"
    assert (second.body, second.attempt) == (0, 2)
    done.append(first)
    await second.ack()
    async for delivery in loop:
        async with delivery:
            done.append(delivery)
    assert len(done) == 50
    assert await counts(queue) == {}
