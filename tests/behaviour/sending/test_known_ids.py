"""What becomes of a message whose id is sent again: `on_duplicate`."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest

from rq_dlq import IndividualDeadLetterStrategy, InvalidInput, KnownId, Message, PerKey, ResultError
from rq_dlq.values.record import BARE, KEY, LENGTH, content_of, pack_field
from tests.audit import audit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import AT_ONCE, STATES, bring_to, bury, counts, ids, one
from tests.behaviour.results.test_results import of
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh
from tests.variants import on_fakeredis

pytestmark = on_fakeredis("records are divided and joined by the Lua")
RECORDS = "rq:{a}:messages"
LONG = "x" * 3_000  # its state has the head of its record (lua/record.lua)
SAID = ["place", "why", "next", "at", "birth"]
OF_THE_MESSAGE = [
    "body", "headers", "priority", "expires_at", "key", "dependency", "enqueued_at", "due", "delivery_count",
    "charged", "nacked", "lapsed", "released", "redriven", "untried", "part", "reason", "history",
]  # fmt: skip
HOW = ["ready", "scheduled", "retried", "released", "redriven", "long", "blocked", "parked"]


def told(sent: Any) -> tuple[bool | None, str | None, str | None]:
    return sent.new, sent.known, sent.did


async def seen(queue: Any, name: str = "m") -> dict[str, Any]:
    """All that `explain` tells of a message."""
    explained = await queue.explain(name)
    message = explained.message
    return {name: getattr(explained, name) for name in SAID} | {
        name: getattr(message, name) for name in OF_THE_MESSAGE
    }


async def waiting(how: str, queue: Any, clock: Clock) -> None:
    """A message `m` that waits, and how."""
    if how == "blocked":
        await queue.send("first", key="k")
    await queue.send(
        LONG if how == "long" else "body", id="m", key="k", dependency="d", headers={"a": "1"}, ttl="1d",
        delay="1h" if how == "scheduled" else None,
    )  # fmt: skip
    if how == "retried":
        await (await one(queue)).nack("boom", delay="10m")
    elif how == "released":
        await (await one(queue)).release()
    elif how == "redriven":
        await (await one(queue)).poison("bad")
        await queue.dlq.redrive(all=True)
    elif how == "parked":
        await queue.dependency("d").pause()
        assert await queue.claim() == []
    clock.advance("1m")


@each_row_afresh("how", HOW)
async def test_replace_changes_body_headers_priority_and_ttl_alone(
    how: str, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a", per_key=PerKey(order=True), breaker=True)
    await waiting(how, queue, clock)
    for body, headers, priority, ttl in (
        ("new", {"b": "2"}, 4, "2h"),
        (LONG, {}, 4, None),
        (b"bytes", {"c": "3"}, 9, None),
        ("short", {}, 0, "3h"),
    ):
        before = await seen(queue)
        sent = await queue.send(
            body, id="m", key="k", dependency="d", headers=headers, priority=priority, ttl=ttl,
            persistent=False, result=True, on_duplicate="replace",
        )  # fmt: skip
        assert told(sent) == (False, before["place"], "replaced")
        assert sent.birth == before["birth"]
        now = await seen(queue)
        assert {name for name in before if before[name] != now[name]} <= {
            "body", "headers", "priority", "expires_at",
        }  # fmt: skip
        assert (now["body"], now["headers"], now["priority"]) == (body, headers, priority)
        ends = now["expires_at"]
        assert (ends and round(ends.timestamp() * 1000)) == (ttl and clock.now + int(ttl[0]) * 3_600_000)
        audit(raw, "a")
    assert (await queue.stats()).totals["sent"] == 1 + (how == "blocked")


async def test_a_replaced_one_is_as_persistent_as_it_was_sent(broker: Any) -> None:
    """And the result is kept of one whose sender asked for it, whatever the later one says."""
    queue = broker.queue("a", dead_letter=IndividualDeadLetterStrategy(process_non_persistent=False))
    for name, persistent in (("m", False), ("n", True)):
        sent = await queue.send("x", id=name, persistent=persistent, result=True)
        await queue.send("y", id=name, persistent=not persistent, on_duplicate="replace")
        await (await one(queue)).poison("bad")
        with pytest.raises(ResultError):
            await of(sent)
    assert [letter.id for letter in await queue.dlq.browse()] == ["n"]


@each_row_afresh("mode", ["replace", "debounce", "redrive", "again"])
async def test_the_fields_of_a_record_stay_and_those_of_the_new_send_do_not_count(
    mode: str, broker: Any, raw: Any
) -> None:
    """Also those that only a later version knows; the headers are not among them."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    delay = "5m" if mode == "debounce" else None
    await queue.send("x", id="m", key="k", headers={"a": "1"}, delay=delay)
    sent = raw.hget(RECORDS, "m")
    fields = sent[BARE + LENGTH : sent.index(b"{")] + pack_field(31, b"later")
    block = fields + content_of(sent).headers
    raw.hset(RECORDS, "m", sent[:BARE] + len(block).to_bytes(LENGTH, "big") + block + content_of(sent).body)
    before = content_of(raw.hget(RECORDS, "m")).fields
    assert before.keys() == {KEY, 31}
    delivery: Any = await one(queue) if mode in {"redrive", "again"} else None
    if mode == "redrive":
        await delivery.poison("bad")
    for body, headers in (("y", {"b": "2"}), (LONG, {}), ("z", {"c": "3"})):
        options = {"on_duplicate": "replace" if mode == "redrive" and body != "y" else mode, "delay": delay}
        replaced = await queue.send(body, id="m", key="k", headers=headers, result=True, **options)
        assert replaced.did is not None
    if mode == "again":
        await delivery.nack("boom")
    found = content_of(raw.hget(RECORDS, "m"))
    assert (found.fields, found.headers, found.body) == (before, b'{"c":"3"}', b'"z"')
    audit(raw, "a")


