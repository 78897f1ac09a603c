"""Records that someone else damaged: a dead letter or readable, and the queue goes on."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from rq_dlq import UnprocessableMessage
from tests.behaviour.helpers import AT_ONCE, bodies, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

FLAGS = 7  # the place of the flags in a record; before it the birth, after it the expiry, headers, body


def flags(value: int) -> Any:
    return lambda record: record[:FLAGS] + bytes((value,)) + record[FLAGS + 1 :]


def body(value: bytes) -> Any:
    return lambda record: record[: FLAGS + 1] + value


def headers(length: int, value: bytes) -> Any:
    packed = length.to_bytes(2, "big") + value
    return lambda record: record[:FLAGS] + b"\x24" + packed + record[FLAGS + 1 :]


DAMAGES = {
    "empty": lambda _: b"",
    "a byte": lambda _: b"x",
    "only the birth": lambda record: record[:FLAGS],
    "no body": lambda record: record[: FLAGS + 1],
    "expiry cut off": lambda record: record[:FLAGS] + b"\x14abc",
    "expiry beyond the calendar": lambda record: record[:FLAGS] + b"\x14" + b"\xff" * 6 + b"1",
    "text": lambda _: b"hello, this is no record at all",
    "another birth": lambda record: b"\xff" * FLAGS + record[FLAGS:],
    "no birth": lambda record: b"\0" * FLAGS + record[FLAGS:],
    "all flags": flags(0xFF),
    "unknown flag": flags(0x84),
    "no flags": flags(0),
    "headers flag without headers": flags(0x24),
    "headers longer than the record": headers(60_000, b"{}"),
    "headers of no JSON": headers(5, b"hello"),
    "headers of no text": headers(9, b'{"a": 12}'),
    "headers of UTF-8 nonsense": headers(7, b'"\xff\xfe"...'),
    "headers very deep": headers(60_000, b"[" * 60_000),
    "body of no JSON": body(b"hello"),
    "body cut off": body(b'{"a": '),
    "body very deep": body(b"[" * 100_000),
    "body of a lone surrogate": body(b'"\\ud800"'),
    "body of UTF-8 nonsense": body(b'"\xff\xfe"'),
    "body of a huge number": body(b"9" * 5_000),
    "body beyond all floats": body(b"1e999"),
    "body of NaN": body(b"NaN"),
    "body with a key twice": body(b'{"a":1,"a":2}'),
    "body of zeros": body(b"\0\0\0"),
}
STATES_OF_NONSENSE = {
    "empty": "",
    "a word": "nonsense",
    "ten words": "a b c d e f g h i j",
    "no numbers": "live - x x x x x x x x",
    "unknown part": "limbo - 0 1 0 0 0 0 0 0",
    "negative": "live - -5 -1 -1 -1 -1 -1 -1 -1",
    "huge": "live - 0 " + "9" * 40 + " 0 0 0 0 0 0",
    "binary": "\x00\x01\x02",
}


async def get_through(queue: Any, clock: Clock) -> int:
    """Take what the queue hands out and look at all of it; how many were readable."""
    readable = 0
    for _ in range(10):
        for delivery in await queue.claim(10):
            look_at(delivery)
            readable += 1
            await delivery.ack()
        clock.advance("1d")
    return readable


def look_at(message: Any) -> None:
    """Everything it tells, without an error that is not ours."""
    names = (
        "body", "headers", "priority", "enqueued_at", "expires_at", "delivery_count", "charged",
        "nacked", "lapsed", "released", "redriven", "history", "reason", "died_at", "cause",
    )  # fmt: skip
    for name in names:
        with contextlib.suppress(UnprocessableMessage):
            getattr(message, name, None)


@each_row_afresh("name", DAMAGES)
@each_row_afresh("expires", [False, True])
async def test_damaged_record(name: str, expires: bool, broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    options = {"ttl": "3650d"} if expires else {}
    await queue.send("x", id="m", **options)
    await queue.send("healthy", id="n")
    raw.hset("rq:{a}:messages", "m", DAMAGES[name](raw.hget("rq:{a}:messages", "m")))
    assert await get_through(queue, clock) >= 1
    found = await counts(queue)
    assert found in ({}, {"dead": 1}, {"expired": 1}), "it hangs about"
    for letter in [*await queue.dlq.browse(), *await queue.expired.browse()]:
        look_at(letter)
    assert len(await queue.dlq.groups()) == found.get("dead", 0)
    await queue.dlq.purge(all=True)
    await queue.expired.purge(all=True)
    assert await counts(queue) == {}


@each_row_afresh("name", DAMAGES)
async def test_record_damaged_while_it_is_held(name: str, broker: Any, clock: Clock, raw: Any) -> None:
    """A nack must not stumble over it either."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m", headers={"a": "b"})
    delivery = await one(queue)
    raw.hset("rq:{a}:messages", "m", DAMAGES[name](raw.hget("rq:{a}:messages", "m")))
    assert await delivery.nack("boom")
    await get_through(queue, clock)
    found = await counts(queue)
    assert found in ({}, {"dead": 1}, {"expired": 1}), "it hangs about"
    await queue.dlq.purge(all=True)
    await queue.expired.purge(all=True)
    assert await counts(queue) == {}


