"""A streaming query over its batches, without Spark: what is claimed, planned again, acked, halved."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="no pyspark here: pip install -e '.[dev-spark]'")

from rq_dlq import RedeliveryPolicy
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.settling import settle
from rq_dlq.errors import DataLoss, InvalidInput, LeaseLost
from rq_dlq.spark.halving import SinkFailed
from rq_dlq.spark.messages import Messages
from rq_dlq.spark.offsets import Offset, QueueOffset
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.partitions import Slice
from rq_dlq.spark.query import Query
from rq_dlq.spark.subscription import Backlog
from rq_dlq.values.message import DeadLetter
from tests.behaviour.helpers import counts
from tests.behaviour.stepping import alone, stop_after
from tests.conftest import Clock
from tests.tables import each_row_afresh

FRESH = Offset("query", {"orders": QueueOffset()})


class Runs:
    """Runs of one query, one after the other, as Spark would make them."""

    def __init__(self, broker: Any, *names: str, **options: str) -> None:
        self.broker = broker
        self.names = names or ("orders",)
        given = {"queue": ",".join(self.names), "lease": "60s", "maxWait": "1ms", **options}
        self.options = StreamOptions.of(given)
        self._numbers = itertools.count()
        self.query = self.restart()

    def restart(self) -> Query:
        """The process died; another one begins."""
        queues = Backlog(self.options, lambda name: self.broker.queue(name)._core)
        self.query = Query(self.options, queues, f"run {next(self._numbers)}")
        return self.query

    async def advance(self, start: Offset, most: int = 1_000) -> Offset:
        """What Spark calls between two batches."""
        return await self.broker._run(self.query.advance(start, most))  # type: ignore[no-any-return]

    async def work_ahead(self, end: Offset, most: int = 1_000) -> Offset:
        """What is done beside Spark's work on a batch."""
        return await self.broker._run(self.query.work_ahead(end, most))  # type: ignore[no-any-return]

    async def plan(self, start: Offset, end: Offset) -> list[list[Slice]]:
        """What Spark calls before the tasks."""
        return await self.broker._run(self.query.plan(start, end))  # type: ignore[no-any-return]

    async def read(self, start: Offset, end: Offset) -> list[str]:
        """Plan, and read as all tasks would; the ids."""
        return [row.id for share in await self.plan(start, end) for row in await self.rows(share)]

    async def rows(self, share: list[Slice]) -> list[Any]:
        """What one task reads."""
        found: list[Any] = []
        for part in share:
            steps = batches.read_claim(part.keys, part.token, part.first, part.end - part.first)
            found += (await self.broker._run(steps)).rows()
        return found


async def test_a_batch_is_acked_when_the_next_one_is_asked_for(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(1_200))
    first = await runs.advance(FRESH, most=1_000)
    assert first.queues["orders"] == QueueOffset(1, 2, 1_000)
    assert await runs.read(FRESH, first) == sent[:1_000]
    assert await counts(queue) == {"ready": 200, "leased": 1_000}
    second = await runs.advance(first)
    assert await counts(queue) == {"leased": 200}
    assert await runs.read(first, second) == sent[1_000:]
    assert await runs.advance(second) == second  # nothing comes, and the last batch is acked all the same
    assert await counts(queue) == {}
    assert await runs.read(second, second) == []


async def test_a_batch_waits_for_enough_messages_but_not_for_ever(broker: Any, clock: Clock) -> None:
    queue = broker.queue("orders")
    runs = Runs(broker, minMessagesPerTrigger="3", maxTriggerDelay="1m")
    await queue.send_many(range(2))
    assert await runs.advance(FRESH) == FRESH
    await queue.send_many([2], delay="5s")
    assert await runs.advance(FRESH) == FRESH
    clock.advance("10s")
    first = await runs.advance(FRESH)
    assert len(await runs.read(FRESH, first)) == 3
    await queue.send(3)
    assert await runs.advance(first) == first  # acks all the same
    assert await counts(queue) == {"ready": 1}
    clock.advance("1m")
    second = await runs.advance(first)
    assert len(await runs.read(first, second)) == 1
    await queue.send(4)
    await broker._run(runs.query.backlog.bound())
    third = await runs.advance(second)
    assert len(await runs.read(second, third)) == 1, "AvailableNow does not wait"


