"""`on_duplicate="again"`: one more run of a message after the one in work, with the newest body."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import (
    IndividualDeadLetterStrategy,
    LeaseLost,
    Message,
    PerKey,
    QueueFull,
    RedeliveryPolicy,
    ResultError,
    ResultUnavailable,
)
from rq_dlq.core.batches import batches
from tests.audit import audit
from tests.behaviour.faults import lose_replies, meanwhile
from tests.behaviour.helpers import AT_ONCE, counts, ids, one
from tests.behaviour.results.test_results import of
from tests.behaviour.sending.test_known_ids import LONG, told
from tests.conftest import Clock
from tests.tables import each_row_afresh
from tests.variants import on_fakeredis

pytestmark = on_fakeredis("what an ack puts back is made by the Lua")
KEY = "rq:{a}:again"


async def ask(queue: Any, body: Any, **options: Any) -> Any:
    sent = await queue.send(body, id="m", on_duplicate="again", **options)
    assert told(sent) == (False, "leased", "again")
    assert sent.birth is None
    return sent


async def begun(queue: Any, body: Any = "first", **options: Any) -> Any:
    """A message in work."""
    await queue.send(body, id="m", **options)
    return await one(queue)


@each_row_afresh("body", ["short", LONG])
async def test_one_more_run_has_the_newest_body_however_many_asked(
    body: str, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await (await begun(queue, headers={"a": "1"})).nack("boom")  # the run has a history of its own
    delivery = await one(queue)
    before = (await queue.explain("m")).birth
    for n in range(5):
        clock.advance("1s")
        await ask(queue, f"{body}{n}", headers={"n": str(n)}, priority=n, ttl="1h")
        assert "one more run follows its ack" in (await queue.explain("m")).why
        audit(raw, "a")
    assert await counts(queue) == {"leased": 1}
    assert bool(await delivery.ack())
    audit(raw, "a")
    assert raw.exists(KEY) == 0
    run = await one(queue)
    assert (run.body, run.headers, run.priority) == (f"{body}4", {"n": "4"}, 4)
    assert (run.delivery_count, run.redelivered, run.history) == (1, False, ())
    assert round(run.expires_at.timestamp() * 1000) == clock.now + 3_600_000
    assert (await queue.explain("m")).birth > before
    assert bool(await run.ack())
    assert await counts(queue) == {}
    totals = (await queue.stats()).totals
    assert (totals["sent"], totals["acked"], totals["again"]) == (2, 2, 1)


async def test_a_waiting_one_needs_no_more(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m")
    assert told(await queue.send("y", id="m", on_duplicate="again")) == (False, "ready", None)
    assert [d.body for d in await queue.claim(9)] == ["x"]


@each_row_afresh("how", ["nack", "lapse", "release", "pass on", "release late"])
async def test_a_run_that_is_not_acked_is_tried_with_the_newest_body(
    how: str, broker: Any, raw: Any, clock: Clock
) -> None:
    """That attempt is the run that was asked for; counts and history go on."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    delivery = await begun(queue, ttl="2s")
    await ask(queue, "second", ttl="1d", headers={"n": "2"}, priority=7, result=True)
    clock.advance("3s")  # the time to live of the first has ended, and that of the newest counts
    if how == "nack":
        await delivery.nack("boom")
    elif how == "lapse":
        clock.advance("1h")
        await queue.maintain()
    elif how == "release late":
        await delivery.release(delay="1m")
        clock.advance("1m")
    else:
        await delivery.release()
    audit(raw, "a")
    assert raw.exists(KEY) == 0
    retry = await one(queue)
    assert (retry.body, retry.headers, retry.priority) == ("second", {"n": "2"}, 7)
    assert (retry.delivery_count, retry.nacked, retry.lapsed) == (2, how == "nack", how == "lapse")
    await retry.ack(result="done")
    assert await queue.result("m") == "done"
    assert await counts(queue) == {}


