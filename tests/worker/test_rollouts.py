"""Workers of two versions of a program on one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rq_dlq
from rq_dlq.values.signature import under
from tests.servers import wait_until

if TYPE_CHECKING:
    from tests.worker.conftest import Working


def test_a_new_task_waits_for_the_worker_that_knows_it(server: str, raw: object, working: Working) -> None:
    del raw
    old, new = rq_dlq.Broker(f"unix://{server}"), rq_dlq.Broker(f"unix://{server}")
    done: list[tuple[str, int, int, bool]] = []

    @old.task(queue="shop", name="grown")
    def grown_before(n: int) -> None:
        done.append(("old", n, 0, False))

    @new.task(queue="shop")
    def grown(n: int, vat: int = 0, delivery: rq_dlq.Delivery[object] | None = None) -> None:
        assert delivery is not None
        done.append(("grown", n + vat, delivery.attempt, delivery.redelivered))

    @new.task(queue="shop")
    def fresh(n: int, delivery: rq_dlq.Delivery[object] | None = None) -> None:
        assert delivery is not None
        done.append(("fresh", n, delivery.attempt, delivery.redelivered))

    queue = new.queue("shop")
    with old, new:
        with working(old) as worker:
            fresh.send(1)
            grown.send(1, vat=1)
            wait_until(lambda: worker.tally.counts["passed_on"] >= 2)
        assert queue.stats().dead == 0
        with working(new):  # not beside the old one: which of two takes a message next is chance
            wait_until(lambda: len(done) == 2)
            wait_until(lambda: queue.stats().totals["acked"] == 2)
    assert sorted(done) == [("fresh", 1, 1, False), ("grown", 2, 1, False)]


def test_a_worker_reports_what_it_takes(broker: rq_dlq.Broker, working: Working) -> None:
    @broker.task(queue="shop")
    def grown(n: int, note: str = "hidden") -> None:
        del n, note

    broker.queue("plain", type=int).handler(print)
    with working(broker):
        wait_until(lambda: len(broker.workers()) == 1)
        (report,) = broker.workers()
    takes = {name: queue.takes or {} for name, queue in report.queues.items()}
    assert takes["shop"]["grown"].text == "(n: int, note: str = …)"
    assert takes["plain"][""].text == "int"
    assert under(takes["shop"], "fresh") is None
    assert under(takes["plain"], "fresh") == takes["plain"][""]
    marks = [report.mark_for("shop", "grown"), report.mark_for("plain", ""), report.mark_for("else", "")]
    assert [len(mark) for mark in marks] == [8, 8, 0]
