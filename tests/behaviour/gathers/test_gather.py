"""Gathers: a message that is delivered when all of others have ended, whatever ends them, once."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from rq_dlq import (
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    InvalidInput,
    KnownId,
    Message,
    RedeliveryPolicy,
    ResultUnavailable,
)
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.acl import acl_line
from rq_dlq._redis.roles import ROLES
from rq_dlq.core.gathers.calls import CARRIED
from tests.behaviour.faults import change_talk, lose_calls, lose_replies
from tests.behaviour.helpers import AT_ONCE, one
from tests.conftest import Clock
from tests.servers import Server
from tests.tables import each_row_afresh
from tests.variants import both_colours, on_fakeredis

pytestmark = [both_colours("its verbs are new in both"), on_fakeredis("its rows are read by plain commands")]

ONCE = RedeliveryPolicy(max_redeliveries=0)
KEYS = ("rq:{render}:gathers", "rq:{reports}:gathers", "rq:{mail}:gathers")


def ends(children: Any) -> dict[str, Any]:
    return {name: child.end for name, child in children.items()}


async def gathered(queue: Any) -> dict[str, Any]:
    """Claim `then`, read what it has gathered, and ack it: nothing of the gather is left."""
    (then,) = await queue.claim()
    children = await then.gathered
    await then.ack()
    assert not await queue.claim()
    return dict(children)


async def test_then_is_due_when_all_children_have_ended(broker: Any, raw: Any) -> None:
    render, mail, reports = (broker.queue(name) for name in ("render", "mail", "reports"))
    async with broker.gather(then=(reports, {"id": 7}), within="1d") as gather:
        for page in range(3):
            await gather.send(render, {"page": page}, id=f"page-{page}")
        await gather.send(mail, "hello", id="mail", result=False)
        assert (await broker.gathers())[0].state == "open"
    (status,) = await broker.gathers(queue="reports")
    assert (status.id, status.queue, status.state) == (gather.id, "reports", "closed")
    assert (status.children, status.open, "page-0" in status.oldest) == (4, 4, True)
    for delivery in await render.claim(3):
        await delivery.ack(result=delivery.body["page"] * 10)
    assert not await reports.claim()
    (last,) = await mail.claim()
    assert (await last.ack(result="ignored")).gathered
    (then,) = await reports.claim()
    assert (then.id, then.body) == (gather.id, {"id": 7})
    children = await then.gathered
    found = {name: (child.queue, child.end, child.value, child.dropped) for name, child in children.items()}
    assert found == {
        "mail": ("mail", "acked", None, False),
        "page-0": ("render", "acked", 0, False),
        "page-1": ("render", "acked", 10, False),
        "page-2": ("render", "acked", 20, False),
    }
    await then.ack()
    assert not raw.exists(*KEYS)
    with pytest.raises(ResultUnavailable):
        await mail.result("mail")  # it was sent without


async def _poison(queue: Any) -> None:
    await (await queue.claim())[0].poison("bad")


async def _fail(queue: Any) -> None:
    await (await queue.claim())[0].nack("boom")


async def _retire(queue: Any, clock: Clock) -> None:
    await _poison(queue)
    clock.advance("2h")
    await queue.maintain()


async def _acked(queue: Any) -> None:
    await (await queue.claim())[0].ack()


async def _lapse(queue: Any, clock: Clock) -> None:
    for _ in range(2):
        await queue.claim(lease="1s")
        clock.advance("1m")
    await queue.maintain()


async def _expire(queue: Any, clock: Clock) -> None:
    clock.advance("31m")
    await queue.maintain()


async def _cancel_leased(queue: Any) -> None:
    await queue.claim()
    await queue.cancel("child")


async def _in_session(queue: Any) -> None:
    async with queue.session() as session:
        await session.claim()


async def _move(queue: Any) -> None:
    await queue.select(all=True).move(queue._broker.queue("other"), create=True)


ENDS: dict[str, tuple[str, Callable[[Any, Any], Awaitable[object]]]] = {
    "acked": ("acked", lambda queue, _: _acked(queue)),
    "poison": ("dead", lambda queue, _: _poison(queue)),
    "policy": ("dead", lambda queue, _: _fail(queue)),
    "lapse": ("dead", _lapse),
    "expired": ("expired", _expire),
    "expired by hand": ("expired", lambda queue, _: queue.select(all=True).expire()),
    "purged": ("purged", lambda queue, _: queue.purge(all=True)),
    "cancelled": ("cancelled", lambda queue, _: queue.cancel("child")),
    "cancelled in work": ("cancelled", lambda queue, _: _cancel_leased(queue)),
    "moved": (
        "moved",
        lambda queue, _: _move(queue),
    ),
    "dead by hand": ("dead", lambda queue, _: queue.select(all=True).dead_letter()),
    "session": ("acked", lambda queue, _: _in_session(queue)),
}


@each_row_afresh("end", ENDS)
async def test_every_end_counts_once(end: str, broker: Any, clock: Clock, raw: Any) -> None:
    """Whatever ends the last child, and a claim of its queue is enough to bring that to `then`."""
    render = broker.queue(
        "render", redelivery=ONCE, dead_letter=IndividualDeadLetterStrategy(expiration="1h"), max_in_flight=9
    )
    reports = broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="child", ttl="30m" if end == "expired" else None)
    word, do = ENDS[end]
    await do(render, clock)
    if end not in {"acked", "poison", "policy"}:  # who settles it by hand also brings it to `then`
        await render.claim()
    assert ends(await gathered(reports)) == {"child": word}
    assert not raw.exists(*KEYS)


async def test_before_it_is_closed_the_newest_end_counts(broker: Any, clock: Clock) -> None:
    kept = IndividualDeadLetterStrategy(expiration="1h")
    render, reports = broker.queue("render", dead_letter=kept), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="purged")
        await _poison(render)
        await render.dlq.purge(all=True)
        await gather.send(render, "x", id="retired")
        await _retire(render, clock)
    assert ends(await gathered(reports)) == {"purged": "purged", "retired": "discarded"}


async def test_what_the_settings_discard_has_ended(broker: Any) -> None:
    render = broker.queue("render", dead_letter=DiscardingDeadLetterStrategy(), expiry=ExpiryPolicy())
    reports = broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="child")
    await _poison(render)
    await render.claim()
    assert ends(await gathered(reports)) == {"child": "discarded"}


async def test_a_child_that_is_redriven_is_open_again(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for name in ("one", "two"):
            await gather.send(render, "x", id=name)
    await _poison(render)
    await render.dlq.redrive(all=True)
    await _acked(render)
    assert not await reports.claim()
    (status,) = await broker.gathers()
    assert (status.open, dict(status.ends)) == (1, {"acked": 1})
    await _poison(render)
    await render.maintain()
    await render.dlq.redrive(all=True)  # too late: all children of this queue have ended
    await _acked(render)
    assert sorted(ends(await gathered(reports)).values()) == ["acked", "dead"]


async def test_within_is_over_first(broker: Any, clock: Clock, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then"), within="1h") as gather:
        await gather.send(render, "x", id="slow")
        await gather.send(render, "x", id="fast", priority=9)
    await _acked(render)
    clock.advance("1h")
    (then,) = await reports.claim()
    assert ends(await then.gathered) == {"fast": "acked", "slow": None}
    await then.nack("later", delay="1h")
    await _acked(render)  # now all have ended, and it is not delivered sooner
    await render.maintain()
    assert not await reports.claim()
    clock.advance("1h")
    assert ends(await gathered(reports)) == {"fast": "acked", "slow": "acked"}
    assert not raw.exists(*KEYS)


async def test_children_are_in_the_order_of_their_ids(broker: Any, clock: Clock) -> None:
    """Also of several queues, and where some have not ended."""
    then, queues = broker.queue("then"), [broker.queue("b"), broker.queue("a")]
    async with broker.gather(then=(then, 1), within="1m") as gather:
        for n in range(6):
            await gather.send(queues[n % 2], n, id=f"m{n}")
    await (await one(queues[0])).ack(result=0)
    clock.advance("1m")
    assert [*await (await one(then)).gathered] == [f"m{n}" for n in range(6)]


@each_row_afresh("replaced", [False, True])
async def test_its_time_to_live_begins_when_it_is_due(replaced: bool, broker: Any, clock: Clock) -> None:
    """The default of its queue: it may wait longer than that for its children."""
    reports = broker.queue("reports", expiry=ExpiryPolicy(expiry_delay="10m"))
    async with broker.gather(then=(reports, Message("then", id="7")), within="1h") as gather:
        await gather.send(broker.queue("render"), "x", id="child")
    if replaced:
        assert (await reports.send("newer", id="7", on_duplicate="replace")).did == "replaced"
    clock.advance("1h")
    (then,) = await reports.claim()
    assert ends(await then.gathered) == {"child": None}


async def test_its_opener_dies(broker: Any, clock: Clock, raw: Any) -> None:
    """It was never closed; then it closes at the end of `within`."""
    render, reports = broker.queue("render"), broker.queue("reports")
    gather = broker.gather(then=(reports, "then"), within="1h")
    await gather.__aenter__()
    await gather.send(render, "x", id="child")
    await _acked(render)
    assert not await reports.claim()
    clock.advance("1h")
    assert ends(await gathered(reports)) == {"child": "acked"}
    await render.maintain()
    assert not raw.exists(*KEYS)
    with pytest.raises(InvalidInput, match="the gather is over"):
        await gather.send(render, "x")


@each_row_afresh("arrives", [True, False])
async def test_an_opening_that_is_cut_off_leaves_nothing(arrives: bool, broker: Any, raw: Any) -> None:
    """A cancellation or Ctrl-C: no block follows, so nobody else could cancel `then`."""
    reports, left = broker.queue("reports"), 0

    def cut(cells: list[Any]) -> list[Any]:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return cells

    await reports.stats()
    await change_talk(broker, *((lambda cells: cells, cut) if arrives else (cut, lambda cells: cells)))
    for exchange in range(1, 10):
        gather, left = broker.gather(then=(reports, "then")), exchange
        try:
            await gather.__aenter__()
            break
        except KeyboardInterrupt:
            left = 0
        assert not await broker.gathers(), f"cut off at {exchange}"
    assert exchange > 1
    left = 0
    await gather.cancel()
    assert not raw.exists(*KEYS)


async def test_an_opening_that_is_cut_off_cancels_no_other(broker: Any) -> None:
    """Under an id that was chosen there may be the gather of another program."""
    reports = broker.queue("reports")
    async with broker.gather(then=(reports, Message("then", id="7"))) as gather:
        await gather.send(broker.queue("render"), "x")
    await change_talk(broker, lambda cells: cells, _interrupt_once())
    with pytest.raises(KeyboardInterrupt):
        await broker.gather(then=(reports, Message("then", id="7"))).__aenter__()
    assert [status.id for status in await broker.gathers()] == ["7"]


@each_row_afresh("arrives", [True, False])
async def test_an_end_of_the_block_that_is_cut_off_closes_all_the_same(arrives: bool, broker: Any) -> None:
    """The children were sent, and `then` is wanted, and not a day later."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="child")
        cut = _interrupt_once()
        await change_talk(broker, *((lambda cells: cells, cut) if arrives else (cut, lambda cells: cells)))
        with pytest.raises(KeyboardInterrupt):
            await gather.__aexit__(None, None, None)
        assert (await broker.gathers())[0].state == "closed"
    await _acked(render)
    assert ends(await gathered(reports)) == {"child": "acked"}


