"""All queues at one look: counts, groups, redrives, and the rates between two looks."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import BrokerRefused
from rq_dlq.core.looking.monitor import Monitor
from rq_dlq.core.queues import counts
from rq_dlq.core.queues.each import UnreachableQueue
from tests.behaviour.helpers import bury, one
from tests.behaviour.stepping import drive
from tests.tables import each_row_afresh


async def test_an_overview_has_the_counts_groups_and_redrives_of_all_queues(broker: Any) -> None:
    orders, mail = broker.queue("orders"), broker.queue("mail")
    await bury(orders, [1, 2, 3], ValueError("sold out"))
    await bury(orders, [4], KeyError("price"))
    await mail.send("hello")
    await orders.send(1)
    job = await orders.dlq.redrive(limit=1)
    seen = await broker.overview()
    assert [queue.name for queue in seen.queues] == ["mail", "orders"]
    its = seen.by_name["orders"]
    assert its.stats == await orders.stats()
    assert list(its.groups) == await orders.dlq.groups()
    assert [(one.id, one.counts.moved) for one in its.redrives] == [(job.id, 1)]
    assert (seen.by_name["mail"].groups, seen.by_name["mail"].stats.ready) == ([], 1)


async def test_groups_of_unchanged_queues_are_read_once_a_minute(broker: Any, clock: Any) -> None:
    queue = broker.queue("orders")
    await bury(queue, [1, 2], ValueError("sold out"))
    first = await broker.overview()
    clock.advance(30)
    second = await broker.overview(first)
    assert second.queues[0].groups is first.queues[0].groups
    clock.advance(31)
    assert (await broker.overview(second)).queues[0].groups is not first.queues[0].groups


async def test_groups_of_changed_queues_are_read_every_five_seconds(broker: Any, clock: Any) -> None:
    queue = broker.queue("orders")
    await bury(queue, [1, 2], ValueError("sold out"))
    first = await broker.overview()
    await bury(queue, [3], ValueError("sold out"))
    second = await broker.overview(first)
    assert (second.queues[0].stats.dead, second.queues[0].groups[0].count) == (3, 2)
    clock.advance(6)
    assert (await broker.overview(second)).queues[0].groups[0].count == 3


async def test_rates_are_of_the_time_between_two_overviews(broker: Any, clock: Any) -> None:
    queue = broker.queue("orders")
    await queue.send(1)
    first = await broker.overview()
    for number in range(20):
        await queue.send(number)
    await broker.queue("new").send(1)
    clock.advance(10)
    second = await broker.overview(first)
    assert second.grown(first)["orders"]["sent"] == 20
    assert second.grown(first)["new"]["sent"] == 0
    assert second.grown(second)["orders"]["sent"] == 0
    monitor = Monitor()
    monitor.add(first, 0)
    monitor.add(second, 0)
    assert round(monitor.rates("orders").sent, 1) == 2.0
    assert monitor.rates("new").sent == 0


async def test_what_is_overdue_is_told(broker: Any, clock: Any) -> None:
    queue = broker.queue("orders", lease="10s")
    await queue.send(1)
    await queue.send(2, delay="15s")
    await one(queue)
    assert (await queue.stats()).overdue == 0
    clock.advance(20)
    assert 9 < (await queue.stats()).overdue < 11


async def test_an_overview_says_how_late_schedules_are(broker: Any, clock: Any) -> None:
    orders = broker.queue("orders")
    await orders.schedule("hourly", {}, every="1h")
    assert (await broker.overview()).queues[0].schedules_overdue == 0
    clock.advance("1h2m")
    assert 118 <= (await broker.overview()).queues[0].schedules_overdue < 125
    await orders.maintain()
    assert (await broker.overview()).queues[0].schedules_overdue == 0


@each_row_afresh("key", ["dead", "redriving", "ticks", "groups"])
async def test_a_damaged_queue_hides_no_other(key: str, broker: Any, clock: Any, raw: Any) -> None:
    for name in "abc":
        await bury(broker.queue(name), [1])
    place = broker.queue("b")._core.keys[key]
    raw.set(place, "no sorted set")
    seen = await broker.overview()
    assert [queue.name for queue in seen.queues] == ["a", "c"]
    ((name, why),) = [(lost.name, lost.why) for lost in seen.unreachable]
    assert name == "b"
    assert "holds something else, one of rq:{b}:*" in why
    counted = await broker._run(counts.counts("rq"))
    assert isinstance(counted[1], UnreachableQueue) == (key == "dead")
    raw.flushall()
    clock.set(clock.now)


async def test_where_the_server_refuses_all_that_is_an_error(broker: Any, raw: Any) -> None:
    for name in "ab":
        await broker.queue(name).open()
        raw.set(broker.queue(name)._core.keys["dead"], "no sorted set")
    with pytest.raises(BrokerRefused, match="holds something else"):
        await broker.overview()
    raw.delete(*(broker.queue(name)._core.keys["dead"] for name in "ab"))


async def test_many_queues_are_counted_in_few_round_trips(broker: Any) -> None:
    for number in range(101):
        await broker.queue(f"q{number:03}").open()
    trips: list[str] = []

    async def note(script: str) -> None:
        trips.append(script)

    found = await drive(broker, counts.counts("rq"), note)
    assert [stats.name for stats in found] == [f"q{number:03}" for number in range(101)]
    assert len(trips) == 4, "the names, and fifty queues at a time"
