"""What a program does not take rests for another one, while a live worker may take it, else ten minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rq_dlq import ConsumerReport, ProcessReport, RedeliveryPolicy
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.signature import Signature, of_bodies
from tests.behaviour.helpers import after, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

TEN_MINUTES = 600_000


@dataclass
class Order:
    """An order with its tax, which the old program does not send."""

    item: str
    vat: int


async def report(broker: Any, takes: Any, *, process: str = "new-1", **news: Any) -> None:
    """A worker of queue `a` reports what it takes; None: nothing, as an earlier version of this library."""
    reporter = Reporter(ProcessReport(process=process, period=5_000))
    consumer = ConsumerReport(1, takes=takes)
    await broker._run(reporter.note(broker.settings.namespace, queues={"a": consumer}, **news))


def bodies_of(kind: Any, broker: Any) -> dict[str, Signature]:
    return {"": of_bodies(kind, broker.settings.max_message_bytes, broker.settings.version)}


def told_by(message: Any) -> tuple[Any, ...]:
    told = [event.event for event in message.history]
    return message.attempt, message.delivery_count, message.untried, message.charged, told


async def pass_on(queue: Any, clock: Clock) -> float:
    """Claim what is due; how many seconds it rests then."""
    assert await queue.claim() == []
    (message,) = await queue.select(ids=["m"]).browse()
    rest: int = message.due - clock.now
    clock.advance(f"{rest}ms")
    return rest / 1000


async def test_it_rests_while_a_live_worker_may_take_it(broker: Any, clock: Clock) -> None:
    await broker.queue("a").send("x", id="m")
    old, new = broker.queue("a", type=int), broker.queue("a", type=str)
    rests = []
    for _ in range(20):
        await report(broker, bodies_of(str, broker))
        rests.append(await pass_on(old, clock))
    assert rests == [1, 2, 4, 8, 16, 32, *[60] * 14]
    delivery = await one(new)
    assert (delivery.body, *told_by(delivery)) == ("x", 1, 21, 20, 0, ["passed_on"])
    assert not delivery.redelivered


async def test_it_is_never_due_when_it_was_sent(broker: Any, clock: Clock) -> None:
    """Not even after the clock stepped back: its place would be that of a message that never rested."""
    await broker.queue("a").send("x", id="m")
    old, sent = broker.queue("a", type=int), clock.now
    clock.set(sent - 1_000)
    assert await pass_on(old, clock) == 1.001
    other = broker.queue("b")
    await other.send("x", id="m")
    (delivery,), sent = await other.claim(), clock.now
    clock.set(sent - 1_000)
    await delivery.release(delay="1s")
    (message,) = await other.select(ids=["m"]).browse()
    assert message.due == sent + 1


async def test_one_that_expires_meanwhile_is_dead_of_it(broker: Any) -> None:
    """And its group is that of its cause."""
    await broker.queue("a", dead_letter={"process_expired": True}).send("x", id="m", ttl="500ms")
    assert await broker.queue("a", type=int).claim() == []
    (letter,) = await broker.queue("a").dlq.browse()
    assert letter.reason == "expired"
    assert "the body cannot be decoded as int" in str(letter.cause)
    assert letter.fingerprint == letter.cause.fingerprint != "expired"


async def test_of_a_body_that_fits_no_type(broker: Any, clock: Clock) -> None:
    """Ten minutes after it was first given back it is dead, in words, with one line for all its rests."""
    await broker.queue("a").send({"item": "pen"}, id="m")
    queue = broker.queue("a", type=Order)
    began, rests = clock.now, []
    while clock.now < began + TEN_MINUTES:
        rests.append(await pass_on(queue, clock))
    assert rests[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert sum(rests) == 600
    (message,) = await queue.select(ids=["m"]).browse()
    assert told_by(message) == (0, len(rests), len(rests), 0, ["passed_on"])
    assert await queue.claim() == []
    (letter,) = await queue.dlq.browse()
    assert (letter.reason, letter.attempt) == ("unprocessable", 0)
    assert [event.event for event in letter.history] == ["passed_on", "poisoned"]
    assert letter.history[-1].delay == 0
    assert "the body cannot be decoded as Order" in str(letter.cause)
    totals = (await queue.stats()).totals
    assert totals["passed_on"] == totals["released"] == len(rests) + 1


@each_row_afresh(
    "said",
    [
        ("its own mark: it would not take it, either", "own", False),
        ("another mark", "other", True),
        ("an earlier version does not say", "unknown", True),
        ("it stops", "stopping", False),
        ("it works on another task", "task", False),
    ],
)
async def test_who_may_take_it(said: tuple[str, str, bool], broker: Any, clock: Clock) -> None:
    _, who, taken = said
    await broker.queue("a").send("x", id="m")
    queue = broker.queue("a", type=int)
    own, other = bodies_of(int, broker), bodies_of(str, broker)
    takes = {"own": own, "unknown": None, "task": {"else": other[""]}}.get(who, other)
    for _ in range(30):
        await report(broker, takes, stopping=who == "stopping")
        if not await counts(queue) or (await queue.stats()).dead:
            break
        await queue.claim()
        clock.advance("60s")
    assert await counts(queue) == ({"scheduled": 1} if taken else {"dead": 1})


async def test_a_worker_that_passed_it_on_does_not_count_any_more(broker: Any, clock: Clock) -> None:
    """Else two programs, neither of which takes it, would pass it to and fro for ever."""
    await broker.queue("a").send("x", id="m")
    one_kind, another = broker.queue("a", type=int), broker.queue("a", type=bool)
    for _ in range(12):
        await report(broker, bodies_of(int, broker), process="1")
        await report(broker, bodies_of(bool, broker), process="2")
        await one_kind.claim()
        clock.advance("60s")
        await another.claim()
        clock.advance("60s")
    assert await counts(one_kind) == {"dead": 1}


@each_row_afresh("end", ["nack", "release", "lapse", "move", "redrive"])
async def test_who_begins_it_ends_that(end: str, broker: Any, clock: Clock, raw: Any) -> None:
    """The ten minutes begin anew with the next program that does not take it."""
    plain = broker.queue("a", redelivery=after("0s"), lease="30s")
    await plain.send("x", id="m")
    await broker.queue("a", type=int, redelivery=after("0s")).claim()
    assert b" passed_on=" in raw.hget("rq:{a}:states", "m")
    clock.advance("1s")
    if end == "move":
        await plain.select(ids=["m"]).move(broker.queue("b"), create=True)
    elif end == "redrive":
        await plain.select(ids=["m"]).dead_letter("by hand")
        await plain.dlq.redrive(all=True)
    else:
        delivery = await one(plain)
        if end == "lapse":
            clock.advance("31s")
            await plain.maintain()
        else:
            await getattr(delivery, end)()
    states = {**raw.hgetall("rq:{a}:states"), **raw.hgetall("rq:{b}:states")}
    assert b" passed_on=" not in states[b"m"]


async def test_what_was_given_back_ahead_rests_on(broker: Any, clock: Clock, raw: Any) -> None:
    plain = broker.queue("a")
    await plain.send("x", id="m")
    await broker.queue("a", type=int).claim()
    clock.advance("1s")
    loop = plain.consume(count=2)
    await plain.send("y", id="first", priority=9)
    assert (await anext(loop)).id == "first"
    await loop.aclose()
    assert b" passed_on=" in raw.hget("rq:{a}:states", "m")


async def test_a_time_to_live_that_is_over_before(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", type=int)
    await broker.queue("a").send("x", ttl="2s", id="m")
    assert await queue.claim() == []
    clock.advance("1s")
    assert await queue.claim() == []
    assert await counts(queue) == {"expired": 1}


async def test_what_cannot_be_decoded_is_dead_at_once(broker: Any) -> None:
    queue = broker.queue("a", type=int)
    await broker.queue("a").send(b"{", id="m")
    assert await queue.claim() == []
    assert await counts(queue) == {"dead": 1}


@each_row_afresh("sent", [("x", int), ({"item": "pen"}, Order), ("x", bytes), ("x" * 99, "less")])
async def test_what_does_not_fit(sent: tuple[Any, Any], broker: Any) -> None:
    body, kind = sent
    await broker.queue("a").send(body, id="m")
    queue = broker.queue("a", type=Any if kind == "less" else kind)
    if kind == "less":
        queue._core.codec.max_bytes = 50
    assert await queue.claim() == []
    assert await counts(queue) == {"scheduled": 1}


async def test_a_dead_letter_that_does_not_fit_stays_one(broker: Any, clock: Clock) -> None:
    await broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0)).send("x", id="m")
    await (await one(broker.queue("a"))).poison("bad")
    clock.advance("1h")
    assert await broker.queue("DLQ.a", type=int).claim() == []
    assert await counts(broker.queue("a")) == {"dead": 1}


async def test_explain_says_why_it_rests_and_until_when(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", type=int)
    await broker.queue("a").send("x", id="m")
    await queue.claim()
    said = await queue.explain("m")
    assert said.place == "scheduled"
    assert "passed it on, since it does not accept it (" in said.why
    assert "no live worker accepts it: unless one starts, it dies at the next try after" in said.next
    await report(broker, bodies_of(str, broker), process="web-2:7")
    assert "while a live worker accepts it: web-2:7" in (await queue.explain("m")).next
    clock.advance("1s")
    assert "web-2:7" in (await queue.explain("m")).next  # due