def _interrupt_once() -> Callable[[list[Any]], list[Any]]:
    due = [KeyboardInterrupt]

    def heard(cells: list[Any]) -> list[Any]:
        if due:
            raise due.pop()
        return cells

    return heard


async def test_an_error_in_the_block_cancels(broker: Any, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    gather = broker.gather(then=(reports, "then"))
    await gather.__aenter__()
    await gather.send(render, "x", id="held")
    (held,) = await render.claim()
    for name in ("one", "two"):
        await gather.send(render, "x", id=name)
    await gather.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    counts = await render.stats()
    assert (counts.ready, counts.leased, counts.totals["cancelled"]) == (0, 1, 2)
    assert (await reports.stats()).totals["cancelled"] == 1
    await held.ack()
    await render.claim()
    assert not raw.exists(*KEYS)
    assert not await broker.gathers()


async def test_cancel_says_how_many_and_by_whom(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x")
        assert await gather.cancel(by="anna") == 2
        assert await gather.cancel() == 0
        with pytest.raises(InvalidInput, match="in its `with` block"):
            await gather.send(render, "x")
    acts = [(act.by, act.did, act.number, act.queue) for act in await broker.audit()]
    assert sorted(acts) == [("anna", "cancelled", 1, "render"), ("anna", "cancelled", 1, "reports")]
    with pytest.raises(InvalidInput, match="not open"):
        await broker.gather(then=(reports, "then")).cancel()


async def test_cancel_finds_all_that_wait_behind_those_in_work(broker: Any) -> None:
    """It looks at them in several calls; what it removes is not in front of the next."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for n in range(2 * CARRIED):
            await gather.send(render, n)
        held = await render.claim(10)
        assert await gather.cancel() == 2 * CARRIED - len(held) + 1
    assert (await render.stats()).ready == 0


ODD_IDS = ("report/7", "report 7", "#7", "@7", "7%2F", " ", "é/\u2028", "/" * 200)


@each_row_afresh("name", ODD_IDS)
async def test_then_may_have_any_id(name: str, broker: Any, raw: Any) -> None:
    """A slash, a blank and marks divide the names of gathers: ids that have some are written differently."""
    render, mail, reports = (broker.queue(one) for one in ("render", "mail", "reports"))
    async with broker.gather(then=(reports, Message("then", id=name))) as gather:
        await gather.send(render, "x", id=name)
        await gather.send(mail, "x", id="7 8", delay="1h")
    assert [status.id for status in await broker.gathers()] == [name]
    assert f"a child of the gather {name}, whose `then` is in reports" in str(await render.explain(name))
    await _acked(render)
    assert (await broker.gathers())[0].open == 1
    await mail.cancel("7 8")
    await mail.claim()
    assert ends(await gathered(reports)) == {name: "acked", "7 8": "cancelled"}
    async with broker.gather(then=(reports, Message("then", id=name))) as gather:
        await gather.send(render, "x")
        assert await gather.cancel() == 2
    assert not raw.exists(*KEYS)


async def test_gathers_with_similar_ids_are_not_taken_for_each_other(broker: Any, raw: Any) -> None:
    names = ("7", "7 render", "7/reports", "#7", "@7", "%407")
    render, reports = broker.queue("render"), broker.queue("reports")
    for name in names:
        async with broker.gather(then=(reports, Message(name, id=name))) as gather:
            await gather.send(render, "x", id=f"child of {name}")
    assert sorted(status.id for status in await broker.gathers()) == sorted(names)
    for name in names:
        await _acked(render)
        assert ends(await gathered(reports)) == {f"child of {name}": "acked"}
    assert not raw.exists(*KEYS)


async def test_an_id_in_two_queues_is_refused(broker: Any) -> None:
    """`then` is told of one child by an id, so another would be lost from sight, or from its queue."""
    render, mail, reports = (broker.queue(name) for name in ("render", "mail", "reports"))
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="7")
        with pytest.raises(InvalidInput, match="a child '7' in 'render', so nothing was sent to 'mail'"):
            await gather.send(mail, "x", id="7")
        assert (await gather.send(render, "x", id="7")).new is False
    await _acked(render)
    assert ends(await gathered(reports)) == {"7": "acked"}
    assert not (await mail.stats()).ready


async def test_what_is_no_message_is_no_then(broker: Any) -> None:
    for wrong in (None, broker.queue("reports"), (broker.queue("reports"),)):
        with pytest.raises(InvalidInput, match=r"cannot be sent: .* as then=\(reports, body\)"):
            broker.gather(then=wrong)


async def test_a_gather_that_was_not_opened_is_not_closed(broker: Any) -> None:
    gather = broker.gather(then=(broker.queue("reports"), "then"))
    with pytest.raises(InvalidInput, match="nothing to close"):
        await gather.close()
    async with gather:
        await gather.send(broker.queue("render"), "x")


async def test_an_id_of_then_that_is_remembered_opens_nothing(broker: Any, raw: Any) -> None:
    reports = broker.queue("reports", dedup_window="1h")
    await reports.send("x", id="7")
    await _acked(reports)
    with pytest.raises(KnownId):
        await broker.gather(then=(reports, Message("then", id="7"))).__aenter__()
    assert not raw.exists(*KEYS)
    assert not (await reports.stats()).gathers


@each_row_afresh("count", (1, 600))
async def test_children_end_with_their_queue(count: int, broker: Any, raw: Any) -> None:
    render, mail, reports = (broker.queue(name) for name in ("render", "mail", "reports"))
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(mail, "x", id="mail")
        for number in range(count):
            await gather.send(render, "x", id=f"page-{number}")
        await _poison(render)
        await broker.queue("render").delete(force=True)
        assert not raw.exists("rq:{render}:gathers", "rq:{render}:settings")
    assert not await reports.claim()
    await _acked(mail)
    found = ends(await gathered(reports))
    assert found.pop("mail") == "acked"
    assert sorted(found.values()) == ["dead"] + ["gone"] * (count - 1)
    assert not raw.exists(*KEYS)


async def test_a_child_may_follow_in_a_queue_that_was_deleted(broker: Any, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="before")
        await render.delete(force=True)
        await gather.send(render, "x", id="after")
    assert not await reports.claim()
    await _acked(render)
    assert ends(await gathered(reports)) == {"before": "gone", "after": "acked"}
    assert not raw.exists(*KEYS)


async def test_children_of_a_then_that_was_deleted_with_its_queue(broker: Any, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="child")
    await reports.delete(force=True)
    assert not await broker.gathers()
    await _acked(render)
    await render.claim()
    assert not raw.exists(*KEYS)


async def test_known_messages_become_children(broker: Any) -> None:
    render = broker.queue("render", dedup_window="1h", redelivery=ONCE)
    reports = broker.queue("reports")
    for name in ("acked", "dead", "held", "ready"):
        await render.send("x", id=name)
    for name in ("acked", "dead", "held"):
        (delivery,) = await render.claim()
        assert delivery.id == name
        if name == "acked":
            await delivery.ack()
        elif name == "dead":
            await delivery.poison("bad")
    async with broker.gather(then=(reports, "then")) as gather:
        sent = [await gather.send(render, "x", id=name) for name in ("acked", "dead", "held", "ready")]
        assert (await gather.send(render, "x", id="ready")).new is False
    assert [one.known for one in sent] == ["acked", "dead", "leased", "ready"]
    await delivery.ack()
    await _acked(render)
    assert ends(await gathered(reports)) == {
        "acked": "acked",
        "dead": "dead",
        "held": "acked",
        "ready": "acked",
    }


async def test_a_child_of_another_gather_is_refused(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "first")) as first:
        await first.send(render, "x", id="child")
        async with broker.gather(then=(reports, "second")) as second:
            for queue, name in ((render, "child"), (reports, first.id), (reports, second.id)):
                with pytest.raises(KnownId, match="of another gather"):
                    await second.send(queue, "x", id=name)
    assert [one.children for one in await broker.gathers()] == [1]


@each_row_afresh("opener", ["killed", "cancelled"])
async def test_the_id_of_then_is_free_when_it_is_cancelled(opener: str, broker: Any, raw: Any) -> None:
    """The children that wait are taken over; nothing of the earlier gather makes `then` due too soon."""
    render, mail, reports = (broker.queue(name) for name in ("render", "mail", "reports"))

    async def block(*names: str) -> Any:
        gather = await broker.gather(then=(reports, Message("then", id="7"))).__aenter__()
        for name in names:
            await gather.send(render, "x", id=name)
        await gather.send(mail, "x", id="mail")
        return gather

    first = await block("a", "b")
    if opener == "cancelled":
        await first.close()
    with pytest.raises(KnownId):
        await block("a")
    (held,) = await render.claim()
    await reports.cancel("7")
    await (await block("a", "b", "c")).close()
    await _acked(mail)
    await render.maintain()
    await mail.maintain()
    assert not await reports.claim()
    await held.ack()
    for _ in range(2):
        assert not await reports.claim()
        await _acked(render)
    assert ends(await gathered(reports)) == {"a": "acked", "b": "acked", "c": "acked", "mail": "acked"}
    assert not raw.exists(*KEYS)


async def test_a_gather_that_is_over_gives_its_children_to_another(
    broker: Any, clock: Clock, raw: Any
) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "first")) as first:
        await first.send(render, "x", id="child")
    await reports.cancel(first.id)
    async with broker.gather(then=(reports, "second")) as second:
        assert (await second.send(render, "x", id="child")).known == "ready"
    clock.advance("11s")
    await render.maintain()
    assert not await reports.claim()
    await _acked(render)
    assert ends(await gathered(reports)) == {"child": "acked"}
    assert not raw.exists(*KEYS)


async def test_a_late_share_is_not_brought_to_a_later_gather(broker: Any, raw: Any) -> None:
    """Of which `then` has the same id."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, Message("then", id="7"))) as gather:
        await gather.send(render, "x", id="early")
    lost = await lose_calls(broker, "carry_gather", 99)
    await _acked(render)
    await reports.cancel("7")
    async with broker.gather(then=(reports, Message("then", id="7"))) as gather:
        lost.left = 0
        await render.maintain()
        await gather.send(render, "x", id="late")
    await _acked(render)
    assert ends(await gathered(reports)) == {"late": "acked"}
    assert not raw.exists(*KEYS)


@each_row_afresh("outcome", ["ack", "nack"])
async def test_one_more_run_of_then_reads_the_same_children(outcome: str, broker: Any, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports", redelivery=AT_ONCE)
    async with broker.gather(then=(reports, Message("first", id="7"))) as gather:
        await gather.send(render, "x", id="child")
    await (await render.claim())[0].ack(result=42)
    (then,) = await reports.claim()
    await reports.send(
        "second", id="7", on_duplicate="again", **({"delay": "1h"} if outcome == "ack" else {})
    )
    await getattr(then, outcome)()
    await reports.select(all=True).deliver_now()
    (then,) = await reports.claim()
    assert (then.body, (await then.gathered)["child"].value) == ("second", 42)
    await then.ack()
    assert not raw.exists(*KEYS)


async def test_a_late_end_does_not_hasten_one_more_run(broker: Any, clock: Clock) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, Message("first", id="7")), within="1m") as gather:
        await gather.send(render, "x", id="child")
    clock.advance("1m")
    (then,) = await reports.claim()
    await reports.send("second", id="7", on_duplicate="again", delay="1h")
    await then.ack()
    await _acked(render)
    assert not await reports.claim()
    clock.advance("1h")
    assert ends(await gathered(reports)) == {"child": "acked"}


async def test_a_gather_without_children_is_due_at_once(broker: Any, raw: Any) -> None:
    reports = broker.queue("reports")
    async with broker.gather(then=(reports, "then")):
        assert not await reports.claim()
    assert await gathered(reports) == {}
    assert not raw.exists(*KEYS)


async def test_children_may_be_in_the_queue_of_then(broker: Any, raw: Any) -> None:
    reports = broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(reports, "x", id="child")
    await _acked(reports)
    assert ends(await gathered(reports)) == {"child": "acked"}
    assert not raw.exists(*KEYS)


@each_row_afresh("verb", ["open_gather", "send_children", "close_gather", "carry_gather", "ack"])
async def test_a_reply_is_lost(verb: str, broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    lost = await lose_replies(broker, verb)
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="one")
        await gather.send(render, "x", id="two")
    for _ in range(2):
        await _acked(render)
    assert lost.runs > 1
    assert ends(await gathered(reports)) == {"one": "acked", "two": "acked"}
    assert [(await queue.stats()).totals["sent"] for queue in (render, reports)] == [2, 1]


async def test_a_carrying_that_failed_stops_no_later_one(broker: Any) -> None:
    """Each settlement that is told of a share carries it, without a claim or maintenance."""
    render, reports = broker.queue("render"), broker.queue("reports")
    for then in ("first", "second"):
        async with broker.gather(then=(reports, then)) as gather:
            await gather.send(render, "x")
    one, other = await render.claim(2)
    lost = await lose_calls(broker, "carry_gather", 99)
    await one.ack()
    assert (await reports.stats()).ready == 0
    lost.left = 0
    await other.ack()
    assert (await reports.stats()).ready == 2


async def test_a_share_that_comes_while_it_is_read_is_not_missed(
    broker: Any, sync_broker: Any, clock: Clock
) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then"), within="1m") as gather:
        for name in ("one", "two"):
            await gather.send(render, "x", id=name)
    clock.advance("1m")
    (then,) = await reports.claim()
    lost = await lose_calls(broker, "carry_gather", 99)
    await render.ack(await render.claim(2))
    lost.left = 0

    others = [sync_broker.queue("render")]

    def bring(cells: list[Any]) -> list[Any]:
        if "{render}" in repr(cells) and others:
            others.pop().maintain()
        return cells

    await change_talk(broker, bring, lambda cells: cells)
    assert ends(await then.gathered) == {"one": "acked", "two": "acked"}


async def test_results_that_were_dropped_say_so(broker: Any, clock: Clock) -> None:
    render, reports = broker.queue("render", results="1m"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x", id="early")
        await gather.send(render, "x", id="late")
    for delivery in await render.claim(2):
        await delivery.ack(result=delivery.id)
        clock.advance("50s")
    (then,) = await reports.claim()
    children = await then.gathered
    assert {name: (child.end, child.value, child.dropped) for name, child in children.items()} == {
        "early": ("acked", None, True),
        "late": ("acked", "late", False),
    }
    await then.ack()


async def test_an_end_that_another_program_did_not_note_is_found(broker: Any, raw: Any) -> None:
    """A program of version 0.1.0 knows no gathers: it removes messages, and keeps their outcomes."""
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for name in ("gone", "acked", "dead"):
            await gather.send(render, "x", id=name)
    keys = QueueKeys("rq", "render")
    for delivery in await render.claim(3):
        text = raw.hget(keys["states"], delivery.id)
        raw.hset(keys["states"], delivery.id, re.sub(rb" gather=\S+", b"", text))
        await (delivery.poison("bad") if delivery.id == "dead" else delivery.ack())
        if delivery.id == "gone":
            raw.delete(keys["results"], keys["result_times"])
            raw.hdel(keys["settings"], "kept")
    raw.zadd(keys["gathers"], {f"@{gather.id}/reports": 1})  # it is time to look
    await render.maintain()
    assert ends(await gathered(reports)) == {"acked": "acked", "dead": "dead", "gone": "gone"}


async def test_then_that_is_gone_ends_the_gather(broker: Any, raw: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        await gather.send(render, "x")
        assert await reports.cancel(gather.id) == "cancelled"
        with pytest.raises(InvalidInput, match="the gather is over"):
            await gather.send(render, "x")
    await _acked(render)
    await render.claim()
    assert not raw.exists(*KEYS)


async def test_tasks_and_messages_with_options(broker: Any) -> None:
    reports = broker.queue("reports")

    @broker.task(queue="render")
    def render(page: int, *, scale: int = 1) -> int:
        return page * scale

    @broker.task(queue="reports")
    def report(number: int) -> int:
        return number

    async with broker.gather(then=(report.options(priority=9), (7,)), within="1h") as gather:
        await gather.options(render).send(3, scale=2)
        await gather.options(render.options(id="kept", result=False)).send(4)
    queue = broker.queue("render")
    for delivery in await queue.claim(2):
        await delivery.ack(result=delivery.body)
    (then,) = await reports.claim()
    assert (then.body, then.priority, then.headers["task"]) == ({"number": 7}, 9, "report")
    values = {name: child.value for name, child in (await then.gathered).items()}
    assert values.pop("kept") is None
    assert [*values.values()] == [{"page": 3, "scale": 2}]
    await then.ack()


async def test_arguments_are_checked(broker: Any) -> None:
    reports, render = broker.queue("reports"), broker.queue("render")
    for wrong in ({"within": None}, {"within": "0s"}, {"then": reports}):
        with pytest.raises(InvalidInput):
            broker.gather(**{"then": (reports, "x"), **wrong})
    with pytest.raises(InvalidInput, match="no delay"):
        broker.gather(then=(reports, Message("x", delay="1h")))
    gather = broker.gather(then=(reports, "x"))
    with pytest.raises(InvalidInput, match="in its `with` block"):
        await gather.send(render, "x")
    async with gather:
        pass
    with pytest.raises(InvalidInput, match="opened before"):
        await gather.__aenter__()
    (then,) = await reports.claim()
    await then.ack()
    await render.send("x")
    (other,) = await render.claim()
    with pytest.raises(InvalidInput, match="not the `then`"):
        await other.gathered


async def test_explain_names_the_gather(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    async with broker.gather(then=(reports, "then")) as gather:
        for name in ("one", "two"):
            await gather.send(render, "x", id=name)
    await _acked(render)
    assert (
        f"a child of the gather {gather.id}, whose `then` is in reports" in (await render.explain("two")).why
    )
    why = (await reports.explain(gather.id)).why
    assert "the `then` of a gather: 1 of 2 children open, the oldest two" in why
    stats = await reports.stats()
    assert (stats.gathers, stats.oldest_gather is not None) == (1, True)


async def test_a_close_may_be_repeated(broker: Any) -> None:
    render, reports = broker.queue("render"), broker.queue("reports")
    gather = broker.gather(then=(reports, "then"))
    await gather.__aenter__()
    await gather.send(render, "x", id="child")
    await _acked(render)
    for _ in range(2):
        await gather.close()
    assert ends(await gathered(reports)) == {"child": "acked"}


@pytest.mark.parametrize("backend", ["real"])
def test_a_forked_child_leaves_the_gather_to_its_parent(sync_broker: rq_dlq.Broker) -> None:
    reports = sync_broker.queue("reports")
    parent = os.getpid()
    with suppress(ZeroDivisionError), sync_broker.gather(then=(reports, "then")):
        child = os.fork()
        if not child:
            raise ZeroDivisionError
    if os.getpid() != parent:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    (then,) = reports.claim()
    assert then.gathered == {}
    then.ack()


@pytest.mark.redis
def test_a_consumer_without_rights_to_the_queue_of_then(tmp_path: Path) -> None:
    """It ends children, and leaves it to others to bring that to `then`."""
    with Server(tmp_path) as server, server.client() as raw:
        admin = rq_dlq.Broker(server.url)
        rules = acl_line(ROLES["consumer"], "joe", "rq", "render*").split()[3:]
        raw.execute_command("ACL", "SETUSER", "joe", "on", ">secret", *rules)
        admin.queue("render").open()
        with admin.gather(then=(admin.queue("reports"), "then")) as gather:
            gather.send(admin.queue("render"), "x", id="child")
        joe = rq_dlq.Broker(f"unix://joe:secret@{server.socket}")
        for delivery in joe.queue("render").claim():
            delivery.ack()
        assert not joe.queue("render").claim()
        assert not admin.queue("reports").claim()
        assert not admin.queue("render").claim()
        (then,) = admin.queue("reports").claim()
        assert [child.end for child in then.gathered.values()] == ["acked"]
        joe.close()
        admin.close()
