"""What operators do leaves a record: who, what, to how many messages."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest

from rq_dlq import InvalidInput
from rq_dlq.asyncio.broker import Broker
from rq_dlq.asyncio.dlq import DeadLetters
from rq_dlq.asyncio.policies import Policies
from rq_dlq.asyncio.queue import Queue
from rq_dlq.asyncio.redrive import RedriveJob
from rq_dlq.asyncio.selection import Selection
from rq_dlq.client.choosing import dead_choice
from rq_dlq.core.redrive import start
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.core.steps.step import CHANGED
from rq_dlq.values.user import user_at_host
from tests.behaviour.faults import connections_of, lose_replies, refuse_beside
from tests.behaviour.helpers import bury
from tests.conftest import Clock
from tests.variants import on_fakeredis
from tests.verbs import VERBS, Verb, check_all_tried
from tests.verbs.scene import set_up
from tests.verbs.verb import names

DID = {
    "redrive": "redriven", "start_redrive": "started", "steer_redrive": "paused", "undo_redrive": "undone",
    "offer_redrive": "started", "purge": "purged", "dead_letter": "dead-lettered", "expire_now": "expired",
    "deliver_now": "made ready", "prioritize": "prioritized", "transfer": "moved", "restore": "imported",
    "limit_lane": "limited", "probe_lane": "probed",
    "delete": "deleted", "pause": "paused", "reset": "reset", "set_policy": "set a policy",
    "schedule": "scheduled", "mute": "muted", "cancel": "cancelled", "pause_lane": "paused",
}  # fmt: skip
UNSAID = {
    "configure": "a program declares what its code says, and whoever sets a policy is noted with it",
    "renumber": "the first program of this version does it, and its log says so",
}
MONTH = 30 * 86_400  # seconds
OPERATED = [verb for name, verb in VERBS.items() if name in DID]


def test_each_verb_of_operators_is_tried() -> None:
    check_all_tried(names(VERBS, "operate", "configure"), DID, UNSAID)


@pytest.mark.parametrize("verb", OPERATED, ids=lambda verb: verb.name)
@on_fakeredis("each script runs there")
async def test_a_verb_leaves_a_record(verb: Verb, broker: Any, clock: Clock) -> None:
    """And a call that is repeated, since its reply was lost, leaves no second one."""
    for family, other in (("a", "b"), ("c", "d")):
        scene = await set_up(broker, clock, family, other)
        before = await broker.audit()
        if family == "c":
            await lose_replies(broker, verb.name)
        changed = await verb.say(scene)
        records = [one for one in await broker.audit() if one not in before and one.queue in {"", family}]
        said = [one for one in records if one.did == DID[verb.name]]
        assert len(said) == 1, records
        assert said[0].by == user_at_host()
        if verb.selects or verb.name == "delete":
            assert said[0].number == changed != 0
        elif verb.name == "restore":
            assert said[0].number == 2
        await broker.policies.remove("other")


async def test_an_act_of_many_calls_is_one_record(broker: Any, raw: Any) -> None:
    """Of whole parts of a queue, and of what meets a condition; also where two act at the same time."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(3 * CHANGED + 5))
    await asyncio.gather(
        queue.select(where=f"body < {CHANGED + 1}").purge(by="ana"),
        queue.select(where=f"body >= {2 * CHANGED}").dead_letter("no more", by="ben"),
    )
    records = {(one.did, one.by, one.number, one.chosen, one.how) for one in await broker.audit()}
    assert records == {
        ("purged", "ana", CHANGED + 1, "ready, scheduled: where body < 21", ""),
        ("dead-lettered", "ben", CHANGED + 5, "ready, scheduled: where body >= 40", "no more"),
    }
    assert await queue.dlq.purge(all=True) == CHANGED + 5
    assert await queue.purge(all=True, by="ana") == len(sent) - 2 * CHANGED - 6
    newest, before, *_ = await broker.audit()
    assert (newest.number, newest.chosen) == (len(sent) - 2 * CHANGED - 6, "ready, scheduled: all")
    assert newest.user in {"", "default"}
    assert (before.number, before.which) == (CHANGED + 5, f"{CHANGED + 5} messages (dead: all)")
    assert await queue.dlq.purge(all=True) == await queue.purge(where="body = 1") == 0
    assert len(await broker.audit()) == 4, "an act that changed nothing left a record"
    assert raw.xlen("rq:{a}:audit") == 4, "an act of many calls left many notes"


