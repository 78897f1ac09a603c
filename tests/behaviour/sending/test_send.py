"""Sending."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from rq_dlq import InvalidInput, InvalidMessage, KnownId, Message
from tests.behaviour.helpers import STATES, bodies, bring_to, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row_afresh
from tests.variants import both_colours


class Order(msgspec.Struct):
    number: int
    total: float


async def test_own_id_is_kept(broker: Any) -> None:
    queue = broker.queue("a")
    assert await queue.send("x", id="order-42") == "order-42"
    assert (await one(queue)).id == "order-42"


async def test_drawn_ids_differ_and_are_short(broker: Any) -> None:
    drawn = await broker.queue("a").send_many(range(500))
    assert len(set(drawn)) == 500
    assert {len(message_id) for message_id in drawn} == {12}


@each_row_afresh("state", STATES)
async def test_known_id_is_not_sent_again(state: str, broker: Any, clock: Clock) -> None:
    """I12: whatever state the message is in."""
    queue = broker.queue("a")
    await bring_to(state, queue, clock)
    assert await queue.send("other body", id="m") == "m"
    assert await counts(queue) == {state: 1}
    assert (await queue.stats()).totals["sent"] == 1


@each_row_afresh("state", STATES)
async def test_who_sends_a_new_message_is_told_that_its_id_is_known(
    state: str, broker: Any, clock: Clock
) -> None:
    queue = broker.queue("a")
    await bring_to(state, queue, clock)
    with pytest.raises(KnownId, match=r"^m: the queue has it already, dead or alive") as raised:
        await queue.send("other body", id="m", on_duplicate="raise")
    assert raised.value.ids == ("m",)
    assert await counts(queue) == {state: 1}
    assert await queue.send("x", id="n", on_duplicate="raise") == "n"


async def test_a_batch_of_new_messages_names_those_that_are_known(broker: Any) -> None:
    """The others beside them are sent; what comes after their thousand is not."""
    queue = broker.queue("a")
    await queue.send_many(Message(body=0, id=f"m{n}") for n in (1_001, 1_300))
    batch = (Message(body=n, id=f"m{n if n != 1_999 else 1}") for n in range(3_000))
    with pytest.raises(KnownId, match=r"^3 ids: ") as raised:
        await queue.send_many(batch, on_duplicate="raise")
    assert raised.value.ids == ("m1001", "m1300", "m1")
    assert raised.value.__notes__[:-1] == ["1,000 messages before it were sent"]
    assert (await queue.stats()).ready == 1_999


async def test_same_id_twice_in_a_batch_is_sent_once(broker: Any) -> None:
    queue = broker.queue("a")
    batch = [Message(body=1, id="x"), Message(body=2, id="y"), Message(body=3, id="x")]
    assert await queue.send_many(batch) == ["x", "y", "x"]
    assert await bodies(queue) == [1, 2]


async def test_same_id_in_two_chunks_of_a_batch_is_sent_once(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(Message(body=n, id=f"m{n % 250}") for n in range(251))
    assert (await queue.stats()).ready == 250


async def test_id_can_be_sent_again_once_it_is_gone(broker: Any) -> None:
    queue = broker.queue("a")
    for body in ("first", "second"):
        await queue.send(body, id="m")
        delivery = await one(queue)
        assert (delivery.body, delivery.delivery_count) == (body, 1)
        await delivery.ack()


async def test_same_id_in_two_queues_are_two_messages(broker: Any) -> None:
    for name in ("a", "b"):
        await broker.queue(name).send(name, id="m")
    assert [(await one(broker.queue(name))).body for name in ("a", "b")] == ["a", "b"]


async def test_delay_is_exact(broker: Any, clock: Clock) -> None:
    """I5: never early, by the server's clock."""
    queue = broker.queue("a")
    await queue.send("x", delay="5s")
    assert await counts(queue) == {"scheduled": 1}
    clock.advance("4.999s")
    assert await queue.claim() == []
    clock.advance("1ms")
    assert await bodies(queue) == ["x"]