async def test_a_run_of_a_redriven_message_has_its_own_time_to_live(broker: Any, clock: Clock) -> None:
    """A redrive has ended that of the first; an attempt that fails becomes the run."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    await (await begun(queue, ttl="1h")).poison("boom")
    await queue.dlq.redrive(all=True)
    delivery = await one(queue)
    await ask(queue, "second", ttl="1d")
    await delivery.nack("boom")
    retry = await one(queue)
    assert (retry.body, round(retry.expires_at.timestamp() * 1000)) == ("second", clock.now + 86_400_000)


@each_row_afresh("how", ["poison", "spent", "discard"])
async def test_a_run_that_dies_leaves_a_letter_with_the_newest_body(how: str, broker: Any, raw: Any) -> None:
    options = {"dead_letter": IndividualDeadLetterStrategy(process_non_persistent=False)}
    queue = broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0), **options)
    delivery = await begun(queue, persistent=how != "discard")
    await ask(queue, "second")
    await (delivery.nack("boom") if how == "spent" else delivery.poison("bad"))
    audit(raw, "a")
    assert raw.exists(KEY) == 0
    if how == "discard":
        assert await counts(queue) == {}
        return
    (letter,) = await queue.dlq.browse()
    assert letter.body == "second"
    assert told(await queue.send("third", id="m", on_duplicate="again")) == (False, "dead", None)


async def test_it_is_gone_with_its_message(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await begun(queue)
    await ask(queue, "second")
    assert await queue.cancel("m") == "cancelled"
    assert raw.exists(KEY) == 0
    audit(raw, "a")
    assert await counts(queue) == {}


async def test_a_delay_counts_from_its_send(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    delivery = await begun(queue)
    await ask(queue, "second", delay="1m")
    clock.advance("20s")
    await delivery.ack()
    assert await counts(queue) == {"scheduled": 1}
    clock.advance("39s")
    assert await queue.claim() == []
    clock.advance("1s")
    assert (await one(queue)).body == "second"


async def test_each_run_has_its_own_result(broker: Any) -> None:
    """Who asked for the second waits for that one; the first is there until the second ends."""
    queue = broker.queue("a")
    first = await queue.send("first", id="m", result=True)
    delivery = await one(queue)
    second = await ask(queue, "second", result=True)
    await delivery.ack(result=1)
    assert await of(first) == 1
    with pytest.raises(ResultUnavailable):
        await of(second)
    run = await one(queue)
    await ask(queue, "third")
    await run.ack(result=2)
    with pytest.raises(ResultUnavailable):
        await queue.result("m")
    assert await ids(queue) == ["m"]


async def test_a_lost_reply_of_the_ack_is_told_as_the_first(broker: Any, sync_broker: Any) -> None:
    """Even if the run that it put back is in work by then, and was asked for again."""
    queue, others = broker.queue("a"), sync_broker.queue("a")
    delivery = await begun(queue)
    await ask(queue, "second")
    runs: list[Any] = []

    def go_on() -> None:
        if runs:
            return
        runs.extend(others.claim())
        others.send("third", id="m", on_duplicate="again")

    lost = await lose_replies(broker, "ack")
    meanwhile(lost, go_on)
    assert bool(await delivery.ack())
    assert lost.runs == 2
    (run,) = runs
    assert run.body == "second"
    run.ack()
    assert (await one(queue)).body == "third"
    with pytest.raises(LeaseLost):
        await delivery.ack()


@each_row_afresh("way", ["ack", "many", "session", "chain", "batch", "dead letter"])
async def test_every_ack_puts_it_back(way: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a", dedup_window="1h", outcomes=100)
    await queue.send_many([Message("first", id="m"), Message("other", id="n")])
    if way == "session":
        async with queue.session() as session:
            await session.claim(2)
            await ask(queue, "second")
            await session.send(queue, "sent", id="sent")
    elif way == "batch":
        claim = batches.claim_batch(queue._core, "batch", limit=9, lease=60_000)
        tokens = (await broker._run(claim)).tokens
        await ask(queue, "second")
        await broker._run(batches.ack_batch(queue._core.keys, tokens))
    else:
        held = await queue.claim(2)
        await ask(queue, "second")
        if way == "ack":
            for one_held in held:
                await one_held.ack()
        elif way == "chain":
            await held[1].ack()
            await held[0].ack(send=[(queue, Message("sent", id="sent"))])
        else:
            assert all(await queue.ack(held))
    audit(raw, "a")
    found = {d.id: d.body for d in await queue.claim(9)}
    assert found == {"m": "second"} | ({"sent": "sent"} if way in {"session", "chain"} else {})


@each_row_afresh("rule", [PerKey(order=True), PerKey(limit=1), PerKey(fair=1)])
async def test_the_others_of_its_key_come_first(rule: Any, broker: Any, raw: Any) -> None:
    queue = broker.queue("a", per_key=rule)
    delivery = await begun(queue, key="k")
    await queue.send_many([Message(n, id=f"n{n}", key="k") for n in range(2)])
    await ask(queue, "second", key="k")
    await delivery.ack()
    audit(raw, "a")
    order = []
    while held := await queue.claim(1):
        order.append((held[0].id, held[0].body))
        await held[0].ack()
        audit(raw, "a")
    assert order == [("n0", 0), ("n1", 1), ("m", "second")]


async def test_a_dependency_that_is_down_parks_it(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", breaker=True)
    delivery = await begun(queue, dependency="d")
    await ask(queue, "second", dependency="d")
    await queue.dependency("d").pause()
    await delivery.ack()
    assert await queue.claim() == []
    audit(raw, "a")
    await queue.dependency("d").resume()
    assert (await one(queue)).body == "second"


async def test_a_child_of_a_gather_ends_with_its_first_run(broker: Any, raw: Any) -> None:
    queue, reports = broker.queue("a"), broker.queue("a2")
    async with broker.gather(then=(queue, "then")) as gather:
        await gather.send(queue, "first", id="m")
        delivery = await one(queue)
        await ask(queue, "second")
    await delivery.ack(result="done")
    await queue.maintain()
    audit(raw, "a")
    found = {d.body: d for d in await queue.claim(9)}
    assert found.keys() == {"then", "second"}
    gathered = await found["then"].gathered
    assert (gathered["m"].end, gathered["m"].value) == ("acked", "done")
    del reports


async def test_a_child_whose_run_asks_for_a_result_ends_for_its_gather(broker: Any) -> None:
    """The order of the fields in its state has no meaning."""
    queue, reports = broker.queue("a", redelivery=AT_ONCE), broker.queue("a2")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(queue, "first", id="m", result=False)
    delivery = await one(queue)
    await ask(queue, "second", result=True)
    await delivery.nack("boom")
    assert (await (await one(queue)).ack(result="done")).gathered
    assert (await one(reports)).body == "then"


async def test_a_unique_id_whose_run_asks_for_a_result_stays_known(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE, results="1m")

    @broker.task(queue="a", unique=True, unique_for="1h")
    async def work() -> None: ...

    await work.send()
    delivery = await one(queue)
    await work.options(on_duplicate="again", result=True).send()
    await delivery.nack("boom")
    await (await one(queue)).ack()
    clock.advance("30m")
    assert (await work.send()).known == "acked"
    clock.advance("31m")
    assert (await work.send()).new


async def test_it_counts_for_max_length_when_it_is_put_back(broker: Any) -> None:
    queue = broker.queue("a", max_length=1)
    delivery = await begun(queue)
    await ask(queue, "second")
    await delivery.ack()
    assert (await queue.stats()).ready == 1
    with pytest.raises(Exception, match="full"):
        await queue.send("x")


async def test_a_commit_that_acks_it_makes_no_room(broker: Any, clock: Clock) -> None:
    """It stays, so what the session sends would be one too many; the ack of another message makes room."""
    queue = broker.queue("a", max_length=2)
    await queue.send("first", id="m")
    session = queue.session()
    await session.claim()
    await ask(queue, "second")
    await queue.send("x")
    await session.send(queue, "y")
    with pytest.raises(QueueFull):
        await session.commit()
    await session.rollback()
    clock.advance("1m")
    async with queue.session() as session:
        assert len(await session.claim(2)) == 2
        await ask(queue, "third")
        await session.send(queue, "y")
    assert await counts(queue) == {"ready": 2}


async def test_the_error_of_a_run_is_a_result(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send("first", id="m", result=True)
    delivery = await one(queue)
    await ask(queue, "second")
    await delivery.poison("bad")
    with pytest.raises(ResultError):
        await of(sent)


async def test_other_ids_of_one_ack_are_removed(broker: Any, raw: Any) -> None:
    queue = broker.queue("a", results="1h")
    await queue.send_many([Message(n, id=f"m{n}") for n in range(6)])
    held = await queue.claim(9)
    for n in (1, 4):
        await queue.send("again", id=f"m{n}", on_duplicate="again")
    assert all(await queue.ack(held))
    audit(raw, "a")
    assert sorted(await ids(queue)) == ["m1", "m4"]