async def test_behind_a_full_batch_the_next_one_is_claimed_ahead(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(25))
    first = await runs.advance(FRESH, most=10)
    assert (await runs.work_ahead(first, most=10)).queues["orders"] == QueueOffset(2, 1, 10, 1)
    assert await runs.read(FRESH, first) == sent[:10]
    second = await runs.advance(first, most=10)
    assert await counts(queue) == {"ready": 5, "leased": 20}, "the ack is left for later"
    third = await runs.work_ahead(second, most=10)
    assert await counts(queue) == {"leased": 15}
    assert await runs.read(first, second) == sent[10:20]
    assert await runs.advance(second, most=10) == third
    await queue.send("new")
    assert await runs.work_ahead(third, most=10) == third, "the third batch was not full"
    assert await runs.read(second, third) == sent[20:]
    assert await counts(queue) == {"ready": 1, "leased": 5}


async def test_what_was_claimed_ahead_is_found_after_a_restart(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(20))
    first = await runs.advance(FRESH, most=10)
    second = await runs.work_ahead(first, most=10)
    await runs.plan(FRESH, first)
    runs.restart()
    await queue.send_many(range(5))
    assert await runs.read(FRESH, first) == sent[:10]
    assert (await runs.advance(first, most=10)).queues == second.queues
    assert await runs.read(first, second) == sent[10:]


async def test_what_was_claimed_ahead_is_released_when_the_query_stops(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(1_300))
    first = await runs.advance(FRESH, most=600)
    await runs.work_ahead(first, most=600)
    await runs.broker._run(runs.query.release_ahead())
    assert await counts(queue) == {"ready": 700, "leased": 600}
    runs.restart()
    assert await runs.read(FRESH, first) == sent[:600]
    second = await runs.advance(first, most=1_000)
    assert await runs.read(first, second) == sent[600:]


async def test_no_run_finds_what_another_one_is_releasing(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(60))
    first = await runs.advance(FRESH, most=10)
    await runs.work_ahead(first, most=50)
    await stop_after(broker, runs.query.release_ahead(), "divide_claim")
    assert await counts(queue) == {"leased": 60}
    runs.restart()
    assert await runs.read(FRESH, first) == sent[:10]
    assert await runs.advance(first) == first


@pytest.mark.parametrize("committed", [False, True], ids=["in the next batch", "after its commit"])
async def test_a_driver_that_died_before_it_acked_acks_then(broker: Any, committed: bool) -> None:
    """It had noted the batch as done, and left the ack for later."""
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(1_200))
    first = await runs.advance(FRESH, most=600)
    await runs.work_ahead(first, most=600)
    await runs.plan(FRESH, first)
    second = await runs.advance(first, most=600)
    await runs.plan(first, second)
    assert await counts(queue) == {"leased": 1_200}
    runs.restart()
    if committed:
        assert await runs.advance(second) == second
        assert await counts(queue) == {}
    else:
        assert await runs.read(first, second) == sent[600:]
        assert await counts(queue) == {"leased": 600}


async def test_a_batch_claimed_ahead_of_a_poison_message_comes_once(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    sent, processed = await queue.send_many(range(40)), list[str]()
    start, end = FRESH, await runs.advance(FRESH, most=10)
    while start != end:
        await runs.work_ahead(end, most=10)
        rows = await runs.read(start, end)
        if sent[3] in rows:
            runs.restart()
            continue
        processed += rows
        start, end = end, await runs.advance(end, most=10)
    assert sorted(processed) == sorted(sent[:3] + sent[4:])
    assert await counts(queue) == {"dead": 1}


async def test_available_now_claims_no_more_ahead_than_was_ready(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(25))
    await broker._run(runs.query.backlog.bound())
    await queue.send_many(range(10))
    start, sizes = FRESH, []
    while (end := await runs.advance(start, most=10)) != start:
        await runs.work_ahead(end, most=10)
        sizes.append(len(await runs.read(start, end)))
        start = end
    assert sizes == [10, 10, 5]
    assert await counts(queue) == {"ready": 10}


async def test_a_task_that_is_tried_again_reads_the_same(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, numPartitions="7")
    sent = await queue.send_many(range(1_100))
    end = await runs.advance(FRESH, most=10_000)
    shares = await runs.plan(FRESH, end)
    assert len(shares) == 7
    read = [[row.id for row in await runs.rows(share)] for share in shares]
    assert [len(ids) for ids in read] == [158, 158, 158, 158, 158, 158, 152]
    assert [row.id for row in await runs.rows(shares[3])] == read[3]
    assert sorted(itertools.chain(*read)) == sorted(sent)


async def test_rows_nacked_by_themselves_are_neither_read_again_nor_acked(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(10))
    end = await runs.advance(FRESH)
    ((part,),) = await runs.plan(FRESH, end)
    await broker._run(settle.nack(queue._core, [(sent[3], part.token)], "no", delay="1h"))
    assert await runs.read(FRESH, end) == [*sent[:3], *sent[4:]]
    await runs.advance(end)
    assert await counts(queue) == {"scheduled": 1}


async def test_a_driver_that_died_before_it_wrote_the_offset_down_finds_its_batch(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(5))
    lost = await runs.advance(FRESH)
    await queue.send_many(range(5))
    runs.restart()
    assert await runs.advance(FRESH) == lost
    assert await counts(queue) == {"ready": 5, "leased": 5}


async def test_a_driver_that_died_in_a_batch_reads_it_again(broker: Any, clock: Clock) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(5))
    end = await runs.advance(FRESH)
    assert await runs.read(FRESH, end) == sent
    clock.advance("59s")
    runs.restart()
    assert await runs.read(FRESH, end) == sent


