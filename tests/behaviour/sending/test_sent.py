"""What a send returns: an id that knows whether its message is new, and where the known one is."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Message, PerKey, RedeliveryPolicy, Sent
from rq_dlq.core.queues.blocked import MOST
from rq_dlq.telemetry.json_logs import JSONFormatter
from tests.behaviour.faults import acked, lose_replies, meanwhile
from tests.behaviour.helpers import STATES, bring_to, bury, ids, one
from tests.conftest import Clock
from tests.format.test_later import LATER
from tests.tables import each_row_afresh

WARNED = "a: nothing was sent, since a dead letter has the id: "


def told(sent: Sent) -> tuple[bool | None, str | None]:
    return sent.new, sent.known


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of ids that dead letters have."""
    return [record.message for record in caplog.records if WARNED in record.message]


async def test_a_new_message(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", id="m")
    assert (sent, told(sent)) == ("m", (True, None))
    assert isinstance(sent, Sent)
    assert [told(sent) for sent in await queue.send_many(range(3))] == [(True, None)] * 3


@each_row_afresh("state", [*STATES, "acked"])
async def test_where_the_known_message_is(state: str, broker: Any, clock: Clock) -> None:
    """Also that of a message that is scheduled no more since it is due."""
    queue = broker.queue("a", dedup_window="1h")
    if state == "acked":
        await queue.send("x", id="m")
        await (await one(queue)).ack()
    else:
        await bring_to(state, queue, clock)
    sent = await queue.send("other", id="m", delay="1s")
    assert (sent, told(sent)) == ("m", (False, state))
    if state == "scheduled":
        clock.advance("1h")
        await queue.maintain()
        assert (await queue.send("other", id="m")).known == "ready"


async def test_a_batch_says_it_of_each(broker: Any, clock: Clock) -> None:
    """Over several scripts, and of an id that is there twice, also where its message waits for its key."""
    queue = broker.queue("a")
    await bring_to("dead", queue, clock, "dead")
    await queue.send_many([Message(body=0, id="600"), Message(body=0, id="3")], delay="1h")
    batch = [Message(body=1, id=str(n)) for n in range(700)]
    batch += [Message(body=1, id="dead"), Message(body=1, id="5")]
    sent = await queue.send_many(batch)
    assert sent == [message.id for message in batch]
    assert {n: one.known for n, one in enumerate(sent) if not one.new} == {
        3: "scheduled", 600: "scheduled", 700: "dead", 701: "ready",
    }  # fmt: skip
    twice = await queue.send_many([Message(body=1, id="late")] * 2, delay="1h")
    assert [told(one) for one in twice] == [(True, None), (False, "scheduled")]
    ordered = broker.queue("o", per_key=PerKey(order=True))
    thrice = await ordered.send_many(
        [Message(body=1, id=name, key="k") for name in ("first", "next", "next")]
    )
    assert told(thrice[2]) == (False, "scheduled")


async def test_a_repeated_call_answers_as_the_first(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    """Though the message was delivered meanwhile."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    lost = await lose_replies(broker, "send")
    meanwhile(lost, lambda: acked(sync_broker.queue("a")))
    assert told(await queue.send("again", id="m")) == (False, "ready")
    lost.left = 1
    assert told(await queue.send("new", id="m")) == (True, None)
    assert lost.runs == 4


async def test_a_dead_letter_that_blocks_its_id_is_told(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A send under its id sends nothing; it is warned of once for each id, and counted."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0))
    await queue.send({"user": 42}, id="sync-user-42")
    await (await one(queue)).nack(ValueError("no such user"))
    sent = [await queue.send({"user": 42}, id="sync-user-42") for _ in range(3)]
    assert [told(one) for one in sent] == [(False, "dead")] * 3
    stats = await queue.stats()
    assert (stats.ready, stats.dead, stats.totals["sent"], stats.totals["known"]) == (0, 1, 1, 3)
    (warning,) = warnings(caplog)
    assert "rq-dlq dlq redrive a --id ID" in warning
    assert "sync-user-42" in warning
    await queue.send_many([Message(body=1, id="sync-user-42"), Message(body=1, id="n")])
    assert len(warnings(caplog)) == 1
    await queue.dlq.redrive(ids=["sync-user-42"])
    assert told(await queue.send(1, id="sync-user-42")) == (False, "ready")
    assert (await queue.stats()).totals["known"] == 4


async def test_many_blocked_ids_are_one_warning(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The last thousand are remembered."""
    queue = broker.queue("a")
    names = [f"m{n}" for n in range(MOST + 1)]
    await bury(queue, [Message(body=0, id=name) for name in names[:500]])
    await bury(queue, [Message(body=0, id=name) for name in names[500:]])
    await queue.send_many([Message(body=1, id=name) for name in names[:MOST]])
    (warning,) = warnings(caplog)
    assert "m0, m1, m2, m3, m4 and 995 more" in warning
    await queue.send(1, id=names[0])
    assert len(warnings(caplog)) == 1
    await queue.send(1, id=names[MOST])  # now the first is forgotten
    await queue.send(1, id=names[0])
    assert len(warnings(caplog)) == 3


async def test_who_wants_a_new_one_is_told_by_the_error(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("a")
    await bury(queue, [Message(body=0, id="m")])
    with pytest.raises(rq_dlq.KnownId):
        await queue.send(1, id="m", on_duplicate="raise")
    assert not warnings(caplog)
    assert (await queue.stats()).totals["known"] == 1


async def test_a_task_says_it(broker: Any) -> None:
    async def mail(user: int) -> None: ...

    task = broker.task(queue="a")(mail)
    first = await task.options(id="m").send(7)
    again = await task.options(id="m").send(7)
    assert (told(first), told(again)) == ((True, None), (False, "ready"))


async def test_a_session_does_not_know_yet(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its commit warns of what a dead letter blocks, also where its reply is lost."""
    queue, other = broker.queue("a"), broker.queue("b")
    await bury(queue, [Message(body=0, id="m"), Message(body=0, id="n")])
    await other.send("x")
    async with other.session() as session:
        await session.claim()
        sent = [await session.send(queue, 1, id=name) for name in ("new", "m")]
    assert [told(one) for one in sent] == [(None, None)] * 2
    (warning,) = warnings(caplog)
    assert "m" in warning
    await lose_replies(broker, "commit")
    async with other.session() as session:
        await session.send(other, 1, id="o")
        await session.send(queue, 1, id="n")
    assert "id: n." in warnings(caplog)[1]
    assert (await queue.stats()).totals["known"] == 2


@each_row_afresh("form", LATER)
async def test_of_a_later_form_only_its_holder_is_known(form: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("x", id="m", delay="1h")
    record, state = raw.hget("rq:{a}:messages", "m"), raw.hget("rq:{a}:states", "m")
    later, stated = LATER[form](record, state)
    raw.hset("rq:{a}:messages", "m", later)
    raw.hset("rq:{a}:states", "m", stated or state)
    assert told(await queue.send("x", id=sent)) == (False, None)
    raw.hset("rq:{a}:messages", "m", record)
    raw.hset("rq:{a}:states", "m", state)


async def test_it_is_written_as_plain_text(broker: Any) -> None:
    queue = broker.queue("a", dedup_window="1h")
    await queue.send("x", id="m")
    for sent in (await queue.send("x", id="m"), await queue.send("x", id="n")):
        loaded = pickle.loads(pickle.dumps(sent))  # noqa: S301 - our own
        assert (type(loaded), loaded, f"{sent}", repr(sent)) == (str, sent, str(sent), repr(str(sent)))
        assert json.dumps({"id": sent}) == json.dumps({"id": str(sent)})
        record = logging.LogRecord("x", logging.INFO, "x.py", 1, "sent %s", (sent,), None)
        record.order = sent
        line = json.loads(JSONFormatter().format(record))
        assert (line["message"], line["order"]) == (f"sent {sent}", sent)
        with pytest.raises(AttributeError):
            sent.new = True
        with pytest.raises(AttributeError):
            sent.other = True
    await queue.purge(all=True)
    await queue.send({"of": sent, "all": [sent], sent: 1}, headers={"parent": sent})
    delivery = await one(queue)
    assert (delivery.body, delivery.headers) == ({"of": "n", "all": ["n"], "n": 1}, {"parent": "n"})


async def test_an_id_is_new_once_its_job_was_done(broker: Any, clock: Clock) -> None:
    """Nothing of the old message is taken over."""
    queue = broker.queue("a", redelivery=RedeliveryPolicy(initial_delay="1ms", max_redeliveries=5))
    await queue.send(1, id="x")
    for number in range(3):
        clock.advance("1s")
        delivery = await one(queue)
        await (delivery.nack("no") if number < 2 else delivery.ack())
    assert (await queue.send(2, id="x")).new
    delivery = await one(queue)
    assert (delivery.body, delivery.delivery_count, list(delivery.history)) == (2, 1, [])
    assert await ids(queue) == []


async def test_another_key_than_the_known_one_is_warned_of(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Once an id; the answer is the same, and the message keeps its key."""
    queue = broker.queue("a", per_key="order")
    await queue.send("x", id="m", key="customer-7")
    await queue.send("y" * 3_000, id="long", key="customer-7")
    await queue.send("z", id="none")
    assert told(await queue.send("x", id="m", key="customer-7")) == (False, "ready")
    assert told(await queue.send("z", id="none", headers={"a": "b"})) == (False, "ready")
    assert caplog.records == []
    assert told(await queue.send("x", id="m", key="customer-8")) == (False, "ready")
    sent = [Message("x", id="m", key="customer-9"), Message("y", id="long"), Message("z", id="none", key="k")]
    assert [told(one) for one in await queue.send_many(sent)] == [
        (False, "ready"),
        (False, "scheduled"),
        (False, "ready"),
    ]
    said = [record.message for record in caplog.records]
    assert [text.split(": ")[2].split(".")[0] for text in said] == ["m", "long, none"]
    assert all("messages with these ids have another key" in text for text in said)
    (m, none) = await queue.claim(9)
    assert (m.key, none.key) == ("customer-7", None)
    async with queue.session() as session:
        await queue.send("s", id="s", key="customer-7")
        await session.send(queue, "s", id="s", key="customer-8")
    assert caplog.records[-1].message.startswith(
        "a: nothing was sent, since messages with these ids have another key"
    )