@each_row_afresh(("mode", "body"), itertools.product(["replace", "debounce", "redrive"], ["new", LONG]))
async def test_who_asks_for_the_result_gets_it(mode: str, body: str, broker: Any, clock: Clock) -> None:
    """Of a message that was sent without; its gather learns of its end, too."""
    queue, reports = broker.queue("a"), broker.queue("a2")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(queue, "body", id="m", delay="1h", result=False)
    if mode == "redrive":
        await queue.select(all=True).dead_letter()
    sent = await queue.send(
        body, id="m", result=True, on_duplicate=mode, delay="1m" if mode == "debounce" else None
    )
    assert sent.did
    clock.advance("1h")
    assert (await (await one(queue)).ack(result="done")).gathered == (mode != "redrive")
    assert await queue.result(sent) == "done"
    assert (await one(reports)).body == "then"


async def test_replaced_ones_keep_their_order(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many([Message(n, id=f"m{n}") for n in range(5)])
    sent = await queue.send_many(
        [
            Message("new", id="m1"),
            Message("new", id="m3", priority=9),
            Message("new", id="n"),
            Message("newer", id="n"),
        ],
        on_duplicate="replace",
    )
    assert [told(one) for one in sent] == [
        (False, "ready", "replaced"), (False, "ready", "replaced"), (True, None, None),
        (False, "ready", "replaced"),
    ]  # fmt: skip
    assert [(d.id, d.body) for d in await queue.claim(9)] == [
        ("m3", "new"), ("m0", 0), ("m1", "new"), ("m2", 2), ("m4", 4), ("n", "newer"),
    ]  # fmt: skip


@each_row_afresh("mode", ["replace", "debounce", "redrive", "again"])
async def test_another_key_is_refused(mode: str, broker: Any) -> None:
    """So is another dependency; and nothing is said where nothing would be done."""
    queue = broker.queue("a")
    options = {"delay": "1m"} if mode == "debounce" else {}
    await queue.send("x", id="m", key="k", dependency="d", **options)
    if mode in {"redrive", "again"}:
        delivery = await one(queue)
        if mode == "redrive":
            await delivery.poison("bad")
    for key, dependency in (("other", "d"), ("k", "other"), (None, "d"), ("k", None)):
        before = await seen(queue)
        with pytest.raises(KnownId, match="another key or dependency") as raised:
            await queue.send("y", id="m", key=key, dependency=dependency, on_duplicate=mode, **options)
        assert [*raised.value.ids] == ["m"]
        assert await seen(queue) == before
    sent = await queue.send("y", id="m", key="k", dependency="d", on_duplicate=mode, **options)
    assert sent.did is not None
    assert (await queue.send("y", id="n", on_duplicate=mode, **options)).new


@each_row_afresh("state", [*STATES, "acked"])
async def test_what_each_does_to_a_message_in_each_state(state: str, broker: Any, clock: Clock) -> None:
    does = {
        "replace": {"ready": "replaced", "scheduled": "replaced"},
        "debounce": {"ready": "replaced", "scheduled": "postponed"},
        "redrive": {"dead": "redriven", "expired": "redriven"},
        "again": {"leased": "again"},
    }
    for mode, words in does.items():
        queue = broker.queue(mode, dedup_window="1h")
        if state == "acked":
            await queue.send("x", id="m")
            await (await one(queue)).ack()
        else:
            await bring_to(state, queue, clock)
        before = state != "acked" and await seen(queue)
        sent = await queue.send("new", id="m", on_duplicate=mode, delay="1s" if mode == "debounce" else None)
        assert told(sent) == (False, state, words.get(state))
        if state not in words and before:
            assert await seen(queue) == before
        totals = (await queue.stats()).totals
        assert totals.get("known", 0) == (state == "dead" and mode != "redrive")


async def test_in_work_nothing_is_replaced_also_if_it_comes_back(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    delivery = await one(queue)
    assert told(await queue.send("y", id="m", on_duplicate="replace")) == (False, "leased", None)
    await delivery.release()
    assert (await one(queue)).body == "x"


async def test_a_debounced_one_waits_anew_until_max_delay(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for n in range(8):
        sent = await queue.send(n, id="m", delay="1m", max_delay="5m", on_duplicate="debounce")
        assert told(sent) == ((True, None, None) if n == 0 else (False, "scheduled", "postponed"))
        assert await queue.claim() == []
        clock.advance("40s")
    # The last was after 4m40s, so it would wait until 5m40s.
    clock.set(clock.now - 21_000)
    assert await queue.claim() == []
    clock.advance("1s")
    assert [(d.id, d.body) for d in await queue.claim()] == [("m", 7)]


async def test_what_was_handed_out_or_is_due_does_not_wait_anew(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", delay="1m")
    clock.advance("1m")  # it is due, and stands in `scheduled` still
    sent = await queue.send("y", id="m", delay="1m", on_duplicate="debounce")
    assert told(sent) == (False, "scheduled", "replaced")
    delivery = await one(queue)
    assert delivery.body == "y"
    await delivery.nack("boom", delay="10m")
    before = await seen(queue)
    sent = await queue.send("z", id="m", delay="1m", on_duplicate="debounce")
    assert told(sent) == (False, "scheduled", "replaced")
    assert (await seen(queue))["due"] == before["due"]


async def test_a_debounce_that_is_shorter_is_due_sooner(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", delay="10m")
    await queue.send("y", id="m", delay="1s", on_duplicate="debounce")
    clock.advance("1s")
    assert (await one(queue)).body == "y"


@each_row_afresh("part", ["dead", "expired"])
async def test_a_dead_one_comes_back_with_the_new_body(
    part: str, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a")
    await bring_to(part, queue, clock)
    sent = await queue.send(
        LONG, id="m", headers={"b": "2"}, priority=7, ttl="1h", delay="10s", on_duplicate="redrive"
    )
    assert told(sent) == (False, part, "redriven")
    now = await seen(queue)
    assert (now["place"], now["redriven"], now["charged"]) == ("scheduled", 1, 0)
    assert now["why"] == "it was redriven, with a fresh budget"
    audit(raw, "a")
    clock.advance("10s")
    delivery = await one(queue)
    assert (delivery.body, delivery.headers, delivery.priority) == (LONG, {"b": "2"}, 7)
    assert round(delivery.expires_at.timestamp() * 1000) == clock.now - 10_000 + 3_600_000
    assert (await queue.stats()).totals["redriven"] == 1


async def test_a_dead_letter_that_a_consumer_has_is_left(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, [Message("x", id="m")])
    letter = await one(broker.queue("DLQ.a"))
    for mode in ("redrive", "again", "replace"):
        assert told(await queue.send("y", id="m", on_duplicate=mode)) == (False, "leased", None)
    await letter.ack()


@each_row_afresh("mode", ["replace", "debounce", "redrive", "again"])
async def test_a_repeated_call_answers_as_the_first_and_changes_nothing(
    mode: str, broker: Any, clock: Clock
) -> None:
    """Although others have sent again in the meantime, the reply that was lost is the one that is told."""
    queue = broker.queue("a")
    state = {"replace": "ready", "debounce": "scheduled", "redrive": "dead", "again": "leased"}[mode]
    await bring_to(state, queue, clock)
    options = {"on_duplicate": mode} | ({"delay": "1m"} if mode == "debounce" else {})
    lost = await lose_replies(broker, "resend")
    sent = await queue.send("new", id="m", **options)
    assert (sent.known, sent.did is not None, lost.runs) == (state, True, 2)
    lost = await lose_replies(broker, "resend")
    sent = await queue.send("new", id="n", **options)
    assert (sent.new, sent.birth, lost.runs) == (True, (await queue.explain("n")).birth, 2)


async def test_a_known_id_is_an_error_with_raise(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    queue = broker.queue("a")
    await bury(queue, [Message(0, id="m")])
    with pytest.raises(KnownId), caplog.at_level(logging.WARNING):
        await queue.send(1, id="m", on_duplicate="raise")
    assert not caplog.records


async def test_each_message_may_say_it(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, [Message(0, id="dead")])
    await queue.send_many([Message(0, id="old"), Message(0, id="kept")])
    sent = await queue.send_many(
        [
            Message(1, id="old", on_duplicate="replace"),
            Message(1, id="kept"),
            Message(1, id="dead", on_duplicate="redrive"),
            Message(1, id="late", on_duplicate="debounce", delay="1m"),
        ]
    )
    assert [one.did for one in sent] == ["replaced", None, "redriven", None]
    assert await counts(queue) == {"ready": 3, "scheduled": 1}
    assert sorted([(d.id, d.body) for d in await queue.claim(9)]) == [("dead", 1), ("kept", 0), ("old", 1)]


async def test_a_queue_that_was_deleted_is_opened_again(broker: Any) -> None:
    queue, other = broker.queue("a"), broker.queue("a")
    await queue.send("x", id="m")
    await other.delete(force=True)
    assert (await queue.send("y", id="m", on_duplicate="replace")).new
    assert await ids(queue) == ["m"]


@each_row(
    "options, says",
    [
        ({"on_duplicate": "ignore"}, "use one of drop, raise, replace"),
        ({"on_duplicate": "debounce"}, "pass delay="),
        ({"on_duplicate": "debounce", "delay": "1h"}, "longer than max_delay=.10m"),
        ({"on_duplicate": "debounce", "delay": "1m", "max_delay": "59s"}, "longer than max_delay=.59s"),
        ({"on_duplicate": "replace", "max_delay": "1m"}, "max_delay is for"),
        ({"max_delay": "1m"}, "max_delay is for"),
        ({"on_duplicate": "replace", "id": None}, "pass id="),
    ],
)
async def test_wrong_options_are_refused(options: dict[str, Any], says: str, broker: Any) -> None:
    queue = broker.queue("a")
    with pytest.raises(InvalidInput, match=says):
        await queue.send("x", **{"id": "m", **options})
    with pytest.raises(InvalidInput, match=says):
        await queue.send_many([Message("x", **{"id": "m", **options})])
    assert await counts(queue) == {}


async def test_a_transaction_refuses_it(broker: Any) -> None:
    """A session and an ack that sends decide at their commit; a gather has its children by their ids."""
    queue = broker.queue("a")

    @broker.task(queue="t")
    async def work(n: int) -> None:
        del n

    async with queue.session() as session:
        with pytest.raises(TypeError, match="drops known ids"):
            await session.send(queue, "x", id="m", on_duplicate="replace")
    await queue.send("x")
    delivery = await one(queue)
    with pytest.raises(InvalidInput, match="an ack that sends"):
        await delivery.ack(send=[(work.options(id="m", on_duplicate="replace"), (7,))])
    async with broker.gather(then=(queue, "then")) as gather:
        with pytest.raises(InvalidInput, match="a gather"):
            await gather.options(work.options(id="m", on_duplicate="replace")).send(7)
        await gather.cancel()