async def test_what_lapsed_while_the_driver_was_down_comes_in_a_later_one(broker: Any, clock: Clock) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(5))
    end = await runs.advance(FRESH)
    clock.advance("61s")
    await queue.maintain()
    runs.restart()
    assert await runs.read(FRESH, end) == []
    after = await runs.advance(end)
    assert sorted(await runs.read(end, after)) == sorted(sent)


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "down"])
async def test_a_batch_that_lapsed_before_it_was_acked_is_warned_of(
    broker: Any, clock: Clock, caplog: pytest.LogCaptureFixture, frozen: bool
) -> None:
    """The sink has it, and it comes again."""
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(10))
    end = await runs.advance(FRESH)
    ((part,),) = await runs.plan(FRESH, end)
    rows = [(name, part.token) for name in sent[:3]]
    assert all(await broker._run(settle.nack(queue._core, rows, "no", delay="1h")))
    await broker._run(alone(batch_calls.note_settled(queue._core.keys, "query", 3)))
    clock.advance("61s")
    await queue.maintain()
    if not frozen:
        runs.restart()
    await runs.advance(end)
    assert "batch 1 is done, but 7 of its messages were no longer held" in caplog.text


async def test_a_batch_that_was_held_until_its_ack_is_not_warned_of(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    sent = await queue.send_many(range(10))
    end = await runs.advance(FRESH)
    await runs.plan(FRESH, end)
    runs.restart()
    ((part,),) = await runs.plan(FRESH, end)  # only a half
    assert all(await broker._run(settle.nack(queue._core, [(sent[0], part.token)], "no", delay="1h")))
    await broker._run(alone(batch_calls.note_settled(queue._core.keys, "query", 1)))
    caplog.clear()
    after = await runs.advance(end)
    runs.restart()  # after the ack
    assert (await runs.advance(end)).queues == after.queues
    assert caplog.text == ""


async def test_batches_that_lapse_are_not_charged(broker: Any, clock: Clock) -> None:
    """The driver was down: no handler has failed."""
    queue, runs = broker.queue("orders", redelivery=RedeliveryPolicy(max_redeliveries=1)), Runs(broker)
    sent = await queue.send_many(range(600))
    start = FRESH
    for _ in range(3):
        end = await runs.advance(start)
        assert await runs.read(start, end) == sent
        clock.advance("61s")
        await queue.maintain()
        runs.restart()
        assert await runs.read(start, end) == []
        start = end
    assert await counts(queue) == {"ready": 600}
    ((first, *_), *_) = [message.history for message in await queue.peek(limit=1)]
    assert (first.event, first.delay) == ("lapsed", 0)


@each_row_afresh("poison", [0, 1, 499, 700, 999])
async def test_a_poison_message_is_found_by_halving(broker: Any, poison: int) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    sent = await queue.send_many(range(1_000))
    processed: list[str] = []
    failures, start, end = 0, FRESH, FRESH
    while True:
        if start == end:
            end = await runs.advance(start)
        if start == end:
            break
        rows = await runs.read(start, end)
        if sent[poison] in rows:
            failures += 1
            runs.restart()
            continue
        processed += rows
        start = end
    assert sorted(processed) == sorted(sent[:poison] + sent[poison + 1 :])
    assert failures <= 12
    (dead,) = await queue.dlq.browse()
    assert isinstance(dead, DeadLetter)
    assert (dead.id, dead.reason) == (sent[poison], "poison")
    assert dead.cause.type == "rq_dlq.spark.halving.SparkBatchPoison"
    assert await counts(queue) == {"dead": 1}


async def end_all(runs: Runs, clock: Clock, killers: set[str], *away: str) -> tuple[list[str], int]:
    """Run the query until nothing is left. A killer ends its driver, which is away for so long, by turns.

    Returns:
        What was processed, and how often the driver died.
    """
    processed: list[str] = []
    turns = itertools.cycle(away or ["61s"])
    failures, start = 0, Offset("query", dict.fromkeys(runs.names, QueueOffset()))
    end = start
    while True:
        if start == end:
            end = await runs.advance(start)
        if start == end:
            return processed, failures
        rows = await runs.read(start, end)
        if killers.isdisjoint(rows):
            processed += rows
            start = end
            continue
        failures += 1
        assert failures < 100, f"it never ends: {rows}"
        clock.advance(next(turns))
        for name in runs.names:
            await runs.broker.queue(name).maintain()
        runs.restart()


@each_row_afresh("place", [0, 1, 60, 99])
async def test_a_message_that_kills_the_driver_dies_though_each_restart_comes_too_late(
    broker: Any, clock: Clock, place: int
) -> None:
    """Its batch has lapsed each time, so that there is nothing to halve: the next ones are smaller."""
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(100))
    processed, failures = await end_all(runs, clock, {sent[place]})
    assert sorted(processed) == sorted(sent[:place] + sent[place + 1 :])
    (dead,) = await queue.dlq.browse()
    assert (dead.id, dead.reason) == (sent[place], "poison")
    assert dead.cause.type == "rq_dlq.spark.halving.SparkBatchPoison"
    assert await counts(queue) == {"dead": 1}
    assert failures <= 13