@each_row_afresh("name", ["empty", "a byte", "only the birth"])
async def test_the_priority_of_a_damaged_record(name: str, broker: Any, raw: Any) -> None:
    """It does not stop that of the others from being changed."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    await queue.send("healthy", id="n")
    raw.hset("rq:{a}:messages", "m", DAMAGES[name](raw.hget("rq:{a}:messages", "m")))
    await queue.select(all=True).prioritize(9)
    (message,) = await queue.select(ids=["n"]).browse()
    assert message.priority == 9
    await queue.purge(all=True)


@each_row_afresh("name", DAMAGES)
async def test_damaged_dead_letter(name: str, broker: Any, clock: Clock, raw: Any) -> None:
    """It can be looked at and redriven, and does not hide the others."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m")
    await queue.send("healthy", id="n")
    await queue.poison(await queue.claim(2))
    raw.hset("rq:{a}:messages", "m", DAMAGES[name](raw.hget("rq:{a}:messages", "m")))
    letters = await queue.dlq.browse()
    assert {letter.id for letter in letters} == {"m", "n"}
    for letter in letters:
        look_at(letter)
    assert (await queue.dlq.redrive(all=True)).counts.moved >= 1
    assert await get_through(queue, clock) >= 1


async def test_a_state_that_ends_in_nonsense_is_not_believed(broker: Any, raw: Any) -> None:
    """Only fields may follow its numbers (the grammar in lua/README.md)."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m")
    raw.hset("rq:{a}:states", "m", "live - 0 3 3 3 0 0 0 0 known=1")
    assert [message.delivery_count for message in await queue.peek()] == [3]
    for tail in (
        " nonsense",
        "nonsense=1",
        " non-sense=1",
        " =nonsense",
        "  nonsense=1",
        " nonsense=1 ",
        " a=b\tnonsense",
    ):
        raw.hset("rq:{a}:states", "m", f"live - 0 3 3 3 0 0 0 0{tail}")
        assert [message.delivery_count for message in await queue.peek()] == [0], tail
        assert await queue.select(ids=["m"]).dead_letter() == 1, tail
        assert b"nonsense" not in raw.hget("rq:{a}:states", "m"), tail
        assert (await queue.dlq.redrive(all=True)).counts.moved == 1


@each_row_afresh("name", STATES_OF_NONSENSE)
@each_row_afresh("part", ["ready", "scheduled", "dead"])
async def test_state_of_nonsense(part: str, name: str, broker: Any, clock: Clock, raw: Any) -> None:
    """The message is not lost, and the queue goes on."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m", delay="1s" if part == "scheduled" else 0)
    if part == "dead":
        await (await one(queue)).poison("bad")
    await queue.send("healthy", id="n")
    raw.hset("rq:{a}:states", "m", STATES_OF_NONSENSE[name])
    for letter in await queue.dlq.browse():
        look_at(letter)
    for message in await queue.peek():
        look_at(message)
    source = broker.queue("DLQ.a") if part == "dead" else queue
    clock.advance("1s")
    assert "x" in await bodies(source), "it was lost"
    await queue.stats()
    raw.flushall()