async def test_a_message_that_is_due_brings_no_other_along(broker: Any, clock: Clock) -> None:
    """I5: the maintenance that one calls for moves nothing early."""
    queue = broker.queue("a")
    await queue.send("due", delay="5s")
    await queue.send("a millisecond later", delay="5.001s")
    clock.advance("5s")
    assert await bodies(queue) == ["due"]
    assert await queue.claim() == []
    assert await counts(queue) == {"leased": 1, "scheduled": 1}


async def test_shortest_ttl_and_delay_are_a_millisecond(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("late", delay="1ms")
    await queue.send("gone", ttl="1ms")
    clock.advance("1ms")
    assert await bodies(queue) == ["late"]


async def test_ttl_is_told_to_the_receiver(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", ttl="1h")
    delivery = await one(queue)
    assert delivery.enqueued_at.timestamp() * 1000 == clock.now
    assert delivery.expires_at.timestamp() * 1000 == clock.now + 3_600_000


async def test_without_ttl_nothing_expires(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    clock.advance("3650d")
    delivery = await one(queue)
    assert (delivery.body, delivery.expires_at) == ("x", None)


async def test_headers_arrive(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", headers={"tenant": "ä", "empty": ""})
    await queue.send("y")
    first, second = await queue.claim(2)
    assert first.headers == {"tenant": "ä", "empty": ""}
    assert second.headers == {}


async def test_priority_is_told_to_the_receiver(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", priority=9)
    await queue.send("y")
    assert [delivery.priority for delivery in await queue.claim(2)] == [9, 4]


async def test_typed_body(broker: Any) -> None:
    queue = broker.queue("a", type=Order)
    await queue.send(Order(42, 9.9))
    assert (await one(queue)).body == Order(42, 9.9)


@each_row_afresh("body", [None, 0, "", [], {}, "ä\u2028\0", 9007199254740993, {"a": [1.5]}])
async def test_json_body_is_unchanged(body: Any, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send(body)
    assert (await one(queue)).body == body


@pytest.mark.parametrize("kind", [bytes, Any])
async def test_bytes_pass_untouched(kind: Any, broker: Any) -> None:
    queue = broker.queue("a", type=kind)
    body = bytes(range(256))
    await queue.send_many([body, b""])
    assert await bodies(queue) == [body, b""]


async def test_extras_beside_each_other(broker: Any, clock: Clock) -> None:
    """The parts of a record do not get in each other's way."""
    queue = broker.queue("a")
    await queue.send(b"\0\xff", ttl="1h", priority=0, headers={"a": "b"}, delay="1s")
    clock.advance("1s")
    delivery = await one(queue)
    assert (delivery.body, delivery.priority, delivery.headers) == (b"\0\xff", 0, {"a": "b"})


@each_row_afresh("make", [list, tuple, iter, lambda items: (item for item in items)])
@both_colours("iterables are read by the files `own.py`")
async def test_any_iterable(make: Any, broker: Any) -> None:
    queue = broker.queue("a")
    assert len(await queue.send_many(make(range(3)))) == 3
    assert await bodies(queue) == [0, 1, 2]


async def test_message_has_its_own_fields(broker: Any) -> None:
    """They beat those of the call, which count for what a message leaves out."""
    queue = broker.queue("a")
    await queue.send_many(
        [
            Message(body=1, id="mine", priority=9, headers={"own": "yes"}),
            Message(body=2),
            Message(body=3, headers={}, priority=0),
        ],
        priority=5,
        headers={"shared": "yes"},
    )
    first, second, third = await queue.claim(3)
    assert (first.id, first.priority, first.headers) == ("mine", 9, {"own": "yes"})
    assert (second.priority, second.headers) == (5, {"shared": "yes"})
    assert (third.priority, third.headers) == (0, {})


async def test_a_message_has_its_own_times(broker: Any, clock: Clock) -> None:
    """They beat those of the call; the ids are in the order of the messages."""
    queue = broker.queue("a")
    messages = [
        Message(0, delay="1m"),
        Message(1, delay=0),
        2,
        Message(3, ttl="1s", delay=0),
        Message(4, delay="1m"),
    ]
    sent = await queue.send_many(messages, delay="2m", ttl="1h")
    claimed = await queue.claim(9)
    assert [delivery.id for delivery in claimed] == [sent[1], sent[3]]
    await queue.ack(claimed)
    clock.advance("1m")
    claimed = await queue.claim(9, lease="1h")
    assert [delivery.id for delivery in claimed] == [sent[0], sent[4]]
    clock.advance("1m")
    assert [delivery.body for delivery in await queue.claim(9)] == [2]


@each_row_afresh("count", [0, 1, 249, 250, 251, 1000, 1001])
async def test_chunk_borders(count: int, broker: Any) -> None:
    """Nothing is lost, doubled or out of order where one script ends and the next begins."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(count))
    assert len(set(sent)) == count
    claimed = [*await queue.claim(1000), *await queue.claim(1000)]
    assert [delivery.id for delivery in claimed] == sent
    assert [delivery.body for delivery in claimed] == list(range(count))


async def test_an_error_says_what_was_sent_before(broker: Any) -> None:
    queue = broker.queue("a")
    items = [*range(1_000), 1, 2, object()]
    with pytest.raises(InvalidMessage) as raised:
        await queue.send_many(items)
    assert raised.value.__notes__[:-1] == ["1,000 messages before it were sent"]
    assert (await queue.stats()).ready == 1_000


async def test_async_iterables(async_broker: Any) -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(1_001):
            yield number

    queue = async_broker.queue("a")
    sent = await queue.send_many(numbers())
    assert await ids(queue) == sent[:1000]
    assert await bodies(queue) == [1_000]


async def test_an_error_in_an_async_iterable_says_what_was_sent_before(async_broker: Any) -> None:
    async def numbers() -> AsyncIterator[Any]:
        for number in range(1_000):
            yield number
        yield object()

    with pytest.raises(InvalidMessage) as raised:
        await async_broker.queue("a").send_many(numbers())
    assert raised.value.__notes__[:-1] == ["1,000 messages before it were sent"]


async def test_queues_are_listed(broker: Any) -> None:
    for name in ("b", "a", "c"):
        await broker.queue(name).send(1)
    await one(broker.queue("b"))
    assert await broker.queues() == ["a", "b", "c"]


@each_row_afresh("bodies", [{"a": 1}, "ab", b"ab", bytearray(b"ab")])
async def test_one_body_is_not_many(bodies: Any, broker: Any) -> None:
    with pytest.raises(InvalidInput, match="send_many takes an iterable of bodies, not one of type"):
        await broker.queue("a").send_many(bodies)
    assert await counts(broker.queue("a")) == {}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (float("nan"), "body is nan"),
        ({"a": [None, {"b": float("inf")}]}, "body['a'][1]['b'] is inf"),
        (Order(1, float("-inf")), "body['total'] is -inf"),
    ],
    ids=["alone", "inside", "in a struct"],
)
async def test_no_number_becomes_null(broker: Any, body: Any, where: str) -> None:
    """JSON has no NaN and no infinity; encoders write null in their place."""
    queue = broker.queue("a")
    with pytest.raises(InvalidMessage) as raised:
        await queue.send(body)
    assert str(raised.value).startswith(where)
    assert sum((await counts(queue)).values()) == 0


@each_row_afresh("body", [None, {"a": None}, msgspec.Raw(b'[null,"NaN"]'), {"n": "null", "m": 1e308}])
async def test_what_is_null_stays_null(broker: Any, body: Any) -> None:
    queue = broker.queue("a")
    await queue.send(body)
    sent = msgspec.json.decode(body) if isinstance(body, msgspec.Raw) else body
    assert await bodies(queue) == [sent]