async def test_a_killer_that_restarts_now_in_time_and_now_too_late(broker: Any, clock: Clock) -> None:
    """Halving survives lapses: what was parked has lapsed, too."""
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(100))
    processed, failures = await end_all(runs, clock, {sent[30]}, "1s", "1s", "61s")
    assert sorted(processed) == sorted(sent[:30] + sent[31:])
    assert [dead.id for dead in await queue.dlq.browse()] == [sent[30]]
    assert failures <= 25


async def test_killers_in_several_queues_die_alone_though_each_restart_comes_too_late(
    broker: Any, clock: Clock
) -> None:
    names = ("orders:0", "orders:1")
    runs = Runs(broker, *names)
    sent = {name: await broker.queue(name).send_many(range(20)) for name in names}
    killers = {sent["orders:0"][3], sent["orders:1"][17]}
    processed, _ = await end_all(runs, clock, killers)
    assert {*processed} == {*sent["orders:0"], *sent["orders:1"]} - killers
    assert len(processed) == 38
    assert {dead.id for name in names for dead in await broker.queue(name).dlq.browse()} == killers


async def test_a_driver_that_is_away_now_and_then_is_no_failure(broker: Any, clock: Clock) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    start = FRESH
    for _ in range(6):  # a night between them; each time the batch succeeds in the end
        await queue.send_many(range(10))
        end = await runs.advance(start)
        await runs.plan(start, end)
        clock.advance("61s")
        await queue.maintain()
        runs.restart()
        assert await runs.read(start, end) == []
        start = await runs.advance(end)
        assert len(await runs.read(end, start)) == 10
    assert (await queue.stats()).dead == 0


async def test_what_comes_later_has_the_time_of_its_sending(broker: Any, clock: Clock) -> None:
    """So it is late for a watermark."""
    queue, runs = broker.queue("orders", redelivery=RedeliveryPolicy(delays=["1h"])), Runs(broker)
    for name in ("nacked", "poisoned", "lapsed"):
        await queue.send(0, id=name)
    nacked, poisoned, _ = await queue.claim(3, lease="1m")
    await nacked.nack("no")
    await poisoned.poison(ValueError("no"))
    await queue.send(0, id="delayed", delay="1h")
    clock.advance("1h")
    await queue.maintain()  # the lease has ended
    clock.advance("1h")
    await queue.dlq.redrive(all=True)
    await queue.send(0, id="new")
    ((part,),) = await runs.plan(FRESH, await runs.advance(FRESH))
    page = await broker._run(batches.read_claim(part.keys, part.token, 0, 10))
    messages = Messages([page], "orders")
    times = dict(zip(messages.id.to_pylist(), messages.enqueued_at.to_pylist(), strict=True))
    new = times.pop("new")
    assert {name: (new - time) / timedelta(hours=1) for name, time in times.items()} == dict.fromkeys(
        ("nacked", "poisoned", "lapsed", "delayed"), pytest.approx(2, abs=0.01)
    )


