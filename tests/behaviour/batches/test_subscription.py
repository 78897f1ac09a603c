"""A stream over several queues, without Spark: which it reads, one that comes later, one that is deleted."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="no pyspark here: pip install -e '.[dev-spark]'")

from rq_dlq.core.steps.step import Wait
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark.offsets import Offset
from tests.behaviour.batches.test_streaming import Runs
from tests.behaviour.helpers import counts, one

FRESH = Offset("query", {})


async def send(broker: Any, *names: str) -> list[str]:
    """Send a message to each of these queues."""
    return [await broker.queue(name).send(0) for name in names]


async def test_names_and_patterns_are_read_by_one_offset(broker: Any) -> None:
    runs = Runs(broker, "orders.*", "payments")
    sent = await send(broker, "orders.eu", "orders.us", "payments")
    await send(broker, "orders", "other")
    end = await runs.advance(FRESH)
    assert sorted(end.queues) == ["orders.eu", "orders.us", "payments"]
    assert sorted(await runs.read(FRESH, end)) == sorted(sent)
    assert (await runs.advance(end)) == end
    assert [await counts(broker.queue(name)) for name in end.queues] == [{}] * 3
    assert await counts(broker.queue("orders")) == await counts(broker.queue("other")) == {"ready": 1}


async def test_a_pattern_takes_no_dead_letters(broker: Any) -> None:
    queue, runs = broker.queue("orders"), Runs(broker, "*")
    await send(broker, "orders")
    await (await one(queue)).poison(ValueError("no"))
    sent = await send(broker, "payments")
    assert await runs.read(FRESH, await runs.advance(FRESH)) == sent
    assert await counts(queue) == {"dead": 1}


async def test_a_queue_that_appears_later_is_read(broker: Any) -> None:
    runs = Runs(broker, "orders.*")
    await send(broker, "orders.eu")
    first = await runs.advance(FRESH)
    await runs.read(FRESH, first)
    sent = await send(broker, "orders.us")
    lost = await runs.advance(first)
    runs.restart()  # before Spark has written the offset
    second = await runs.advance(first)
    assert second == lost
    assert second.queues["orders.eu"] == first.queues["orders.eu"]
    assert await runs.read(first, second) == sent
    runs.restart()
    assert await runs.read(first, second) == sent
    assert await runs.advance(second) == second
    assert await counts(broker.queue("orders.us")) == {}


async def test_names_may_be_added_but_not_taken_away(broker: Any) -> None:
    first, both = Runs(broker, "orders"), Runs(broker, "orders", "payments")
    await send(broker, "orders")
    end = await first.advance(FRESH)
    await first.read(FRESH, end)
    sent = await send(broker, "payments")
    after = await both.advance(end)
    assert await both.read(end, after) == sent
    with pytest.raises(InvalidInput, match="the checkpoint is for payments, but the query reads orders"):
        await Runs(broker, "orders").advance(after)


async def test_available_now_reads_only_queues_of_its_begin(broker: Any) -> None:
    runs = Runs(broker, "orders.*")
    sent = await send(broker, "orders.eu")
    await broker._run(runs.query.backlog.bound())
    await send(broker, "orders.us")
    end = await runs.advance(FRESH)
    assert await runs.read(FRESH, end) == sent
    assert await runs.advance(end) == end
    assert await counts(broker.queue("orders.us")) == {"ready": 1}


async def test_idle_queues_are_waited_for_together(broker: Any) -> None:
    names = [f"orders.{number}" for number in range(6)]
    for name in names:
        await broker.queue(name).open()
    runs = Runs(broker, "orders.*", maxWait="1s")
    waits: list[int] = []

    def noted() -> Any:
        steps, answer = runs.query.advance(FRESH, 1_000), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Wait):
                waits.append(step.milliseconds)
            answer = 0 if isinstance(step, Wait) else (yield step)

    assert await broker._run(noted()) == FRESH
    assert waits == [250]


@pytest.mark.parametrize("queue", ["orders.*", "orders.eu,orders.us"], ids=["of a pattern", "of a list"])
@pytest.mark.parametrize("at", ["in the batch", "after it"])
async def test_a_deleted_queue_ends_the_query_or_is_left_out(
    broker: Any, queue: str, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(broker, "orders", queue=queue)
    sent = await send(broker, "orders.eu", "orders.us")
    end = await runs.advance(FRESH)
    if at == "after it":
        assert sorted(await runs.read(FRESH, end)) == sorted(sent)
    await broker.queue("orders.us").delete(force=True)
    with pytest.raises(DataLoss, match=r"no queue 'orders.us' any more.* failOnDataLoss=false"):
        await (runs.advance(end) if at == "after it" else runs.read(FRESH, end))
    careless = Runs(broker, "orders", queue=queue, failOnDataLoss="false")
    assert await careless.read(FRESH, end) == sent[:1]
    sent = await send(broker, "orders.eu")
    after = await careless.advance(end)
    assert await careless.read(end, after) == sent
    assert await careless.advance(after) == after
    assert caplog.text.count("there is no queue 'orders.us' any more") == 1
    assert "were no longer held" not in caplog.text
    assert await counts(broker.queue("orders.eu")) == {}
    sent = await send(broker, "orders.us")  # it is there again
    last = await careless.advance(after)
    assert await careless.read(after, last) == sent
    assert await careless.advance(last) == last
    assert await counts(broker.queue("orders.us")) == {}


async def test_a_queue_that_was_deleted_unread_is_missed_by_nobody(broker: Any) -> None:
    runs = Runs(broker, "orders.*")
    await broker.queue("orders.us").open()
    sent = await send(broker, "orders.eu")
    end = await runs.advance(FRESH)
    await broker.queue("orders.us").delete()
    assert await runs.read(FRESH, end) == sent
    assert await runs.advance(end) == end


async def test_a_query_whose_queues_are_all_gone_waits_for_others(broker: Any) -> None:
    runs = Runs(broker, "orders.*", failOnDataLoss="false")
    await send(broker, "orders.eu")
    end = await runs.advance(FRESH)
    await runs.read(FRESH, end)
    await broker.queue("orders.eu").delete(force=True)
    assert await runs.advance(end) == end
    sent = await send(broker, "orders.us")
    assert await runs.read(end, await runs.advance(end)) == sent


async def test_what_was_claimed_ahead_of_a_deleted_queue_is_given_up(broker: Any) -> None:
    runs = Runs(broker, "orders.*", failOnDataLoss="false")
    for name in ("orders.eu", "orders.us"):
        await broker.queue(name).send_many(range(20))
    end = await runs.advance(FRESH, most=20)
    assert (await runs.work_ahead(end, most=20)).queues["orders.us"].batch == 2
    await broker.queue("orders.us").delete(force=True)
    assert len(await runs.read(FRESH, end)) == 10
    await broker._run(runs.query.release_ahead())
    assert await counts(broker.queue("orders.eu")) == {"ready": 10, "leased": 10}


async def test_what_was_done_of_a_deleted_queue_is_not_said_to_come_again(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(broker, "orders.*", failOnDataLoss="false")
    for name in ("orders.eu", "orders.us"):
        await broker.queue(name).send_many(range(20))
    first = await runs.advance(FRESH, most=20)
    await runs.work_ahead(first, most=20)
    await runs.read(FRESH, first)
    second = await runs.advance(first, most=20)  # the ack is left for later
    await broker.queue("orders.us").delete(force=True)
    assert len(await runs.read(first, second)) == 10
    await runs.work_ahead(second, most=20)
    assert "were no longer held" not in caplog.text
    assert await counts(broker.queue("orders.eu")) == {"leased": 10}


async def test_available_now_ends_without_a_deleted_queue(broker: Any) -> None:
    runs = Runs(broker, "orders.*", failOnDataLoss="false")
    sent = await send(broker, "orders.eu", "orders.us")
    await broker._run(runs.query.backlog.bound())
    await broker.queue("orders.us").delete(force=True)
    end = await runs.advance(FRESH)
    assert await runs.read(FRESH, end) == sent[:1]
    assert await runs.advance(end) == end
