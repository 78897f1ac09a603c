"""Messages that are due, or expire, at a time: by the server's clock, whichever way they are sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidDuration, InvalidInput, Message
from rq_dlq.core.steps.step import CHUNK_BYTES
from rq_dlq.values.failure import moment
from tests.behaviour.faults import lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh
from tests.variants import both_colours, on_fakeredis

pytestmark = [both_colours("each way to send has its own arguments"), on_fakeredis("arithmetic of the Lua")]
HOUR = timedelta(hours=1)
WAYS = ["send", "send_many", "Message", "task", "task, many", "session", "ack", "gather"]


def server_time(raw: Any) -> datetime:
    """The time of its own clock, which no test moves."""
    seconds, micros = raw.time()
    return moment(seconds * 1_000 + micros // 1_000)


async def send(way: str, broker: Any, **options: Any) -> None:
    """Send a message to the queue `a`, with its id `m` where that is possible."""
    queue = broker.queue("a")
    if way == "send":
        await queue.send(1, id="m", **options)
    elif way == "send_many":
        await queue.send_many([1], **options)
    elif way == "Message":
        await queue.send_many([Message(1, id="m", **options)], delay="2h", ttl="3h")
    elif way.startswith("task"):

        @broker.task(queue="a", name=way)
        def call(n: int) -> None: ...

        given = call.options(delay="2h", ttl="3h").options(**options)
        await (given.send(1) if way == "task" else given.send_many([(1,)]))
    elif way == "gather":
        async with broker.gather(then=(broker.queue("b"), "then"), within="9d") as gather:
            await gather.send(queue, 1, id="m", **options)
    else:
        other = broker.queue("b", redelivery=AT_ONCE)
        await other.send("x")
        if way == "session":
            async with other.session() as session:
                await session.claim()
                await session.send(queue, 1, id="m", **options)
        else:
            async with await one(other) as delivery:
                await delivery.ack(send=[(queue, Message(1, id="m", **options))])


@each_row_afresh("way", WAYS)
async def test_a_message_for_a_time(way: str, broker: Any, clock: Clock) -> None:
    """In whichever zone it is told; a part of a millisecond is never early."""
    due = moment(clock.now) + HOUR - timedelta(microseconds=500)
    zone = timezone(timedelta(hours=-7))
    await send(way, broker, at=due.astimezone(zone), expires_at=moment(clock.now) + 2 * HOUR)
    queue = broker.queue("a")
    assert await counts(queue) == {"scheduled": 1}
    clock.advance(3_599.999)
    assert not await queue.claim()
    clock.advance(0.001)
    delivery = await one(queue)
    assert delivery.expires_at == moment(clock.now) + HOUR
    assert delivery.due == clock.now


@each_row_afresh("way", WAYS)
async def test_a_time_that_has_passed_is_now(way: str, broker: Any, clock: Clock) -> None:
    await send(way, broker, at=moment(clock.now) - 24 * HOUR)
    assert await counts(broker.queue("a")) == {"ready": 1}
    assert (await one(broker.queue("a"))).enqueued_at == moment(clock.now)


@each_row_afresh("way", WAYS)
async def test_a_message_that_would_have_expired_is_refused(way: str, broker: Any, clock: Clock) -> None:
    """And nothing is acked; the moment itself is past, too."""
    with pytest.raises(InvalidInput, match=r"expires_at .*has passed"):
        await send(way, broker, expires_at=moment(clock.now))
    assert await counts(broker.queue("a")) == {}
    assert (await broker.queue("a").stats()).totals == {}
    assert (await broker.queue("b").stats()).totals.get("acked") is None


async def test_an_expired_message_is_not_delivered(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send(1, expires_at=moment(clock.now + 1))
    clock.set(clock.now + 1)
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


async def test_the_ttl_of_the_queue_holds_for_times(broker: Any, clock: Clock) -> None:
    bounds = rq_dlq.ExpiryPolicy(min_expiry_delay="1h", max_expiry_delay="2h")
    queue = broker.queue("a", expiry=bounds)
    await queue.send_many([Message(1, expires_at=moment(clock.now) + n * HOUR / 2) for n in (1, 3, 9)])
    ends = [message.expires_at - moment(clock.now) for message in await queue.peek(9)]
    assert ends == [HOUR, 1.5 * HOUR, 2 * HOUR]


async def test_a_batch_says_how_many_went_before(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    late = [Message(2, expires_at=moment(clock.now))] * 3
    with pytest.raises(InvalidInput, match="has passed") as raised:
        await queue.send_many([1, 1, *late, 3])
    assert raised.value.__notes__[0] == "2 messages before it were sent"
    assert await counts(queue) == {"ready": 2}


async def test_a_lost_reply_is_answered_as_the_first_was(broker: Any, clock: Clock) -> None:
    """Although the message would be refused by now."""
    queue = broker.queue("a")
    await queue.send("x")
    lost = await lose_replies(broker, "send", 2)
    take = lost.take

    def later() -> None:
        clock.advance("1h")
        take()

    lost.take = later  # type: ignore[method-assign]
    sent = await queue.send("y", id="m", expires_at=moment(clock.now) + HOUR / 2)
    assert (sent.new, lost.runs) == (True, 3)


@each_row(
    "given, error, told",
    [
        ({"at": datetime(2026, 11, 30)}, InvalidInput, r"no time zone.*at=time.astimezone\(\)"),  # noqa: DTZ001
        ({"expires_at": datetime(2026, 11, 30)}, InvalidInput, "expires_at: .*no time zone"),  # noqa: DTZ001
        ({"at": "tomorrow"}, InvalidInput, "is not a time. Pass a datetime with a time zone"),
        ({"at": 1_790_000_000}, InvalidInput, "is not a time"),
        ({"at": datetime(2110, 1, 1, tzinfo=UTC)}, InvalidInput, "before the year 2109"),
        ({"at": datetime.max.replace(tzinfo=UTC)}, InvalidInput, "before the year 2109"),
        ({"at": moment(0), "delay": 0}, InvalidInput, "either delay, a duration, or at, a time"),
        ({"expires_at": moment(0), "ttl": 1}, InvalidInput, "either ttl, a duration, or expires_at"),
        ({"delay": moment(0)}, InvalidDuration, "is a time, not a duration. Pass it as at="),
        ({"ttl": moment(0)}, InvalidDuration, "is a time, not a duration. Pass it as expires_at="),
    ],
)
async def test_what_is_no_time_is_refused(
    given: dict[str, Any], error: type[Exception], told: str, broker: Any
) -> None:
    """By each way before anything is sent, and by `Message` when it is made."""
    queue = broker.queue("a")
    for way in (queue.send, lambda body, **own: queue.send_many([body], **own)):
        with pytest.raises(error, match=told):
            await way(1, **given)
    with pytest.raises(error, match=told):
        Message(1, **given)


async def test_times_before_1970_and_without_an_offset(broker: Any) -> None:
    """A zone may have none; Python's earliest time is long past."""
    queue = broker.queue("a")
    await queue.send(1, at=datetime.min.replace(tzinfo=UTC))
    assert await counts(queue) == {"ready": 1}
    with pytest.raises(InvalidInput, match="has passed"):
        await queue.send(1, expires_at=datetime.min.replace(tzinfo=UTC))


