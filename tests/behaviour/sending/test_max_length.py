"""A limit for the length of a queue: what would pass it is refused whole, and nothing else is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, LeaseLost, Message, PerKey, QueueFull
from rq_dlq._scripts import JOINED
from rq_dlq.core.sending.noted import send_noted
from rq_dlq.core.steps.step import CHUNK, CHUNK_BYTES, WINDOW
from rq_dlq.values.failure import moment
from tests.behaviour.faults import lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, bring_to, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh
from tests.variants import both_colours, on_fakeredis

pytestmark = [both_colours("each way in has its own code"), on_fakeredis("arithmetic of the Lua")]


async def limited(broker: Any, most: int = 3, sent: int = 0, **given: Any) -> Any:
    """A queue with a limit, and so many messages."""
    queue = broker.queue("a", max_length=most, redelivery=AT_ONCE, **given)
    await queue.send_many([Message(n, id=f"m{n}") for n in range(sent)])
    return queue


async def test_a_full_queue_says_how_many_it_has(broker: Any) -> None:
    queue = await limited(broker, sent=3)
    with pytest.raises(QueueFull, match=r"^a: full with 3 messages, so nothing was sent. Send again") as told:
        await queue.send("x")
    assert (told.value.queue, told.value.count) == ("a", 3)
    assert await counts(queue) == {"ready": 3}
    (await one(queue),)
    with pytest.raises(QueueFull):
        await queue.send("x")
    await (await one(queue)).ack()
    await queue.send("x")


@each_row_afresh("state, room", [("ready", 2), ("scheduled", 2), ("leased", 2), ("dead", 3), ("expired", 3)])
async def test_what_counts(state: str, room: int, broker: Any, clock: Clock) -> None:
    queue = await limited(broker)
    await bring_to(state, queue, clock)
    await queue.send_many(range(room))
    with pytest.raises(QueueFull):
        await queue.send("x")


async def test_messages_that_wait_for_their_key_count(broker: Any) -> None:
    queue = await limited(broker, per_key=PerKey(order=True))
    await queue.send_many([Message(n, key="k") for n in range(3)])
    with pytest.raises(QueueFull):
        await queue.send(4, key="other")


async def test_a_known_id_is_no_message_more(broker: Any) -> None:
    """Beside new ones, too; and an id that is there twice is one message."""
    queue = await limited(broker, sent=3)
    assert (await queue.send("x", id="m1")).known == "ready"
    await (await one(queue)).ack()
    sent = await queue.send_many([Message(0, id=name) for name in ("m1", "new", "m2", "new")])
    assert [one.new for one in sent] == [False, True, False, False]
    with pytest.raises(QueueFull):
        await queue.send_many([Message(0, id="m1"), Message(0, id="newer")])


async def test_a_chunk_is_refused_whole(broker: Any) -> None:
    queue = await limited(broker, CHUNK, sent=1)
    with pytest.raises(QueueFull):
        await queue.send_many(range(CHUNK))
    assert await counts(queue) == {"ready": 1}
    await queue.send_many(range(CHUNK - 1))
    assert await counts(queue) == {"ready": CHUNK}


async def test_the_error_says_how_many_of_earlier_chunks_went(broker: Any) -> None:
    """Of the same round trip, too."""
    window = CHUNK * WINDOW
    queue = await limited(broker, window + CHUNK)
    with pytest.raises(QueueFull) as told:
        await queue.send_many(range(2 * window))
    assert told.value.__notes__[0] == f"{window + CHUNK:,} messages before it were sent"
    assert (await queue.stats()).ready == window + CHUNK


@each_row_afresh("lost", [lose_replies, lose_calls])
async def test_a_repeated_call_is_counted_once(lost: Callable[..., Any], broker: Any) -> None:
    """And a call that was done is answered so, although the queue is full with its messages."""
    queue = await limited(broker, 2)
    await queue.send("x")
    await lost(broker, "send_limited", 2)
    assert (await queue.send("y")).new
    await lost(broker, "send_limited", 2)
    with pytest.raises(QueueFull):
        await queue.send("z")
    assert await counts(queue) == {"ready": 2}


def test_a_send_does_not_name_what_a_limit_counts() -> None:
    """It would cost each send, also to queues without a limit."""
    counted = {"dead", "expired"}
    assert counted.isdisjoint(JOINED["send"].keys)
    assert counted <= {*JOINED["send_limited"].keys}


async def test_a_program_learns_once_that_there_is_a_limit(broker: Any) -> None:
    queue = await limited(broker, 9)
    plain, own = await lose_replies(broker, "send", 0), await lose_replies(broker, "send_limited", 0)
    for n in range(3):
        await queue.send(n)
    await queue.send_many(range(3))
    assert (plain.runs, own.runs) == (1, 4)
    assert await counts(queue) == {"ready": 6}


async def test_it_may_learn_it_by_several_chunks_at_once(broker: Any) -> None:
    queue = await limited(broker, 3 * CHUNK)
    plain, own = await lose_replies(broker, "send", 0), await lose_replies(broker, "send_limited", 0)
    sent = await queue.send_many([Message(n, id=f"m{n}") for n in range(3 * CHUNK)])
    assert all(one.new for one in sent)
    assert (plain.runs, own.runs) == (1, 1)  # round trips
    with pytest.raises(QueueFull):
        await queue.send("x")


async def test_a_limit_may_come_and_go_while_a_program_runs(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send(1)
    await broker.policies.set("a", max_length=2)
    await queue.send(2)
    with pytest.raises(QueueFull):
        await queue.send(3)
    await broker.policies.set("a", max_length=None)
    await queue.send(3)
    assert await counts(queue) == {"ready": 3}


async def test_a_numbered_call_of_a_relay_learns_it_too(broker: Any) -> None:
    queue = await limited(broker, 1)
    items = ["m", queue._core.codec.packer(4, {})("x")]
    for number in (1, 1, 2):  # repeated; then the same id by another call
        await broker._run(send_noted(queue._core, "relay", number, delay=0, ttl=0, items=items))
    items[0] = "n"
    with pytest.raises(QueueFull):
        await broker._run(send_noted(queue._core, "relay", 3, delay=0, ttl=0, items=items))
    assert await counts(queue) == {"ready": 1}


async def test_more_than_the_limit_never_fits(broker: Any) -> None:
    """To send them again would not help, and the error says so; whoever acks and sends is not charged."""
    queue, source = await limited(broker), broker.queue("b", redelivery=AT_ONCE)
    never = r"^a: empty, and these are more than its limit, so nothing was "
    with pytest.raises(QueueFull, match=never + "sent. Send again fewer together"):
        await queue.send_many(range(4))
    await source.send("x")
    (delivery,) = await source.claim()
    with pytest.raises(QueueFull, match=never + "sent or acked. Commit again fewer together") as told:
        await delivery.ack(send=[(queue, n) for n in range(4)])
    assert not told.value.charge
    await delivery.release()
    session = source.session()
    await session.claim()
    for n in range(4):
        await session.send(queue, n)
    with pytest.raises(QueueFull, match=never):
        await session.commit()
    await session.rollback()
    assert (await source.stats()).dead == 0
    assert await counts(queue) == {}


async def relay(queue: Any, number: int, *bodies: int) -> None:
    """Make a call of a relay, as if an hour has passed since it was made before."""
    pack = queue._core.codec.packer(4, {})
    items = [cell for body in bodies for cell in (f"row{body}", pack(body))]
    await queue._broker._run(send_noted(queue._core, "relay", number, delay=0, ttl=0, items=items))


async def take(queue: Any) -> list[int]:
    """The bodies of what the queue has; it knows none any more."""
    taken: list[int] = []
    while deliveries := await queue.claim(100):
        taken += [delivery.body for delivery in deliveries]
        await queue.ack(deliveries)
    return taken


@each_row_afresh("lifted", [False, True])
async def test_a_relay_s_call_is_sent_in_parts(lifted: bool, broker: Any) -> None:
    """All of its rows would never fit; each is sent once, whatever became of it, and in order."""
    queue = await limited(broker)
    taken: list[int] = []
    for _ in range(2):
        with pytest.raises(
            QueueFull, match=r"^a: full with 3 messages, so what is left waits, and follows when"
        ):
            await relay(queue, 7, *range(8))
        with pytest.raises(QueueFull):  # and again, while there is no room
            await relay(queue, 7, *range(8))
        taken += await take(queue)
    assert taken == [0, 1, 2, 3, 4, 5]
    if lifted:
        await broker.policies.set("a", max_length=None, pinned=True)
        queue._core.limited = False  # as in a process that begins now
    await relay(queue, 7, *range(8))
    await relay(queue, 7, *range(8))
    await relay(queue, 8, 8)
    await relay(queue, 7, *range(8))
    assert await take(queue) == [6, 7, 8]


async def test_rows_that_are_gone_move_no_others(broker: Any) -> None:
    """Somebody deletes rows of the outbox whose call was sent in part."""
    queue = await limited(broker)
    with pytest.raises(QueueFull):
        await relay(queue, 7, *range(5))
    taken = await take(queue)
    await relay(queue, 7, 0, 2, 3, 4)
    assert taken + await take(queue) == [*range(5)]
    with pytest.raises(QueueFull):
        await relay(queue, 8, *range(5, 10))
    await take(queue)
    await relay(queue, 8, 9)
    assert await take(queue) == [9]


async def test_what_was_sent_in_part_knows_its_ids(broker: Any, caplog: Any) -> None:
    queue = await limited(broker)
    with pytest.raises(QueueFull):
        await relay(queue, 7, *range(5))
    await take(queue)
    await queue.send("x", id="row4")
    (held,) = await queue.claim()
    await held.poison("bad")
    await relay(queue, 7, *range(5))
    assert await take(queue) == [3]
    assert "a dead letter has the id: row4" in caplog.text


async def test_a_refusal_is_not_remembered_as_done(broker: Any) -> None:
    """The next call of the same sender is another one."""
    queue = await limited(broker, 1, sent=1)
    for _ in range(3):
        with pytest.raises(QueueFull):
            await queue.send("y", id="y")
    await (await one(queue)).ack()
    assert (await queue.send("y", id="y")).new


async def test_what_comes_back_is_never_refused(broker: Any, clock: Clock) -> None:
    queue = await limited(broker, sent=3)
    first, second, third = await queue.claim(3)
    await first.nack("boom")
    await second.release()
    await third.poison("bad")
    await queue.send("x")
    assert await queue.dlq.select(all=True).redrive() == 1
    assert await counts(queue) == {"ready": 4}
    clock.advance("1h")
    (lapsed, *_) = await queue.claim(4, lease="1s")
    clock.advance("2s")
    await queue.maintain()
    assert (await queue.stats()).ready == 4
    with pytest.raises(LeaseLost):
        await lapsed.ack()


async def test_a_session_is_refused_whole(broker: Any) -> None:
    """It goes by what it acks in the same queue, and by ids that are known."""
    queue, other = await limited(broker, sent=3), broker.queue("b")
    session = queue.session()
    await session.claim(2)
    for n in range(3):
        await session.send(queue, n, id=f"new{n}")
    await session.send(other, "x")
    with pytest.raises(QueueFull, match=r"^a: full with 3 messages, so nothing was sent or acked") as told:
        await session.commit()
    assert told.value.count == 3
    assert (await counts(queue), await counts(other)) == ({"ready": 1, "leased": 2}, {})
    await session.rollback()
    async with queue.session() as session:
        await session.claim(2)
        for name in ("new0", "new1", "m2"):
            await session.send(queue, name, id=name)
    assert await counts(queue) == {"ready": 3}


async def test_an_ack_that_sends_to_a_full_queue_fails_uncharged(broker: Any, clock: Clock) -> None:
    queue, source = await limited(broker, sent=3), broker.queue("b", redelivery=AT_ONCE)
    await source.send("x", id="s")
    with pytest.raises(QueueFull):
        async with await one(source) as delivery:
            await delivery.ack(send=[(queue, 1)])
    clock.advance("1h")
    again = await one(source)
    assert (again.id, again.charged, again.nacked) == ("s", 0, 1)
    await queue.purge(all=True)
    await again.ack(send=[(queue, 1)])
    assert await counts(queue) == {"ready": 1}


async def test_a_large_session_is_refused(broker: Any) -> None:
    """It would be staged, and moved after its commit: nobody could say how long the queue is meanwhile."""
    queue = await limited(broker, 100)
    session = queue.session()
    for _ in range(3):
        await session.send(queue, bytes(CHUNK_BYTES // 2))
    with pytest.raises(InvalidInput, match="half a megabyte of a session"):
        await session.commit()
    await session.rollback()
    assert await counts(queue) == {}


async def test_a_tick_of_a_full_queue_is_missed(
    broker: Any, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = await limited(broker, 1)
    await queue.schedule("hourly", "x", every="1h")
    begin = moment(clock.now)
    for n, fired in enumerate((1, 0, 0), 1):
        clock.advance("1h")
        assert (await queue.maintain())["fired"] == fired
        (found,) = await broker.schedules()
        assert found.next_at - begin <= timedelta(hours=n + 1)
        assert found.last_at - begin < timedelta(hours=1, seconds=1)
    assert "schedule hourly has missed the tick at" in caplog.text
    assert "the queue is full" in caplog.text
    await (await one(queue)).ack()
    clock.advance("1h")
    assert (await queue.maintain())["fired"] == 1


@each_row_afresh("verb", ["move", "copy"])
async def test_a_move_fills_the_queue_and_leaves_the_rest(verb: str, broker: Any) -> None:
    queue, source = await limited(broker, sent=1), broker.queue("b")
    await source.send_many(range(4))
    moved = await getattr(source.select(all=True), verb)("a")
    assert (moved, await counts(queue)) == (2, {"ready": 3})
    assert (await source.stats()).ready == (2 if verb == "move" else 4)


async def test_a_redrive_to_it_asks_for_no_room(broker: Any) -> None:
    queue, source = await limited(broker, sent=3), broker.queue("b")
    await source.send("x")
    await (await one(source)).poison("bad")
    job = await source.dlq.redrive(all=True, to="a")
    await job.wait("5s")
    assert await counts(queue) == {"ready": 4}


async def test_a_limit_that_is_lowered_takes_nothing_away(broker: Any) -> None:
    queue = await limited(broker, 5, sent=5)
    await broker.policies.set("a", max_length=2, pinned=True)
    assert (await queue.stats()).ready == 5
    with pytest.raises(QueueFull):
        await queue.send("x")
    await broker.policies.set("a", max_length=None, pinned=True)
    await queue.send("x")


@pytest.mark.parametrize("backend", ["real"])
def test_it_is_exact_however_many_send_at_once(sync_broker: rq_dlq.Broker) -> None:
    """Single messages and batches of several threads, while another acks."""
    queue = sync_broker.queue("a", max_length=50)
    queue.open()
    most, refused, lengths, begin = [0], [0] * 4, list[int](), threading.Barrier(5)

    def send(number: int) -> None:
        begin.wait()
        for n in range(60):
            try:
                queue.send_many([n] * 7) if number % 2 else queue.send(n)
            except QueueFull as error:
                refused[number] += 1
                lengths.append(error.count)

    def take() -> None:
        begin.wait()
        for _ in range(60):
            stats = queue.stats()
            most[0] = max(most[0], stats.ready + stats.leased)
            queue.ack(queue.claim(3))

    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)] + [threading.Thread(target=take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most[0], *lengths) <= 50
    assert all(refused)
    queue.purge(all=True)
    queue.send_many(range(50))
    with pytest.raises(QueueFull):
        queue.send(1)