async def test_what_no_queue_keeps(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    await broker.policies.set("a", max_in_flight=3, by="ana")
    await broker.policies.set("a", max_in_flight=3, by="ben")
    await broker.policies.remove("a", by="ana")
    await broker.policies.remove("nothing.there")
    await broker.queue("b", max_in_flight=1).open()
    await broker.policies.undeclare("b", by="cleo")
    await queue.pause(by="ana")
    assert await queue.delete(force=True, by="ben") == 3
    records = [(one.did, one.by, one.queue, one.which) for one in reversed(await broker.audit())]
    of_the_queue = ("paused", "ana", "a", "")  # beside the others; those of a millisecond have no order
    assert of_the_queue in records, "what was done to a queue is gone with it"
    assert [record for record in records if record != of_the_queue] == [
        ("set a policy", "ana", "", "policy a"),
        ("removed a policy", "ana", "", "policy a"),
        ("undeclared", "cleo", "b", ""),
        ("deleted", "ben", "a", "3 messages"),
    ]
    assert 0 < raw.ttl("rq:{a}:audit") <= MONTH
    await queue.send("again")
    await queue.pause(by="ana")
    assert raw.ttl("rq:{a}:audit") == -1
    assert [one.did for one in await broker.audit(queue="a")] == ["paused", "deleted", "paused"]
    assert [one.did for one in await broker.audit(1, queue="DLQ.a")] == ["paused"]


async def test_schedules(broker: Any) -> None:
    """A tick is no act."""
    queue = broker.queue("a")
    await queue.schedule("nightly", {}, every="1h", by="ana")
    await queue.schedule("nightly", {}, every="1h", by="ben")
    await queue.schedule("nightly", {}, every="2h", by="ben")
    await queue.pause_schedule("nightly", by="ana")
    await queue.pause_schedule("nightly", by="ana")
    await queue.resume_schedule("nightly")
    await queue.unschedule("nightly", by="cleo")
    await queue.unschedule("nightly", by="cleo")
    assert [(one.did, one.by, one.which) for one in reversed(await broker.audit())] == [
        ("scheduled", "ana", "schedule nightly, every 1h"),
        ("scheduled", "ben", "schedule nightly, every 2h"),
        ("paused", "ana", "schedule nightly"),
        ("resumed", user_at_host(), "schedule nightly"),
        ("unscheduled", "cleo", "schedule nightly"),
    ]


async def test_a_canary_pauses_by_its_own_name(broker: Any, clock: Clock) -> None:
    """Nobody else did; and who left a redrive did not cancel it."""
    queue = broker.queue("a")
    await bury(queue, range(60))
    job = await queue.dlq.redrive(all=True, canary=3, by="ana")
    await job.wait(within=0)
    await fail(queue, 3)
    await job.wait(within=0)
    assert job.state == "paused"
    paused, started = (await broker.audit())[:2]
    assert (started.did, started.by) == ("started", "ana")
    assert (paused.did, paused.by, paused.user) == ("paused", "its canary", "")
    await job.cancel(by="ben")
    rated = await queue.dlq.redrive(all=True, rate=20, min_success=0.5, by="ana")
    for _ in range(3):
        clock.advance("1s")
        await rated.wait(within=0)
        await fail(queue, 20)
    clock.advance("1s")
    await rated.wait(within=0)
    assert [(one.did, one.by) for one in await broker.audit(1)] == [("paused", "its min_success")]


async def test_who_leaves_a_redrive_did_not_cancel_it(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    terms = Terms(edit=lambda body: body, by="ana")
    await broker._run(start.begin(queue.dlq._core, dead_choice({}, all=True), terms))
    clock.advance("1h")
    await queue.maintain()
    assert [(one.did, one.by) for one in await broker.audit(1)] == [("cancelled", "maintenance")]


async def fail(queue: Any, count: int) -> None:
    for delivery in await queue.claim(count):
        await delivery.poison("still broken")


async def test_the_acl_user_is_named_as_such(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.pause(by="ana")
    (record,) = await broker.audit()
    assert record.who == "ana"
    ((at, note),) = raw.xrange("rq:{a}:audit")
    raw.xdel("rq:{a}:audit", at)
    raw.xadd("rq:{a}:audit", {**note, b"user": b"ops"})
    (record,) = await broker.audit()
    assert (record.by, record.who) == ("ana", "ana (ACL user ops)")


async def test_a_full_server_is_emptied_all_the_same(
    broker: Any, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A deletion that cannot be noted is done, and the log says so."""
    queue = broker.queue("a")
    await queue.send_many(range(3))
    raw.set(f"{broker.settings.namespace}:audit", "of another kind")
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        assert await queue.delete(force=True, by="ana") == 3
    assert "the audit has no record of this: deleted a" in caplog.text
    assert await broker.queues() == []
    raw.delete(f"{broker.settings.namespace}:audit")


async def test_a_read_that_is_refused_does_not_write_a_note_twice(broker: Any, raw: Any) -> None:
    """The note and the read share a round trip; the read alone is repeated, or left to others."""
    connections = await connections_of(broker)
    refuse_beside(connections, b"SMEMBERS", b"XADD")
    refuse_beside(connections, b"ZRANGEBYSCORE", b"XADD")
    queue = broker.queue("a")
    await queue.send("x")
    assert await broker.policies.set("a", max_in_flight=1, by="ana") == 1
    assert await queue.delete(force=True, by="ben") == 1
    notes = [fields[b"did"] for _, fields in raw.xrange(f"{broker.settings.namespace}:audit")]
    assert notes == [b"set a policy", b"deleted"]


def test_every_method_of_operators_takes_who() -> None:
    """Those that only look, or do a program's work, do not."""
    look = {
        "browse", "count", "count_by", "groups", "select", "jobs", "job", "peek", "keys", "key", "explain",
        "result", "settings", "outcomes", "stats", "maintain", "refresh", "wait", "read", "audit", "overview",
        "queues", "schedules", "workers", "dependency", "gathers",
    }  # fmt: skip
    work = {
        "lifespan", "send", "send_many", "claim", "consume", "ack", "nack", "poison", "release", "extend",
        "session", "handler", "open", "task", "queue", "run", "close", "observe", "subscribe", "gather",
    }  # fmt: skip
    without = {
        f"{kind.__name__}.{name}"
        for kind in (Broker, DeadLetters, Policies, Queue, RedriveJob, Selection)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in look | work
        if "by" not in inspect.signature(method).parameters
    }
    assert without == set()


async def test_who_is_a_name(broker: Any) -> None:
    """Bad ones are refused before anything is done."""
    queue = broker.queue("a")
    await queue.send("x")
    calls = (
        lambda: queue.purge(all=True, by=""),
        lambda: queue.delete(force=True, by="x" * 201),
        lambda: queue.reset(by="\udcff"),
        lambda: broker.policies.set("a", max_in_flight=1, by=""),
        lambda: broker.policies.undeclare("a", by=""),
        lambda: queue.schedule("s", {}, every="1h", by=""),
        lambda: queue.unschedule("s", by=""),
    )

    async def refused(call: Any) -> None:
        with pytest.raises(InvalidInput, match="pass a name"):
            await call()

    for call in calls:
        await refused(call)
    assert (await queue.stats()).ready == 1
    assert await broker.audit() == []