async def test_a_large_session(broker: Any, raw: Any) -> None:
    """Its messages are staged in lists with durations, which version 0.1.0 moves, too."""
    queue, other = broker.queue("a"), broker.queue("b")
    body, now = bytes(CHUNK_BYTES // 2), server_time(raw)
    session = queue.session()
    await session.send(other, body, id="past", at=now - HOUR, ttl="9h")
    await session.send(other, body, id="later", at=now + HOUR, expires_at=now + 2 * HOUR)
    await lose_calls(broker, "move_staged", 1_000)
    await session.commit()
    lists = [name.decode().rsplit(".", 2) for name in raw.zrange("rq:{b}:committed", 0, -1)]
    (_, late, ends), (_, soon, ttl) = sorted(lists, key=lambda parts: int(parts[2]))
    assert (soon, ttl) == ("0", "32400000")
    assert 0 <= 3_600_000 - int(late) == 7_200_000 - int(ends) < 60_000


async def test_a_large_session_refuses_what_would_have_expired(broker: Any, raw: Any) -> None:
    queue, other = broker.queue("a", redelivery=AT_ONCE), broker.queue("b")
    await queue.send("x", id="m")
    session = queue.session()
    await session.claim()
    for n in range(3):
        end = server_time(raw) - n * HOUR
        await session.send(other, bytes(CHUNK_BYTES // 2), expires_at=end)
    with pytest.raises(InvalidInput, match="has passed"):
        await session.commit()
    await session.rollback()
    assert (await counts(queue), await counts(other)) == ({"ready": 1}, {})


async def test_a_schedule_ends_with_its_messages(broker: Any, clock: Clock) -> None:
    """From then on its ticks send nothing."""
    queue = broker.queue("a")
    end = moment(clock.now) + 2.5 * HOUR
    await queue.schedule("s", 1, every="1h", expires_at=end)
    for sent in (1, 1, 0, 0):
        clock.advance("1h")
        assert (await queue.maintain())["fired"] == sent
    assert len(await ids(queue)) == 0, "they have expired"
    await queue.schedule("t", 1, every="1h", expires_at=moment(clock.now) + HOUR * 2)
    clock.advance("1h")
    await queue.maintain()
    assert (await one(queue)).expires_at == moment(clock.now) + HOUR
    with pytest.raises(InvalidInput, match=r"expires_at .* has passed"):
        await queue.schedule("u", 1, every="1h", expires_at=end)
