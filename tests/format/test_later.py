"""What a later version wrote in a form of its own stays: not handed out, not lost, in nobody's way."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from rq_dlq import Message, UpgradeRequired
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.values.codec import Codec
from rq_dlq.values.message import MessageRow, Received
from tests.behaviour.helpers import AT_ONCE, bodies, bury, counts, ids, one
from tests.behaviour.stepping import alone
from tests.conftest import Clock
from tests.tables import each_row_afresh

HERE = "rq:{a}:"
CODEC: Codec[Any] = Codec(Any, 1 << 20)
AGAIN = 60_000  # lua/record.lua, is_later
LATER = {
    "state": lambda record, state: (record, b">=1.4 " + (state or b"live - of what it likes")),
    "record": lambda record, state: (record[:7] + b"\x0f>=1.4 " + record[8:], state),
    "both": lambda record, state: (record[:7] + b"\x0f>=1.4 x", b">=1.4 " + (state or b"x -y z")),
}
forms = each_row_afresh("form", LATER)


class Rewritten:
    """A message that a later version wrote, until that is undone."""

    def __init__(self, raw: Any, name: str, form: str) -> None:
        self._raw, self._name = raw, name
        self._was = self.now()
        self._write(*LATER[form](*self._was))
        self.written = self.now()

    def now(self) -> tuple[bytes, bytes | None]:
        """Its record and its state."""
        return self._raw.hget(f"{HERE}messages", self._name), self._raw.hget(f"{HERE}states", self._name)

    def undo(self) -> None:
        """Who reads it comes along."""
        assert self.now() == self.written, "it was touched"
        self._write(*self._was)

    def _write(self, record: bytes, state: bytes | None) -> None:
        self._raw.hset(f"{HERE}messages", self._name, record)
        self._raw.hdel(f"{HERE}states", self._name)
        if state is not None:
            self._raw.hset(f"{HERE}states", self._name, state)


@each_row_afresh(("before", "form"), product(["fresh", "tried", "mortal", "mortal, tried"], LATER))
async def test_it_is_not_handed_out_and_in_nobodys_way(
    before: str, form: str, broker: Any, clock: Clock, raw: Any
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1h")
    tried = "tried" in before
    await queue.send("later", id="m", ttl="1h" if "mortal" in before else None)
    if tried:
        await (await one(queue)).nack("boom")
    later = Rewritten(raw, "m", form)
    await queue.send_many(["x", "y"])
    claimed = [delivery.body for _ in range(3) for delivery in await queue.claim(1)]
    assert claimed == ["x", "y"]
    clock.advance(AGAIN / 2_000)
    assert await queue.claim(9) == []
    assert (await queue.stats()).totals["put_off"] == 1, "it comes up again and again"
    later.undo()
    clock.advance(AGAIN / 2_000)
    delivery = await one(queue)
    assert (delivery.id, delivery.delivery_count) == ("m", 1 + tried)
    await delivery.ack()


@forms
async def test_a_crowd_of_them_is_in_nobodys_way(form: str, broker: Any, clock: Clock, raw: Any) -> None:
    """Also where a claim meets none but them."""
    queue = broker.queue("a")
    await queue.send_many(["later"] * 50)
    later = [Rewritten(raw, name.decode(), form) for name in raw.hkeys(f"{HERE}messages")]
    await queue.send("x")
    assert [body for _ in range(4) for body in await bodies(queue, 1)] == ["x"]
    assert await counts(queue) == {"scheduled": 50, "leased": 1}
    clock.advance(AGAIN / 1_000)
    for each in later:
        each.undo()
    assert len(await ids(queue)) == 50


@forms
async def test_a_crowd_of_the_dead_is_in_nobodys_way(form: str, broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    dead = await bury(queue, ["x"] * 30)
    clock.advance("1s")
    later = [Rewritten(raw, name, form) for name in dead[:9]]
    assert await ids(broker.queue("DLQ.a"), 1) == [dead[9]]
    for each in later:
        each.undo()
    raw.flushall()  # they stand behind their time of death, which the audit does not know


@forms
async def test_a_lapse_leaves_it_to_who_reads_it(form: str, broker: Any, clock: Clock, raw: Any) -> None:
    """What else was in its claim comes back."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(["x"] * 40)
    held = await queue.claim(40)
    later = {held[n].id: Rewritten(raw, held[n].id, form) for n in (0, 7, 39)}
    clock.advance("1s")
    done = await queue.maintain()
    assert done["swept"] == 37
    back = await ids(queue)
    assert sorted([*back, *later]) == sorted(delivery.id for delivery in held)
    await queue.ack([delivery for delivery in held if delivery.id in back])  # stale: of no effect
    clock.advance(AGAIN / 1_000 - 1)
    assert (await queue.maintain())["swept"] == 37
    assert not await counts(queue) or (await counts(queue))["leased"] == 3
    for each in later.values():
        each.undo()
    clock.advance(AGAIN / 1_000)
    await queue.maintain()
    assert len(await ids(queue)) == 40


