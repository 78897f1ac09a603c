"""Results: kept by the ack, read by id from anywhere, waited for; and every other end of a message."""

from __future__ import annotations

import asyncio
import copy
import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from rq_dlq import (
    ExpiryPolicy,
    InvalidInput,
    InvalidMessage,
    LeaseLost,
    Message,
    MessageTooLarge,
    PerKey,
    RedeliveryPolicy,
    ResultError,
    ResultUnavailable,
)
from rq_dlq.errors.words import ARGUMENTS_OF
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh
from tests.variants import both_colours

LARGE = "x" * 65_536
BORN = b"\x01"  # lua/results.lua


async def of(sent: Any, **how: Any) -> Any:
    """The result, by what the send returned, of either colour."""
    value = sent.result(**how)
    return await value if inspect.isawaitable(value) else value


def ids_kept(raw: Any, key: str = "rq:{a}:results") -> set[bytes]:
    """The ids whose ends are kept; each has a row for its birth."""
    rows = {*raw.hkeys(key)} - {b""}
    ids = {row for row in rows if not row.endswith(BORN)}
    assert rows == ids | {name + BORN for name in ids}
    return ids


async def end_of(queue: Any, message: Any) -> ResultError:
    with pytest.raises(ResultError) as raised:
        await queue.result(message)
    return raised.value


