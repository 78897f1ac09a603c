"""A group that is over turns calm, one that is muted is no trouble, and what holds the workers has a name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rq_dlq import Breaker, ConsumerReport, InvalidInput, MissingRights, SharedDeadLetterStrategy
from rq_dlq.core.looking.holder import Holder
from rq_dlq.core.looking.trouble import troubles
from rq_dlq.core.processes import busy
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.values.masks import Masks
from rq_dlq.values.process import ProcessReport
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import bury
from tests.conftest import Clock
from tests.tables import each_row


async def wrong(broker: Any) -> list[tuple[str, str, str]]:
    seen = await broker.overview()
    return [(one.kind, one.level, one.what) for one in troubles(seen.queues, seen.at)]


async def die(queue: Any, count: int = 3, why: str = "no route to the bank") -> None:
    await queue.send_many(range(count))
    await queue.poison(await queue.claim(count), why)


async def test_what_is_over_turns_calm_within_minutes(broker: Any, clock: Clock) -> None:
    """And is new and growing again when it dies again."""
    queue = broker.queue("a")
    await die(queue)
    (group,) = await queue.dlq.groups()
    assert (group.trends, group.calm) == (("new", "growing"), False)
    assert [kind for kind, _, _ in await wrong(broker)] == ["dying"]
    clock.advance("5m")
    (group,) = await queue.dlq.groups()
    assert (group.trends, group.calm) == (("new", "growing"), False)
    clock.advance("1ms")
    for found in (await queue.dlq.groups(), await queue.dlq.groups(where="body >= 0")):
        (group,) = found
        assert (group.trends, group.calm, group.growing, group.new) == ((), True, False, True)
        assert group.last_hour == 3
    assert await wrong(broker) == [("undecided", "calm", "3 dead letters wait for a decision")]
    await die(queue, 1)
    (group,) = await queue.dlq.groups()
    assert group.trends == ("new", "growing")


async def test_muted_until_it_dies_again(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await die(queue)
    (group,) = await queue.dlq.groups()
    assert await queue.dlq.mute(group=group, by="ana") is True
    assert await queue.dlq.mute(group=group.fingerprint[:6], by="ben") is False
    (group,) = await queue.dlq.groups()
    assert (group.muted, group.muted_until, group.trends) == (True, None, ())
    assert await wrong(broker) == []
    (group,) = await queue.dlq.groups(where="body >= 0")
    assert group.muted
    clock.advance("1ms")
    await die(queue, 1)
    (group,) = await queue.dlq.groups()
    assert (group.muted, group.trends) == (False, ("new", "growing"))
    assert await queue.dlq.mute(group=group) is True, "what has died since is muted, too"
    before = (await queue.stats()).totals["mutes"]
    assert await queue.dlq.unmute(group=group, by="ben") is True
    assert (await queue.stats()).totals["mutes"] > before, "so that whoever remembers the groups reads them"
    assert await queue.dlq.unmute(group=group) is False
    assert [(one.did, one.by, one.which) for one in await broker.audit()][::2] == [
        ("unmuted", "ben", f"group {group.fingerprint}"),
        ("muted", "ana", f"group {group.fingerprint}, until its next death"),
    ]


async def test_muted_until_a_time(broker: Any, clock: Clock) -> None:
    """Whatever dies of it meanwhile."""
    queue = broker.queue("a")
    await die(queue)
    await queue.dlq.mute(group=(await queue.dlq.groups())[0], until="1h")
    (group,) = await queue.dlq.groups()
    end = group.muted_until
    assert end is not None
    clock.advance("59m")
    await die(queue)
    assert await wrong(broker) == []
    clock.advance("1m")
    (group,) = await queue.dlq.groups()
    assert (group.muted, group.muted_until) == (False, None)
    assert [kind for kind, _, _ in await wrong(broker)] == ["dying"]
    assert await queue.dlq.mute(group=group, until=end + timedelta(hours=1))
    (group,) = await queue.dlq.groups()
    assert group.muted_until == end + timedelta(hours=1)


async def test_what_dies_of_another_kind_is_trouble(broker: Any) -> None:
    queue = broker.queue("a")
    await die(queue)
    await queue.dlq.mute(group=(await queue.dlq.groups())[0], until="1h")
    seen = await broker.overview()
    assert troubles(seen.queues, seen.at, {"a": 1.0}) == [], "the deaths of the last minute are muted"
    await die(queue, 2, "another thing entirely")
    assert [what for _, _, what in await wrong(broker)] == ["new, growing: another thing entirely"]


async def test_a_mute_whose_reply_was_lost_is_one(broker: Any) -> None:
    queue = broker.queue("a")
    await die(queue)
    lost = await lose_replies(broker, "mute")
    await queue.dlq.mute(group=(await queue.dlq.groups())[0])
    assert lost.runs > 1
    assert [one.did for one in await broker.audit()] == ["muted"]
    assert (await queue.dlq.groups())[0].muted


async def test_what_cannot_be_muted(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, [1])
    (group,) = await queue.dlq.groups()
    days = datetime(2026, 1, 1, tzinfo=UTC)
    for given, words in (
        ({"group": "0" * 12}, "has no group"),
        ({"group": "nonsense"}, "pass an ErrorGroup"),
        ({"group": None}, "pass an ErrorGroup"),
        ({"group": group, "until": "31d"}, "within 30 days"),
        ({"group": group, "until": days}, "within 30 days"),
        ({"group": group, "until": days.replace(tzinfo=None)}, "with a time zone"),
        ({"group": group, "until": "soon"}, "until"),
        ({"group": group, "by": ""}, "pass a name"),
    ):
        with pytest.raises(InvalidInput, match=words):
            await queue.dlq.mute(**given)
    assert not (await queue.dlq.groups())[0].muted
    raw.hset("rq:{a}:muted", mapping={f"{n:012}": "0 0" for n in range(999)})
    assert await queue.dlq.mute(group=group)
    assert 2_591_900_000 < raw.pttl("rq:{a}:muted") <= 2_592_000_000, "30 days"
    assert await queue.dlq.unmute(group=group)
    raw.hset("rq:{a}:muted", "0" * 12 + "x", "0 0")
    with pytest.raises(InvalidInput, match="a thousand muted groups"):
        await queue.dlq.mute(group=group)
    raw.hset("rq:{a}:muted", f"{group.fingerprint:12}", "damaged")
    assert not (await queue.dlq.groups())[0].muted


@pytest.mark.parametrize("broker", ["async"], indirect=True)  # the letters of a name are made by hand
async def test_a_shared_name_mutes_in_each_of_its_queues(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("buried"))
    for name in ("a", "b"):
        await die(broker.queue(name))
    buried = broker.queue("a").dlq.__class__(broker.queue("buried")._core, broker)
    (group,) = await buried.groups()
    assert await buried.mute(group=group, by="ana")
    assert [(await broker.queue(name).dlq.groups())[0].muted for name in ("a", "b")] == [True, True]
    assert (await buried.groups())[0].muted
    assert await buried.unmute(group=group)
    assert not (await broker.queue("b").dlq.groups())[0].muted


async def test_who_holds_the_workers_is_named(broker: Any, clock: Clock) -> None:
    """From a minute on, with the header value that most leased messages have, and not all that wait."""
    queue = broker.queue("a")
    for n in range(8):
        await queue.send(n, headers={"tenant": "acme", "app": "shop", "token": "x"}, key="acme")
    assert len(await queue.claim(4, lease="1h")) == 4
    await queue.send(9, headers={"tenant": "tiny", "app": "shop", "token": "x"}, key="tiny")
    clock.advance("60s")
    assert await wrong(broker) == []
    clock.advance("1s")
    seen = await broker.overview()
    (trouble,) = troubles(seen.queues, seen.at)
    assert (trouble.kind, trouble.level) == ("waiting", "warn")
    assert trouble.detail == (
        "consumers hold 4 messages; 4 of 4 leased messages have tenant = acme; "
        "4 of 4 leased messages have key = acme: `rq-dlq msg ls a --count-by tenant`"
    )
    again = await broker.overview(seen)
    assert again.by_name["a"].held_at == seen.by_name["a"].held_at
    clock.advance("5m")
    ((_, level, _),) = await wrong(broker)
    assert level == "bad"


@each_row(
    ("value", "shown"),
    [
        ("DE12 3456 7890", '"DE12 3456 7890"'),
        ("a, b; c", '"a, b; c"'),
        ('say "x y"', '"say \\"x y\\""'),
        ("acme", "acme"),
    ],
)
def test_a_mask_hides_all_of_a_value(value: str, shown: str) -> None:
    said = str(Holder("iban", value, 4, 4))
    assert said == f"4 of 4 leased messages have iban = {shown}"
    assert Masks(["iban"]).text(f"{said}; more") == "4 of 4 leased messages have iban = ***; more"


async def test_where_all_are_alike_nobody_is_named(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for n in range(4):
        await queue.send(n, headers={"tenant": "acme", "trace": f"t{n}"})
    await queue.claim(1, lease="1h")
    clock.advance("2m")
    seen = await broker.overview()
    (trouble,) = troubles(seen.queues, seen.at)
    assert (trouble.level, trouble.detail) == ("warn", "consumers hold 1 message")


async def test_calls_that_hang_are_not_too_few_workers(broker: Any, clock: Clock) -> None:
    """Before enough of them have failed to count as an outage: what the workers report of them is said."""
    queue = broker.queue("a", breaker=Breaker())
    await queue.send_many(range(8), dependency="payments")
    await queue.claim(8, lease="1h")
    await queue.send_many(range(9))
    clock.advance("61s")
    await report(broker, "web:1", ConsumerReport(4, held=4, oldest=61.0))
    await report(broker, "web:2", ConsumerReport(4, held=4, oldest=45.0))
    assert await said_of_a(broker) == (
        "2 workers hold 8 messages, the oldest for 1m1s: if that is usual, start more workers; if not, "
        "their calls are slow or hang; 8 of 8 leased messages have dependency = payments: "
        "`rq-dlq msg ls a --count-by dependency`"
    )


def test_a_silent_worker_may_hold_nothing() -> None:
    own = {"a": ConsumerReport(4, held=4, oldest=61.0)}
    reports = [
        ProcessReport("web:1", queues=own, ago=16.0),
        ProcessReport("web:2", queues={"a": ConsumerReport(4, held=1, oldest=0.5), "b": ConsumerReport(4)}),
        ProcessReport("web:3", queues={"a": ConsumerReport(4)}),
    ]
    found = busy.of_reports(reports)
    assert {name: str(one) for name, one in found.items()} == {
        "a": "1 worker holds 1 message, the oldest for 500ms"
    }


async def said_of_a(broker: Any) -> str:
    seen = await broker.overview()
    (trouble,) = troubles(seen.queues, seen.at)
    return trouble.detail


async def report(broker: Any, process: str, own: ConsumerReport) -> None:
    reporter = Reporter(ProcessReport(process, period=5_000))
    reporter.key = process
    await broker._run(reporter.note(broker.settings.namespace, queues={"a": own}))


@each_row("error", [MissingRights("no"), NodeUnavailable("no")])
def test_reports_that_cannot_be_read_hide_no_queue(error: Exception) -> None:
    steps = busy.busy("rq")
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.throw(error)
    assert ended.value.value == {}
