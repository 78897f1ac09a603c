"""Versions beside each other on a queue with a breaker: one that does not know it refuses the queue."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import rq_dlq
from rq_dlq import Breaker, RedeliveryPolicy
from rq_dlq.policy import Entry, PerKey
from rq_dlq.policy.fields import later_kind
from tests.format import other
from tests.format.side_by_side import FORMS

if TYPE_CHECKING:
    from tests.conftest import Clock


def test_an_entry_is_of_a_kind_that_they_do_not_know() -> None:
    for entry in (
        Entry.of(breaker=Breaker(distinct=3), dead_letter={"process_expired": True}),
        Entry.of(breaker="on", per_key=PerKey(order=True)),
    ):
        wire = msgspec.json.decode(entry.encode())
        assert (later_kind("dead_letter", wire["dead_letter"]) or "").startswith("sha1-breaker ")
        assert Entry.decode(entry.encode()) == entry
    off = Entry.of(breaker=None)
    assert msgspec.json.decode(off.encode()) == {"breaker": None}
    assert Entry.decode(off.encode()) == off


async def test_who_has_opened_the_queue_before_has_to_open_it_again(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x")
    before = raw.hget("rq:{a}:settings", "opening")
    await broker.policies.set("a", breaker="on")
    opened = raw.hget("rq:{a}:settings", "opening")
    assert opened not in {before, None}
    await broker.policies.set("a", breaker="distinct=3")
    assert raw.hget("rq:{a}:settings", "opening") == opened


async def test_a_breaker_of_a_later_version_is_refused(broker: Any, raw: Any) -> None:
    raw.hset("rq:policies", mapping={"a": '{"breaker":"anew 7"}', "#version": 1})
    try:
        await broker.queue("a").send("x")
    except rq_dlq.UpgradeRequired as error:
        assert "breaker is 'anew 7'" in str(error)  # noqa: PT017 - of a queue that may not be opened
    else:
        raise AssertionError("it was opened")


@pytest.mark.parametrize("backend", ["real"], indirect=True)  # both are programs of one server
def test_two_forms_go_through_an_outage_together(empty_socket: str, raw: Any, clock: Clock) -> None:
    """Their failures count together; what is refunded keeps the fields that only the other form knows."""
    policy = RedeliveryPolicy(initial_delay="1s", collision_avoidance=0, max_redeliveries=1)
    breaker = Breaker(distinct=4, probe="1s")
    with ExitStack() as stack:
        url = f"unix://{empty_socket}"
        brokers = [stack.enter_context(rq_dlq.Broker(url, verbs=form)) for form in FORMS.values()]
        queues = [broker.queue("a", breaker=breaker, redelivery=policy) for broker in brokers]
        for queue in queues:
            queue.send_many(range(5), dependency="payments")
        held = [delivery for queue in (*queues, *queues) for delivery in queue.claim(1)]
        for delivery in reversed(held):
            delivery.nack("no answer")
        assert [queue.dependency("payments").stats().open for queue in queues] == [True, True]
        assert [message.charged for message in queues[0].select().browse()] == [0] * 10
        states = [raw.hget("rq:{a}:states", delivery.id) for delivery in held]
        assert [other.SHAPES in state for state in states] == [False, True, False, True]
        assert [queue.claim(20) for queue in queues] == [[], []]
        done = list[str]()
        for queue in cycle(queues):
            clock.advance("1s")
            for delivery in queue.claim(20):
                delivery.ack()
                done.append(delivery.id)
            if not queue.stats().waiting:
                break
        assert len(set(done)) == len(done) == 10
        assert queues[0].stats().dead == 0
        assert not queues[0].dependency("payments").stats().open