@forms
async def test_a_claim_full_of_them_is_swept_in_parts(form: str, broker: Any, clock: Clock, raw: Any) -> None:
    """I9: what is left alone is work, too. What stands behind them comes back all the same."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1s")
    await queue.send_many(["x"] * 40)
    held = await queue.claim(40)
    later = [Rewritten(raw, delivery.id, form) for delivery in held[1:30]]
    clock.advance("1s")

    async def sweep() -> int:
        call = upkeep_calls.sweep(queue._core.keys, limit=10, seed=0.5, default_policy=queue._core.policy)
        return int(await queue._run(alone(call)))

    assert [await sweep() for _ in range(5)] == [1, 0, 10, 0, 0]
    assert await counts(queue) == {"ready": 11, "leased": 29}
    assert raw.zcount(f"{HERE}leases", "-inf", clock.now) == 0, "its lease does not go on"
    for each in later:
        each.undo()
    clock.advance(AGAIN / 1_000)
    assert sum([await sweep() for _ in range(3)]) == 29
    assert len(await ids(queue)) == 40


@forms
async def test_its_time_to_live_ends_where_it_is_read(form: str, broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", ttl="1m", delay="2h")
    await queue.send("y", ttl="1m", delay="2h")
    later = Rewritten(raw, "m", form)
    clock.advance("1m")
    assert (await queue.maintain())["expired"] >= 1
    assert await counts(queue) == {"expired": 1, "scheduled": 1}
    later.undo()
    clock.advance(AGAIN / 1_000)
    await queue.maintain()
    assert await counts(queue) == {"expired": 2}


@forms
async def test_who_holds_it_cannot_judge_it(form: str, broker: Any, raw: Any) -> None:
    """A nack has to read it, an ack need not."""
    queue = broker.queue("a", redelivery=AT_ONCE, outcomes=10)
    await queue.send_many(["x", "y"])
    held = await queue.claim(2)
    later = Rewritten(raw, held[0].id, form)
    for settlements in (
        await queue.nack(held[:1]),
        await queue.release(held[:1]),
        await queue.poison(held[:1]),
    ):
        assert [settlement.outcome for settlement in settlements] == ["lost"]
    assert later.now() == later.written
    assert all(await queue.extend(held))
    assert await queue.ack(held)
    assert await counts(queue) == {}
    assert not raw.exists(f"{HERE}leases", f"{HERE}claims", f"{HERE}states")


VERBS: dict[str, tuple[list[str], Any]] = {
    "dead_letter": (["ready", "scheduled"], lambda chosen: chosen.dead_letter()),
    "expire": (["ready", "scheduled"], lambda chosen: chosen.expire()),
    "deliver_now": (["scheduled"], lambda chosen: chosen.deliver_now()),
    "prioritize": (["ready", "scheduled"], lambda chosen: chosen.prioritize(7)),
    "move": (["ready", "scheduled", "dead"], lambda chosen: chosen.move("b")),
    "copy": (["ready", "scheduled", "dead"], lambda chosen: chosen.copy("b")),
    "redrive": (["dead"], lambda chosen: chosen.redrive()),
    "purge": (["ready", "scheduled", "dead"], lambda chosen: chosen.purge()),
}


@each_row_afresh(
    ("verb", "place", "chosen", "form"),
    [
        (verb, place, chosen, form)
        for verb, (places, _) in VERBS.items()
        for place, chosen, form in product(places, ["all", "ids"], LATER)
    ],
)
async def test_an_operators_verb_leaves_it_alone(
    verb: str, place: str, chosen: str, *, form: str, broker: Any, raw: Any
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await broker.queue("b").send("there")
    for name in ("m", "n"):
        await queue.send("x", id=name, delay="1h" if place == "scheduled" else 0)
    if place == "dead":
        await queue.poison(await queue.claim(2))
    later = Rewritten(raw, "m", form)
    source = queue.dlq if place == "dead" else queue
    which = source.select(ids=["m", "n"]) if chosen == "ids" else source.select(all=True)
    assert await VERBS[verb][1](which) == 1
    found = await counts(queue)
    waiting = found[place] if place in found else found["scheduled"]  # of the ready it may be put off
    assert waiting == (2 if verb in {"prioritize", "copy"} else 1)
    later.undo()
    raw.flushall()  # what was put off is not where its state says, which the audit does not know


@each_row_afresh(
    ("verb", "place"),
    [("redrive", "dead"), ("purge", "dead"), ("purge", "scheduled"), ("retire", "dead")],
)
async def test_a_crowd_of_them_stops_no_verb(
    verb: str, place: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """More than a chunk, in front of the others; what died keeps its time."""
    queue = broker.queue("a", expiry={"retention": "1h"}, dead_letter={"expiration": "1h"})
    crowd = [Message(body="x", id=f"l{number:03}") for number in range(260)]
    good = [Message(body="x", id=f"m{number:02}") for number in range(40)]
    for messages in (crowd, good):
        if place == "dead":
            await bury(queue, messages)
        else:
            await queue.send_many(messages, delay="1h")
        clock.advance("1s")
    later = [Rewritten(raw, str(message.id), "state") for message in crowd]
    before = raw.zrange(f"{HERE}{place}", 0, 259, withscores=True)
    if verb == "retire":
        clock.advance("1h")
        assert (await queue.maintain())["retired"] == 40
    elif verb == "redrive":
        assert (await queue.dlq.redrive(all=True)).counts.moved == 40
    else:
        assert await (queue.dlq.purge(all=True) if place == "dead" else queue.purge(all=True)) == 40
    assert raw.zrange(f"{HERE}{place}", 0, -1, withscores=True) == before
    for each in later:
        each.undo()


@forms
async def test_it_is_left_out_of_what_is_looked_at_and_that_is_said(
    form: str, broker: Any, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(["x", "y"])
    await queue.poison(await queue.claim(2), "bad")
    name = raw.hkeys(f"{HERE}messages")[0].decode()
    later = Rewritten(raw, name, form)
    for look in (queue.dlq.browse, queue.dlq.select().browse, broker.queue("DLQ.a").peek):
        caplog.clear()
        assert len(await look()) == 1
        assert "each of 1 messages here needs rq_dlq 1.4 or later: upgrade this program" in caplog.text
    grouped = 2 if form == "record" else 1  # groups look at no record
    assert [group.count for group in await queue.dlq.groups()] == [grouped]
    with pytest.raises(UpgradeRequired, match=rf"message {name} of 'a' needs rq_dlq 1\.4 or later") as caught:
        await queue.explain(name)
    assert caught.value.version == "1.4"
    later.undo()
    assert len(await queue.dlq.browse()) == 2


def test_what_it_says_is_not_guessed() -> None:
    record = b"\0" * 7 + b"\x0f>=1.4 not json"
    message: Received[Any] = Received(MessageRow("m", record, b"", b""), CODEC, "a")
    for name in ("body", "headers", "priority", "expires_at", "data"):
        with pytest.raises(UpgradeRequired):
            getattr(message, name)
    state: Received[Any] = Received(MessageRow("m", b"\0" * 7 + b"\x04x", b">=2 x", b""), CODEC, "a")
    for name in ("part", "delivery_count", "charged", "due", "redelivered"):
        with pytest.raises(UpgradeRequired, match="state of message m"):
            getattr(state, name)
