"""Large bodies: a script reads none that it does not hand out, and about half a megabyte of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from rq_dlq import Message
from rq_dlq.core.batches import batches
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.sending.packing import SendOptions
from rq_dlq.core.sending.send import send
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import CHUNK_BYTES, Pipeline
from tests.audit import audit
from tests.behaviour.helpers import AT_ONCE, after, counts
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh

BODY = "x" * 5_000
MESSAGES, STATES = "rq:{a}:messages", "rq:{a}:states"


def is_read_by_nobody(raw: Any) -> dict[bytes, bytes]:
    """Put something else in the place of each record; returns the records."""
    records: dict[bytes, bytes] = raw.hgetall(MESSAGES)
    raw.hset(MESSAGES, mapping=dict.fromkeys(records, b"not read"))
    return records


async def claimed(queue: Any) -> list[Any]:
    return list(await queue.claim(10))


async def dead(queue: Any) -> None:
    await queue.poison(await queue.claim(10), "bad")


async def expired(queue: Any) -> None:
    assert await queue.select(all=True).expire() == 3


async def delayed(queue: Any) -> None:
    await queue.nack(await queue.claim(10), "late", delay="10m")


async def nothing(queue: Any) -> None:
    """They stay ready."""


# What comes before, what is done by a script that reads no body, and where the messages are then.
Step = Callable[[Any], Awaitable[Any]]
VERBS: dict[str, tuple[Step, Callable[[Any, Any], Awaitable[Any]], str]] = {
    "nack": (claimed, lambda q, held: q.nack(held, "bad"), "ready"),
    "nack, later": (claimed, lambda q, held: q.nack(held, "bad", delay="1s"), "scheduled"),
    "release": (claimed, lambda q, held: q.release(held), "ready"),
    "poison": (claimed, lambda q, held: q.poison(held, "bad"), "dead"),
    "ack": (claimed, lambda q, held: q.ack(held), ""),
    "dead_letter": (nothing, lambda q, _: q.select(all=True).dead_letter(), "dead"),
    "expire": (nothing, lambda q, _: q.select(all=True).expire(), "expired"),
    "purge": (nothing, lambda q, _: q.select(where="id <> 'z'").purge(), ""),
    "purge all": (nothing, lambda q, _: q.select(all=True).purge(), ""),
    "deliver_now": (delayed, lambda q, _: q.select(all=True).deliver_now(), "ready"),
    "redrive": (dead, lambda q, _: q.dlq.select(where="id <> 'z'").redrive(), "ready"),
    "redrive all": (dead, lambda q, _: q.dlq.redrive(all=True), "ready"),
    "redrive expired": (expired, lambda q, _: q.expired.redrive(all=True), "ready"),
    "count": (dead, lambda q, _: q.dlq.select().count(), "dead"),
    "groups": (dead, lambda q, _: q.dlq.groups(), "dead"),
    "browse by id": (dead, lambda q, _: q.dlq.select(ids=["a"]).count(), "dead"),
}


@each_row_afresh("ttl", [None, "1h"])
@each_row_afresh("verb", VERBS)
async def test_a_verb_reads_no_body(verb: str, ttl: str | None, broker: Any, raw: Any) -> None:
    """All that it needs is in the state: the place of a message follows its birth and its priority."""
    queue = broker.queue("a", redelivery=AT_ONCE, outcomes=1_000)
    sent = [
        Message(body=BODY, id="a"),
        Message(body=BODY, id="b", priority=9),
        Message(body=BODY, id="c", priority=0),
    ]
    await queue.send_many(sent, ttl=ttl)
    before, act, place = VERBS[verb]
    held = await before(queue)
    records = is_read_by_nobody(raw)
    await act(queue, held)
    assert await counts(queue) == ({place: 3} if place else {})
    for message_id in raw.hkeys(MESSAGES):
        raw.hset(MESSAGES, message_id, records[message_id])
    audit(raw, "a")
    if place == "ready":
        assert [delivery.id for delivery in await queue.claim(10)] == ["b", "a", "c"]


@each_row_afresh("what", ["lapse", "lapse of a worker", "expire", "retire"])
async def test_maintenance_reads_no_body(what: str, broker: Any, raw: Any, clock: Clock) -> None:
    queue = broker.queue(
        "a", redelivery=AT_ONCE, dead_letter={"expiration": "1m"} if what == "retire" else None
    )
    await queue.send_many([BODY] * 3, ttl="30s" if what == "expire" else None)
    if what == "retire":
        await dead(queue)
    elif what != "expire":
        await queue.claim(10, lease="1s")
    records = is_read_by_nobody(raw)
    clock.advance("1m")
    await queue.maintain()
    places = {"expire": {"expired": 3}, "retire": {}}
    assert await counts(queue) == places.get(what, {"ready": 3})
    for message_id in raw.hkeys(MESSAGES):
        raw.hset(MESSAGES, message_id, records[message_id])
    audit(raw, "a")


@pytest.mark.parametrize("size", [2_000, 2_100])
async def test_only_long_records_have_a_state_from_the_start(size: int, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x" * size)
    assert raw.hlen(STATES) == (1 if size == 2_100 else 0)
    audit(raw, "a")
    (delivery,) = await queue.claim()
    assert (delivery.delivery_count, delivery.body) == (1, "x" * size)


@pytest.mark.parametrize("where", ["ready", "scheduled", "dead"])
async def test_what_changes_a_record_changes_its_state(where: str, broker: Any, raw: Any) -> None:
    """Moved, copied without its time to live, or with another priority."""
    queue, other = broker.queue("a"), broker.queue("b")
    await other.send("x")
    await queue.send(BODY, id="m", ttl="1h", delay="1m" if where == "scheduled" else None)
    if where == "dead":
        await dead(queue)
    else:
        assert await queue.select(all=True).prioritize(8) == 1
    audit(raw, "a")
    assert await queue.select(places=[where]).copy("b") == 1
    audit(raw, "b")
    assert await other.select(ids=["m"]).purge() == 1
    assert await queue.select(places=[where]).move("b") == 1
    audit(raw, "b")
    assert [message.priority for message in await other.select(ids=["m"]).browse()] == [
        4 if where == "dead" else 8
    ]


# As much as fits


@pytest.mark.parametrize(("size", "first"), [(1_500, 300), (200_000, 3), (600_000, 1)])
async def test_a_claim_takes_what_fits(size: int, first: int, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    number = 2 * first + 1
    await queue.send_many("x" * size for _ in range(number))
    got = [len(await queue.claim(1_000)) for _ in range(4)]
    assert got == ([348, 253, 0, 0] if size == 1_500 else [first, first, 1, 0])
    audit(raw, "a")
    assert await counts(queue) == {"leased": number}


async def test_histories_count_too(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(60))
    for _ in range(30):
        while held := await queue.claim(60):
            await queue.nack(held, "é" * 500, delay="1h")
        await queue.select(all=True).deliver_now()
    assert 0 < len(await queue.claim(60)) < 30
    await queue.select(all=True).dead_letter()
    assert len(await queue.dlq.groups()) == 1
    assert len(await queue.dlq.browse(limit=None)) > 30


async def test_a_batch_of_large_messages(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(["x" * 200_000] * 10)
    batch = await broker._run(batches.claim_batch(queue._core, "b", limit=8, lease=60_000))
    assert batch.sizes == (3, 3, 2)
    assert await counts(queue) == {"ready": 2, "leased": 8}


@pytest.mark.parametrize(
    ("body", "size", "sizes"),
    [(200_000, 1_000_000, (3, 3)), (200_000, 1, (3,)), (1_000, 600_000, (500, 500))],
)
async def test_a_batch_has_a_size(body: int, size: int, sizes: tuple[int, ...], broker: Any) -> None:
    """In bytes; the claim that reaches it is the last. A repetition knows the size, too."""
    queue = broker.queue("a")
    await queue.send_many(["x" * body] * (sum(sizes) + 10))
    for again in [False] + [True] * (sizes[0] == batches.CLAIM):
        steps = batches.claim_batch(queue._core, "b", limit=2_000, lease=60_000, size=size)
        assert (await broker._run(steps)).sizes == sizes, again
    assert await counts(queue) == {"ready": 10, "leased": sum(sizes)}


@each_row_afresh("order", ["oldest", "newest"])
@each_row_afresh("number", [1, 7, 10])
async def test_pages_end_early_and_go_on(number: int, order: str, broker: Any) -> None:
    queue = broker.queue("a")
    names = [f"m{n}" for n in range(number)]
    await queue.send_many(Message(body="x" * (n * 60_000), id=name) for n, name in enumerate(names))
    expected = names if order == "oldest" else names[::-1]
    assert [message.id for message in await queue.select(order=order).browse()] == expected
    named = await queue.select(ids=names, order=order).browse()
    assert [message.id for message in named] == expected
    assert [len(message.body) for message in await queue.select(ids=names).browse()] == [
        n * 60_000 for n in range(number)
    ]
    assert await queue.select("id <> 'm3'", order=order).count() == len(set(names) - {"m3"})


async def run(broker: Any, steps: Any) -> list[tuple[int, Call[Any]]]:
    """Run steps; their calls, each with the number of its round trip."""
    value, made = None, list[tuple[int, Call[Any]]]()
    for trip in count():
        try:
            step = steps.send(value)
        except StopIteration:
            break
        calls = step.calls if isinstance(step, Pipeline) else [step]
        made += [(trip, call) for call in calls if isinstance(call, Call)]
        value = await broker._run(alone(step))
    return made


async def test_a_round_trip_of_a_send_is_not_larger_than_that(broker: Any) -> None:
    queue = broker.queue("a")
    bodies = ["x" * size for size in (10, 300_000, 300_000, 1_000_000, 20, 600_000, 30)]
    sent: dict[int, list[int]] = {}
    for trip, call in await run(broker, send(queue._core, bodies, SendOptions())):
        if call.verb == "send":
            sent.setdefault(trip, []).extend(
                len(payload) for payload in call.items[1::2] if isinstance(payload, bytes)
            )
    for sizes in sent.values():
        assert sum(sizes[:-1]) < CHUNK_BYTES
    assert [len(sizes) for sizes in sent.values()] == [3, 1, 2, 1]
    assert [len(message.body) for message in await queue.select().browse()] == [len(body) for body in bodies]


@pytest.mark.parametrize("told", [False, True])
async def test_a_job_moves_what_fits(told: bool, broker: Any) -> None:
    """Also where it is told how long its messages are at most."""
    queue = broker.queue("a")
    task = Stage(queue._core.keys, "j", "t")
    pack = queue._core.codec.packer(4, {})
    await broker._run(task.add([cell for n in range(10) for cell in (f"m{n}", pack("x" * 200_000))]))
    assert await broker._run(jobs.commit([queue._core], "j", {"a": task.counts}))
    (attempt,) = task.counts
    moved = []
    longest = {"longest": task.longest} if told else {}
    while part := (await broker._run(jobs.move(queue._core.keys, "j", attempt, **longest))).messages:
        moved.append(part)
    assert moved == [3, 3, 3, 1]
    assert await counts(queue) == {"ready": 10}


@pytest.mark.parametrize("verb", ["prioritize", "transfer"])
async def test_what_writes_whole_records_writes_what_fits(verb: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await broker.queue("b").send("x")
    await queue.send_many(["x" * 200_000] * 5)
    if verb == "prioritize":
        steps = changing.prioritize(queue._core, Choice(), 7)
    else:
        target = broker.queue("b")._core
        steps = changing.transfer(queue._core, Choice(), target, keep=False)
    calls = [call for _, call in await run(broker, steps) if call.verb == verb]
    assert [len(call.items) for call in calls] == [2, 2, 1]
    audit(raw, "a")
    audit(raw, "b")


async def test_a_policy_that_waits(broker: Any, clock: Clock) -> None:
    """A delayed large message comes back in time, at its place."""
    queue = broker.queue("a", redelivery=after("5s"))
    await queue.send_many([Message(body=BODY, id=name) for name in "ab"])
    await queue.nack(await queue.claim(2), "late")
    assert await queue.claim() == []
    clock.advance("5s")
    assert [delivery.id for delivery in await queue.claim(2)] == ["a", "b"]