async def test_history_of_nonsense(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m")
    await (await one(queue)).nack("first")
    story = raw.hget("rq:{a}:history", "m").decode()
    for nonsense in ("", "\n", "hello", "a\tb\tc\td\te\tf\tg", "\t" * 9, "\xff\x00"):
        raw.hset("rq:{a}:history", "m", f"{nonsense}\n{story}")
        delivery = await one(queue)
        assert "first" in [event.cause.message for event in delivery.history]
        await delivery.nack("second")
    await (await one(queue)).ack()


@pytest.mark.parametrize("nonsense", ["", "\n", "\n\n\n"])
async def test_a_history_without_a_line_stops_no_failure(nonsense: str, broker: Any, raw: Any) -> None:
    """Else its message would come again for ever."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send("x", id="m")
    delivery = await one(queue)
    raw.hset("rq:{a}:history", "m", nonsense)
    await delivery.nack("first")
    delivery = await one(queue)
    assert [event.cause.message for event in delivery.history] == ["first"]
    await delivery.ack()


@pytest.mark.parametrize("state", ["nonsense", None])
async def test_a_state_damaged_while_it_is_held_strands_no_message(
    state: str | None, broker: Any, clock: Clock, raw: Any
) -> None:
    """No lease holds it and no index has it: the sweep of its claim's lease finds it."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send("x", id="m")
    delivery = await one(queue)
    if state is None:
        raw.hdel("rq:{a}:states", "m")
    else:
        raw.hset("rq:{a}:states", "m", state)
    assert not (await queue.ack([delivery]))[0]
    clock.advance("1s")
    assert (await one(queue)).id == "m"
    await queue.maintain()


async def test_a_state_of_a_lease_that_is_none_strands_no_message(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(["x", "y"])
    for name in raw.hkeys("rq:{a}:messages"):
        raw.hset("rq:{a}:states", name, "live +nobody 0 1 0 0 0 0 0 0")
    assert await queue.select(limit=1).dead_letter() == 1
    assert await bodies(queue) == ["y"]


@pytest.mark.parametrize("due", [2**42, 10**40])
async def test_a_state_of_a_time_that_never_comes_puts_nothing_off(
    due: int, broker: Any, clock: Clock, raw: Any
) -> None:
    """Where a verb puts it anew, its place does not believe the state: it comes when its place said."""
    queue = broker.queue("a")
    await queue.send_many(["x", "y"], delay="1h")
    for name in raw.hkeys("rq:{a}:messages"):
        raw.hset("rq:{a}:states", name, f"live - {due} 1 0 0 0 0 0 0")
    await queue.select(places=["scheduled"], limit=1).prioritize(7)
    clock.advance("1h")
    assert sorted(await bodies(queue)) == ["x", "y"]


async def test_index_entries_of_nothing_are_dropped(broker: Any, raw: Any) -> None:
    """Left behind by a script that was cut off; they block nobody."""
    queue = broker.queue("a")
    await queue.send_many(range(3), delay=0)
    (member,) = raw.zrange("rq:{a}:ready", 0, 0)
    raw.zadd("rq:{a}:ready", {member + b"-ghost": 0})
    raw.zadd("rq:{a}:expiring", {"ghost": 1})
    raw.zadd("rq:{a}:leases", {"ghost": 1})
    assert await bodies(queue) == [0, 1, 2]


# What an operator does, where it can be done, and where what is sound goes.
VERBS: dict[str, tuple[list[str], Any, str]] = {
    "dead_letter": (["ready", "scheduled"], lambda chosen: chosen.dead_letter(), "dead"),
    "expire": (["ready", "scheduled"], lambda chosen: chosen.expire(), "expired"),
    "deliver_now": (["scheduled"], lambda chosen: chosen.deliver_now(), "ready"),
    "prioritize": (["ready", "scheduled"], lambda chosen: chosen.prioritize(7), "ready"),
    "move": (["ready", "scheduled", "dead"], lambda chosen: chosen.move("b"), "moved"),
    "copy": (["ready", "scheduled", "dead"], lambda chosen: chosen.copy("b"), "copied"),
    "redrive": (["dead"], lambda chosen: chosen.redrive(), "ready"),
    "purge": (["ready", "scheduled", "dead"], lambda chosen: chosen.purge(), "gone"),
}


@each_row_afresh("ttl", [None, "3650d"])
@each_row_afresh("case", [f"{verb} {place}" for verb in VERBS for place in VERBS[verb][0]])
async def test_an_operators_verb_on_damaged_records(
    case: str, ttl: str | None, broker: Any, clock: Clock, raw: Any
) -> None:
    """None of them stops it; what is sound goes where it is meant to, and everything can be drained."""
    verb, place = case.split(" ")
    queue, other = broker.queue("a", redelivery=AT_ONCE), broker.queue("b", redelivery=AT_ONCE)
    await other.send("there")
    for name in [*DAMAGES, "sound"]:
        await queue.send(name, id=name, delay="1h" if place == "scheduled" else 0, ttl=ttl)
    if place == "dead":
        await queue.poison(await queue.claim(100))
    for name, damage in DAMAGES.items():
        raw.hset("rq:{a}:messages", name, damage(raw.hget("rq:{a}:messages", name)))
    source = queue.dlq if place == "dead" else queue
    assert await VERBS[verb][1](source.select(all=True)) >= 1
    clock.advance("1h")
    families = {"dead": queue.dlq, "expired": queue.expired, "ready": queue, "moved": other, "copied": other}
    if family := families.get(VERBS[verb][2]):
        assert "sound" in {message.id for message in await family.select().browse()}
    for drained in (queue, other):
        await get_through(drained, clock)
        await drained.dlq.purge(all=True)
        await drained.expired.purge(all=True)
        assert await counts(drained) == {}


@each_row_afresh("damage", [b"\xff\xfe\nm\nn", b"", b"\n\n\n", b"no list"])
async def test_what_is_leased_can_be_looked_at_beside_a_damaged_claim(
    broker: Any, raw: Any, damage: bytes
) -> None:
    queue = broker.queue("a")
    await queue.send_many(["one", "other"])
    (damaged,), (sound,) = await queue.claim(1), await queue.claim(1)
    raw.hset("rq:{a}:claims", damaged.token, damage)
    assert [message.id for message in await queue.select(places=["leased"]).browse()] == [sound.id]
    raw.hdel("rq:{a}:claims", damaged.token)
    await damaged.ack()
    await sound.ack()