@each_row_afresh("value", [None, 0, "text", [1, {"a": None}], b"\x00raw", ""])
async def test_an_ack_leaves_a_result(value: Any, broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", result=True, priority=0, key="k" * 200, dependency="d" * 200)
    with pytest.raises(ResultUnavailable, match="is not done yet"):
        await queue.result(sent)
    await (await one(queue)).ack(result=value)
    assert await queue.result(sent) == value
    assert await of(sent) == value
    assert await broker.queue("a").result(str(sent), wait="1s") == value


async def test_a_result_is_kept_for_an_hour(broker: Any, clock: Clock) -> None:
    sent = await broker.queue("a").send("x", result=True)
    await (await one(broker.queue("a"))).ack(result=7)
    clock.advance("59m")
    assert await of(sent) == 7
    clock.advance("1m")
    with pytest.raises(ResultUnavailable):
        await of(sent)


async def test_nobody_else_has_one(broker: Any, raw: Any) -> None:
    """A queue without results keeps nothing, whatever its handlers return."""
    queue = broker.queue("a")
    sent = await queue.send("x")
    await (await one(queue)).ack(result="y")
    assert not raw.exists("rq:{a}:results")
    with pytest.raises(ResultUnavailable, match="without result=True"):
        await queue.result(sent, wait="1ms")
    with pytest.raises(InvalidInput, match="sent without result=True"):
        await of(sent)


@both_colours("the queue that reads the result is of the colour that sent")
async def test_who_asks_may_be_one_message_of_many(broker: Any) -> None:
    queue, other = broker.queue("a"), broker.queue("b")
    asked = [Message("x", result=True), "y", Message("z", result=True, delay="1h", id="late"), Message("w")]
    first, *others = await queue.send_many(asked)
    none, *all_but = await queue.send_many([Message("x", result=False), "y"], result=True)
    again = (await queue.send_many([Message("z", result=True, id="late")]))[0]
    async with other.session() as session:
        of_session = await session.send(queue, "v", result=True)
        plain = await session.send(queue, "u")
    for delivery in await queue.claim(9):
        await delivery.ack(result=delivery.body)
    assert [await of(one) for one in (first, *all_but, of_session)] == ["x", "y", "v"]
    assert [(one.new, one.known) for one in (first, again, of_session)] == [
        (True, None), (False, "scheduled"), (None, None),
    ]  # fmt: skip
    for late in (others[1], again):
        with pytest.raises(ResultUnavailable, match="is not done yet"):
            await of(late)
    for silent in (others[0], others[2], none, plain):
        with pytest.raises(InvalidInput, match="sent without result=True"):
            await of(silent)


@each_row_afresh(
    "fields",
    [
        {"key": "k"},
        {"dependency": "d"},
        {"key": "k", "dependency": "d"},
        {"key": "k" * 150, "dependency": "d" * 150},
    ],
)
async def test_who_asks_may_have_a_key_and_a_dependency(fields: dict[str, str], broker: Any) -> None:
    queue = broker.queue("a", per_key=PerKey(limit=9))
    asks = await queue.send(b"", result=True, **fields)
    does_not = await queue.send(b"\3\0\0", **fields)
    for delivery in await queue.claim(2):
        await delivery.ack(result="done")
    assert await queue.result(asks) == "done"
    assert not await _has(queue, does_not)


async def test_a_queue_with_results_asks_for_all(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", results="10m")
    sent = await queue.send("x")
    many = await queue.send_many([1, 2])
    deliveries = await queue.claim(9)
    await queue.ack(deliveries[1:])
    await deliveries[0].ack(result="done")
    assert [await of(sent), *[await of(one) for one in many]] == ["done", None, None]
    clock.advance("9m")
    assert await queue.result(sent) == "done"
    clock.advance("2m")
    with pytest.raises(ResultUnavailable):
        await queue.result(sent)


async def test_a_result_is_small(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", result=True)
    delivery = await one(queue)
    with pytest.raises(MessageTooLarge, match="return a reference to the data"):
        await delivery.ack(result=LARGE)
    with pytest.raises(InvalidMessage, match="the result: "):
        await delivery.ack(result=object())
    await delivery.ack(result=LARGE[:-2])
    assert await of(sent) == LARGE[:-2]
    for value in (LARGE, object()):  # nobody asked: it is ignored, and not even encoded
        await queue.send("x")
        assert (await (await one(queue)).ack(result=value)).outcome == "acked"
    with pytest.raises(InvalidInput, match="Pass True or False"):
        await queue.send("x", result=1)


async def test_many_large_ones_go_in_chunks(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(20), result=True)
    deliveries = await queue.claim(20)
    for delivery in deliveries:
        getattr(delivery, "inner", delivery)._returned = LARGE[:-2]
    assert {settled.outcome for settled in await queue.ack(deliveries)} == {"acked"}
    assert {await of(one) for one in sent} == {LARGE[:-2]}


async def test_each_of_a_call_keeps_its_own(broker: Any, clock: Clock) -> None:
    """Whoever is in front of it: lost, not asked for, with more in its state, or with another one."""
    queue = broker.queue("a", redelivery=after("1s"))
    sent = await queue.send_many(Message(n, result=n != 3) for n in range(6))
    await queue.nack(await queue.claim(2), ValueError("no"))
    clock.advance("1s")
    await queue.maintain()
    deliveries = await queue.claim(6)
    for delivery in deliveries:
        getattr(delivery, "inner", delivery)._returned = f"result {delivery.body}"
    await deliveries[2].progress(0.5)
    await queue.release(deliveries[:1])
    told = await queue.ack(deliveries)
    assert [settled.outcome for settled in told[1:]] == ["acked"] * 5
    assert [await of(sent[n]) for n in (0, 1, 4, 5)] == [f"result {n}" for n in (0, 1, 4, 5)]


async def test_who_died_has_an_error_until_a_redrive(broker: Any) -> None:
    queue = broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0))
    sent = await queue.send("x", result=True)
    await (await one(queue)).nack(ValueError("no such user"))
    error = await end_of(queue, sent)
    assert (error.end, error.reason, error.cause) == ("dead", "exhausted", "ValueError: no such user")
    assert copy.copy(error).end == "dead"  # by its arguments, as pickle does
    await (await queue.dlq.redrive(all=True)).wait()
    with pytest.raises(ResultUnavailable, match="not done yet"):
        await queue.result(sent)
    await (await one(queue)).ack(result=7)
    assert await queue.result(sent) == 7


async def test_an_undone_redrive_is_an_error_again(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", result=True)
    await (await one(queue)).poison("bad")
    await (await (await queue.dlq.redrive(all=True)).undo()).wait()
    assert (await end_of(queue, sent)).end == "dead"


async def _die(queue: Any) -> None:
    await (await one(queue)).poison("bad")


async def _purge_the_dead(queue: Any) -> None:
    await _die(queue)
    await queue.dlq.purge(all=True)


WAYS_OUT = {
    "dead": lambda queue: queue.select(all=True).dead_letter(),
    "expired": lambda queue: queue.select(all=True).expire(),
    "purged": lambda queue: queue.purge(all=True),
    "cancelled": lambda queue: queue.cancel("m"),
    "moved": lambda queue: queue.select(all=True).move("{a}.b", create=True),
    "purged when it is dead": _purge_the_dead,
}


@each_row_afresh("way", WAYS_OUT)
async def test_every_way_out_writes_an_end(way: str, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", result=True)
    await WAYS_OUT[way](queue)
    assert (await end_of(queue, "m")).end == way.partition(" ")[0]


async def test_what_is_discarded_has_an_end(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", dead_letter=None, expiry=ExpiryPolicy(discard=True))
    dead, late = await queue.send("x", result=True), await queue.send("y", ttl="1m", delay="1h", result=True)
    await _die(queue)
    clock.advance("2m")
    await queue.claim()
    assert [(await end_of(queue, one)).end for one in (dead, late)] == ["discarded", "discarded"]


async def test_a_moved_message_has_its_result_there(broker: Any) -> None:
    queue, other = broker.queue("a"), broker.queue("{a}.b")
    sent = await queue.send("x", result=True)
    await queue.select(all=True).move("{a}.b", create=True)
    await (await one(other)).ack(result="there")
    assert await other.result(sent) == "there"


async def test_a_repeated_ack_finds_its_result(broker: Any) -> None:
    """Its first reply is lost; a second ack by hand changes nothing."""
    queue = broker.queue("a")
    sent = await queue.send("x", result=True)
    delivery = await one(queue)
    lost = await lose_replies(broker, "ack")
    assert (await delivery.ack(result="first")).outcome == "settled"
    assert lost.runs == 2
    with pytest.raises(LeaseLost):
        await delivery.ack(result="second")
    assert await queue.result(sent) == "first"


async def test_only_the_holder_leaves_one(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=after("0s"))
    sent = await queue.send("x", result=True)
    late = await one(queue)
    clock.advance("31s")
    now = await one(queue)
    with pytest.raises(LeaseLost):
        await late.ack(result="late")
    await now.ack(result="now")
    assert await queue.result(sent) == "now"


async def test_the_end_is_published(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", result=True)
    with raw.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(f"rq:{{a}}:results:{sent}")
        await (await one(queue)).ack(result="done")
        heard = [listener.get_message(timeout=1) for _ in range(2)]
    word, _, rest = raw.hget("rq:{a}:results", sent).split(b" ", 2)
    published = b" ".join((word, str(sent.birth).encode(), rest))  # the birth in the place of the time
    assert [message["data"] for message in heard if message] == [published]


async def test_the_oldest_make_room(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", results="1h", results_bytes=4_000)
    sent = await queue.send_many(range(10))
    for delivery in await queue.claim(10):
        await delivery.ack(result="x" * 100)
    left = [n for n, one in enumerate(sent) if await _has(queue, one)]
    assert left == [*range(10 - len(left), 10)]
    assert 4 <= len(left) <= 7
    assert (await queue.stats()).totals["results_dropped"] == 10 - len(left)
    assert int(raw.hget("rq:{a}:results", "")) <= 4_000
    (large,) = await queue.send_many(["large"])
    await (await one(queue)).ack(result="x" * 4_000)  # more than all
    assert not await _has(queue, large)
    assert await _has(queue, sent[-1])


@each_row_afresh("fit, spare, kept", [(3, 0, 3), (3, -1, 2), (1, 0, 1), (1, -1, 0)])
async def test_as_many_as_fit_are_kept(fit: int, spare: int, kept: int, broker: Any, raw: Any) -> None:
    """To the byte, also after the count of all bytes was damaged."""
    queue, results = broker.queue("a", results="1h"), "rq:{a}:results"
    await queue.send_many(Message(n, id=f"m{n}") for n in range(7))
    first, *others = await queue.claim(7)
    await first.ack(result="x")
    size = int(raw.hget(results, ""))
    assert size == sum(2 * len(row) + raw.hstrlen(results, row) + 200 for row in (b"m0", b"m0" + BORN))
    await broker.queue("a", results="1h", results_bytes=fit * size + spare).open()
    for n, delivery in enumerate(others, 1):
        if n == 6:
            raw.hset(results, "", 1_000_000_000)
        await delivery.ack(result="x")
        left = min(kept, 1 if n == 6 else n + 1)
        assert ids_kept(raw) == {f"m{n - back}".encode() for back in range(left)}
        assert int(raw.hget(results, "")) == left * size
    assert (await queue.stats()).totals["results_dropped"] == 7 - min(kept, 1)


async def test_those_that_are_over_make_room_first(broker: Any, raw: Any, clock: Clock) -> None:
    """Two for each that comes; the others stay."""
    queue, results = broker.queue("a", results="1m"), "rq:{a}:results"
    await queue.send_many(Message(n, id=f"m{n}") for n in range(8))
    over, late, new = [(await queue.claim(count, lease="1h")) for count in (5, 2, 1)]
    for delivery in over:
        await delivery.ack(result="x")
    size = int(raw.hget(results, "")) // 5
    clock.advance("40s")
    await late[0].ack(result="x")
    clock.advance("40s")
    await late[1].ack(result="x")
    assert ids_kept(raw) == {b"m2", b"m3", b"m4", b"m5", b"m6"}
    await broker.queue("a", results="1m", results_bytes=4 * size).open()
    await new[0].ack(result="x")
    assert ids_kept(raw) == {b"m4", b"m5", b"m6", b"m7"}
    assert (raw.zcard("rq:{a}:result_times"), int(raw.hget(results, ""))) == (8, 4 * size)
    assert "results_dropped" not in (await queue.stats()).totals


async def test_half_a_megabyte_finds_room(broker: Any) -> None:
    """Among the smallest, of which many have to go in one script."""
    queue = broker.queue("a", results="1h", results_bytes=500_000)
    await queue.send_many(range(1_300))
    while deliveries := await queue.claim(1_000):
        await queue.ack(deliveries)
    large = await queue.send_many(range(7))
    deliveries = await queue.claim(7)
    for delivery in deliveries:
        getattr(delivery, "inner", delivery)._returned = LARGE[:-2]
    await queue.ack(deliveries)
    assert {await of(one) for one in large} == {LARGE[:-2]}


async def test_the_ends_of_the_dead_make_room_as_well(broker: Any, raw: Any, clock: Clock) -> None:
    """The oldest first, of which none is too old."""
    queue = broker.queue("a", results="1h", results_bytes=2_000)
    await queue.send_many(range(10))
    for delivery in await queue.claim(10):
        await delivery.poison("no")
        clock.advance("2s")
    assert 1_200 < int(raw.hget("rq:{a}:results", "")) <= 2_000


async def test_an_end_that_does_not_fit_leaves_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", results="1h", results_bytes=1)
    await queue.send("x")
    await (await one(queue)).poison("no")
    assert not raw.exists("rq:{a}:results", "rq:{a}:result_times")


async def _has(queue: Any, message: str) -> bool:
    try:
        await queue.result(message)
    except ResultUnavailable:
        return False
    return True


async def test_a_count_of_bytes_without_a_result_is_forgotten(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", results_bytes=2_000)
    raw.hset("rq:{a}:results", "", 10**9)
    sent = await queue.send("x", id="m", result=True)
    await (await one(queue)).ack(result=7)
    assert await of(sent) == 7
    assert int(raw.hget("rq:{a}:results", "")) < 1_000


async def test_what_goes_and_is_replaced_at_once_is_counted_once(broker: Any, raw: Any, clock: Clock) -> None:
    """The result of an earlier message of the same id is too old by then."""
    queue = broker.queue("a", results="1m")
    for name in ("again", "keeps the others alive", "again"):
        await queue.send("x", id=name)
        await (await one(queue)).ack(result="a text")
        clock.advance("40s")
    kept = raw.hgetall("rq:{a}:results")
    total = int(kept.pop(b""))
    assert total == sum(2 * len(name) + len(text) + 200 for name, text in kept.items())


async def test_they_go_by_themselves(broker: Any, raw: Any, clock: Clock) -> None:
    queue = broker.queue("a", results="1m")
    for n in range(9):
        await queue.send(n)
        await (await one(queue)).ack(result=n)
        clock.advance("40s")
    assert raw.zcard("rq:{a}:result_times") <= 6
    assert 0 < raw.pttl("rq:{a}:results") <= 60_000


async def test_in_a_loop_and_in_a_block(broker: Any) -> None:
    queue = broker.queue("a", results="1h")
    first, second = await queue.send_many([1, 2])
    async for delivery in queue.consume(2):
        await delivery.ack(result=10 * delivery.body)
    assert [await of(first), await of(second)] == [10, 20]
    third = await queue.send(3)
    async with await one(queue):
        pass
    assert await of(third) is None


async def test_a_session_and_spark_leave_none(broker: Any) -> None:
    queue = broker.queue("a", results="1h")
    sent = await queue.send("x")
    async with queue.session() as session:
        await session.claim()
    with pytest.raises(ResultUnavailable, match="acked without a result"):
        await of(sent, wait="1s")


async def test_a_waiting_caller_hears_at_once(sync_broker: Any, async_broker: Any) -> None:
    """Of an ack, an end, and what is there already; of others that wait, too, and of none."""
    queue, other = async_broker.queue("a"), sync_broker.queue("a")
    first, second, third = await queue.send_many([1, 2, 3], result=True)
    waiting = [asyncio.create_task(of(one, wait="20s")) for one in (first, first, second)]
    acked, dead, left = await asyncio.to_thread(other.claim, 3)
    await asyncio.to_thread(acked.ack, result="done")
    assert await waiting[0] == await waiting[1] == "done"
    late = asyncio.create_task(of(third, wait="20s"))
    await asyncio.to_thread(dead.poison, ValueError("bad"))
    with pytest.raises(ResultError, match="bad"):
        await waiting[2]
    await asyncio.to_thread(left.ack, result=3)
    assert await late == 3
    assert await of(first, wait="20s") == "done"
    with pytest.raises(ResultUnavailable):
        await queue.result("never", wait="50ms")
    assert async_broker._waiting._messages == {}


@dataclass
class Bill:
    total: int


def add(first: int, second: int) -> Bill:
    return Bill(first + second)


async def test_a_task_has_the_type_that_it_returns(broker: Any) -> None:
    task = broker.task(queue="sums", result=True)(add)
    sent = await task.send(1, 2)
    (many,) = await task.send_many([(3, 4)])
    queue = broker.queue("sums")
    for delivery in await queue.claim(2):
        arguments = delivery.body
        await delivery.ack(result=add(**arguments))
    assert (await of(sent), await of(many, wait="1s")) == (Bill(3), Bill(7))
    assert await queue.result(sent) == {"total": 3}
    plain = await task.options(result=False).send(1, 2)
    await (await one(queue)).ack(result=1)
    with pytest.raises(ResultUnavailable):
        await of(plain)


def test_options_of_a_task_are_given_before() -> None:
    assert "result" in ARGUMENTS_OF["Task.send"]


@each_row("wait", ["soon", -1])
async def test_a_wait_is_a_duration(wait: Any, broker: Any) -> None:
    with pytest.raises(InvalidInput):
        await broker.queue("a").result("m", wait=wait)
    with pytest.raises(InvalidMessage):
        await broker.queue("a").result("")