async def test_a_poison_message_in_one_of_several_queues_dies_alone(broker: Any) -> None:
    names = ("orders:0", "orders:1", "orders:2")
    runs = Runs(broker, *names, maxBatchFailures="1")
    sent = {name: await broker.queue(name).send_many(range(5)) for name in names}
    poison, processed = sent["orders:1"][3], list[str]()
    start = end = Offset("query", dict.fromkeys(names, QueueOffset()))
    while True:
        if start == end and (end := await runs.advance(start)) == start:
            break
        rows = await runs.read(start, end)
        if poison in rows:
            runs.restart()
            continue
        processed += rows
        start = end
    assert [letter.id for name in names for letter in await broker.queue(name).dlq.browse()] == [poison]
    assert sorted(processed) == sorted({*itertools.chain(*sent.values())} - {poison})


async def test_while_the_sink_is_down_nothing_dies(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    sent = await queue.send_many(range(20))
    end = await runs.advance(FRESH)
    for _ in range(30):
        await runs.read(FRESH, end)
        runs.restart()
    assert await counts(queue) == {"leased": 20}
    start, processed = FRESH, await runs.read(FRESH, end)
    while (after := await runs.advance(end)) != end:
        start, end = end, after
        processed += await runs.read(start, end)
    assert sorted(processed) == sorted(sent)
    assert await counts(queue) == {}


async def test_where_the_sink_fails_for_all_rows_only_a_few_messages_die(broker: Any) -> None:
    """It succeeds without rows, so each message looks like poison; until the sink is mended."""
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    await queue.send_many(range(100))
    start, end, refused, tried = FRESH, await runs.advance(FRESH), 0, 0
    while tried < 3:
        try:
            rows = await runs.read(start, end)
        except SinkFailed as error:
            assert "the last 3 tried messages of queue 'orders'" in str(error)  # noqa: PT017 - it ends each second run
            refused += 1
            runs.restart()
            continue
        tried += bool(refused and rows)
        if rows:
            runs.restart()
        else:
            start, end = end, await runs.advance(end)
    assert refused == 3
    assert await counts(queue) == {"leased": 97, "dead": 3}
    processed: list[str] = []
    while (after := await runs.advance(end)) != end:
        start, end = end, after
        processed += await runs.read(start, end)
    assert len(processed) == 96
    assert (await broker._run(alone(batch_calls.progress(queue._core.keys, "query")))).poisoned == 0


async def test_a_batch_is_left_whole_until_it_failed_often_enough(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="3")
    await queue.send_many(range(8))
    end = await runs.advance(FRESH)
    sizes = []
    for _ in range(5):
        sizes.append(len(await runs.read(FRESH, end)))
        assert len(await runs.read(FRESH, end)) == sizes[-1]  # planned twice in one run is no failure
        runs.restart()
    assert sizes == [8, 8, 8, 4, 2]
    await queue.send("new")
    after = await runs.advance(end)  # what was put aside last is the next batch, without new messages
    assert after.queues["orders"] == QueueOffset(2, 1, 2, 1)
    assert len(await runs.read(end, after)) == 2
    last = await runs.advance(after)
    assert last.queues["orders"] == QueueOffset(3, 1, 4, 1)


async def test_an_old_checkpoint_is_refused(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    positions = [FRESH]
    for _ in range(3):
        await queue.send_many(range(3))
        positions.append(await runs.advance(positions[-1]))
        await runs.read(positions[-2], positions[-1])
    await runs.advance(positions[-1])
    runs.restart()
    with pytest.raises(DataLoss, match="batch 1 of queue 'orders', but batch 3 is done"):
        await runs.advance(positions[1])
    with pytest.raises(DataLoss, match="batch 2 of queue 'orders', but batch 3 is done"):
        await runs.read(positions[1], positions[2])
    careless = Runs(broker, failOnDataLoss="false")  # the epochs of new messages would be used ones
    await queue.send("new")
    with pytest.raises(DataLoss, match="a new checkpoint and a new prefix"):
        await careless.advance(positions[1])
    with pytest.raises(DataLoss, match="a new checkpoint and a new prefix"):
        await careless.read(positions[1], positions[2])
    assert await counts(queue) == {"ready": 1}


async def test_a_queue_that_forgot_the_query_is_noticed(broker: Any, raw: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(3))
    end = await runs.advance(FRESH)
    await runs.read(FRESH, end)
    raw.delete(queue._core.keys.stream("query"))
    runs.restart()
    with pytest.raises(DataLoss, match="knows no batch of this query"):
        await runs.advance(end)
    raw.flushdb()
    runs.restart()
    with pytest.raises(DataLoss, match="there is no queue 'orders' any more"):
        await runs.advance(end)
    await broker._run(runs.query.backlog.bound())  # at AvailableNow, where Spark has told no offset yet
    with pytest.raises(DataLoss, match="there is no queue 'orders' any more"):
        await runs.advance(end)


@pytest.mark.parametrize("asked", ["as it works", "when it is done"])
async def test_a_queue_that_was_deleted_and_made_again_is_noticed(asked: str, broker: Any, raw: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(3))
    end = await runs.advance(FRESH)
    await runs.read(FRESH, end)
    if asked == "when it is done":
        assert await runs.advance(end) == end
    await queue.delete(force=True)
    assert raw.keys("rq:{orders}:stream:*") == []
    await queue.send_many(range(3))
    with pytest.raises(DataLoss, match="knows no batch of this query: the queue was deleted and made again"):
        await runs.read(end, await runs.advance(end))
    assert (await queue.stats()).leased == (3 if asked == "when it is done" else 0)


@pytest.mark.parametrize("again", [0, 3], ids=["deleted", "made again"])
async def test_a_queue_that_is_deleted_before_its_first_batch_is_noticed(again: int, broker: Any) -> None:
    """No batch before it tells that it is another; one that lapsed in an earlier run looks the same."""
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(3))
    end = await runs.advance(FRESH)
    await queue.delete(force=True)
    await queue.send_many(range(again))
    with pytest.raises(
        DataLoss, match="at batch 1 of queue 'orders', but the queue knows no batch of this query"
    ):
        await runs.plan(FRESH, end)
    assert await counts(queue) == ({"ready": again} if again else {})


async def test_a_first_batch_of_which_no_row_is_left_is_planned_again(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(3))
    end = await runs.advance(FRESH)
    ((part,),) = await runs.plan(FRESH, end)
    await broker._run(batches.release_batch(queue._core, [part.token]))
    assert await runs.plan(FRESH, end) == []


async def test_the_progress_of_a_thousand_queries_is_listed(broker: Any, raw: Any) -> None:
    queue = broker.queue("orders")
    await queue.send(0)
    keys = queue._core.keys
    raw.zadd(keys["streams"], {keys.stream(str(number)): number for number in range(1_000)})
    for name in ("a", "a", "b"):
        await broker._run(alone(batch_calls.begin_batch(keys, name, batch=1, run="r")))
    listed = [name.decode() for name in raw.zrange(keys["streams"], 0, -1)]
    assert listed == [*map(keys.stream, map(str, range(2, 1_000))), *map(keys.stream, "ab")]
    assert raw.pttl(keys["streams"]) > 29 * 86_400_000


@pytest.mark.parametrize("least", ["1", "2"])
async def test_a_query_goes_on_while_no_queue_is_left(broker: Any, least: str) -> None:
    queue = broker.queue("orders.eu")
    runs = Runs(broker, "orders.*", failOnDataLoss="false", minMessagesPerTrigger=least)
    start = Offset("query", {"orders.eu": QueueOffset()})
    sent = await queue.send_many(range(3))
    end = await runs.advance(start)
    assert await runs.read(start, end) == sent
    await queue.delete(force=True)
    assert await runs.advance(end) == end
    sent = await queue.send_many(range(2))
    after = await runs.advance(end)
    assert await runs.read(end, after) == sent


async def test_available_now_ends_under_a_live_producer(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(25))
    await broker._run(runs.query.backlog.bound())
    start, sizes = FRESH, []
    while True:
        await queue.send_many(range(10))
        end = await runs.advance(start, most=10)
        if end == start:
            break
        sizes.append(len(await runs.read(start, end)))
        start = end
    assert sizes == [10, 10, 5]


async def test_several_queues_share_the_limit_by_what_is_ready(broker: Any) -> None:
    many, few = broker.queue("orders:0"), broker.queue("orders:1")
    for queue in (many, few):
        await queue.open()
    runs = Runs(broker, "orders", shards="2")
    start = Offset("query", {"orders:0": QueueOffset(), "orders:1": QueueOffset()})
    assert await runs.advance(start) == start
    await many.send_many(range(90))
    await few.send_many(range(10))
    end = await runs.advance(start, most=50)
    assert {family: said.messages for family, said in end.queues.items()} == {"orders:0": 45, "orders:1": 5}
    shares = await runs.plan(start, end)
    assert {(part.keys.family, part.shard) for part in itertools.chain(*shares)} == {
        ("orders:0", 0),
        ("orders:1", 1),
    }
    after = await runs.advance(end, most=1_000)
    assert await counts(many) == {"leased": 45}
    assert {family: said.batch for family, said in after.queues.items()} == {"orders:0": 2, "orders:1": 2}


async def test_two_queries_on_one_queue_do_not_meet(broker: Any) -> None:
    queue, one, other = broker.queue("orders"), Runs(broker), Runs(broker)
    sent = await queue.send_many(range(20))
    first = await one.advance(FRESH, most=8)
    theirs = replace(FRESH, query="another")
    second = await other.advance(theirs, most=100)
    assert await one.read(FRESH, first) == sent[:8]
    assert await other.read(theirs, second) == sent[8:]
    await one.advance(first)
    assert await other.read(theirs, second) == sent[8:]


async def test_a_checkpoint_of_another_queue_is_refused(broker: Any) -> None:
    runs = Runs(broker, "payments")
    with pytest.raises(InvalidInput, match="the checkpoint is for orders, but the query reads payments"):
        await runs.advance(FRESH)


async def test_an_older_copy_of_redis_is_noticed(broker: Any, raw: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    await queue.send_many(range(6))
    first = await runs.advance(FRESH, most=3)
    await runs.read(FRESH, first)
    second = await runs.advance(first, most=3)
    await runs.read(first, second)
    raw.hset(queue._core.keys.stream("query"), mapping={"done": 0, "batch": 1})
    with pytest.raises(DataLoss, match="batch 2 of queue 'orders', but the queue knows no batch"):
        await runs.advance(second)
    runs.restart()
    with pytest.raises(DataLoss, match="batch 2 of queue 'orders', but the queue knows no batch"):
        await runs.plan(first, second)
    careless = Runs(broker, failOnDataLoss="false")
    assert len(await careless.read(first, second)) == 3
    assert await careless.advance(second) == second
    assert await counts(queue) == {}


async def test_a_run_that_was_replaced_acks_nothing(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker)
    sent = await queue.send_many(range(5))
    end = await runs.advance(FRESH)
    assert await runs.read(FRESH, end) == sent
    replaced = runs.query
    runs.restart()
    assert await runs.read(FRESH, end) == sent
    with pytest.raises(LeaseLost, match="another run of this query has begun batch"):
        await broker._run(replaced.advance(end, 1_000))
    assert await runs.read(FRESH, end) == sent
    assert await runs.advance(end) == end
    assert await counts(queue) == {}


async def test_a_half_that_was_renamed_in_part_is_found_whole(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, maxBatchFailures="1")
    sent = await queue.send_many(range(4_000))
    end, processed = await runs.advance(FRESH, most=10_000), list[str]()
    await runs.plan(FRESH, end)
    runs.restart()
    processed += await runs.read(FRESH, end)
    steps, renamed = runs.query.advance(end, 10_000), 0
    answer = None
    while renamed < 2:  # the driver dies after the second of four claims
        step = steps.send(answer)
        answer = await broker._run(only(step))
        renamed += getattr(step, "verb", "") == "divide_claim"
    runs.restart()
    start = end
    while (end := await runs.advance(start)) != start:
        processed += await runs.read(start, end)
        start = end
    assert sorted(processed) == sorted(sent)
    assert await counts(queue) == {}


def only(step: Any) -> Any:
    """A single step."""
    return (yield step)


def test_a_checkpoint_of_a_history_is_refused() -> None:
    assert Offset.of(FRESH.as_json()) == FRESH
    with pytest.raises(InvalidInput, match="not of a stream of messages"):
        Offset.of({"orders": "1700000000000-0"})
