"""Redis refuses settlements for a while, as when its disk is full: what was done is not done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerRefused, MissingRights, RqDlqError
from rq_dlq.core.settling import settle
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.worker.conftest import Working

COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
ALWAYS = 1_000_000
LATER = after("1h", most=9)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Refuse a verb so many times; returns what was refused."""
    for module in (
        "claimer",
        "holding",
        "thread_consumer",
        "async_consumer",
        "leases",
        "consumer",
        "async_settling",
    ):
        monkeypatch.setattr(f"rq_dlq.worker.{module}.RETRY_AFTER", 0.01)

    def refuse(verb: str, times: int, error: type[RqDlqError] = BrokerRefused) -> list[str]:
        refused, real = list[str](), getattr(settle, verb)

        def refusing(*arguments: Any, **options: Any) -> Any:
            if len(refused) < times:
                refused.append(verb)
                message = "the disk is full"
                raise error(message)
            return real(*arguments, **options)

        monkeypatch.setattr(settle, verb, refusing)
        return refused

    return refuse


def handle(queue: Any, colour: str, act: Callable[[Any], object]) -> None:
    async def awaiting(body: Any) -> None:
        act(body)

    queue.handler()(act if colour == "def" else awaiting)


@COLOURS
def test_acks_are_made_when_they_are_not_refused_any_more(
    colour: str, broker: rq_dlq.Broker, refuse: Callable[..., list[str]]
) -> None:
    queue, handled = broker.queue("a"), list[int]()
    queue.send_many(range(50))
    handle(queue, colour, handled.append)
    refused = refuse("ack", 5)
    worker = Worker(broker, until="empty")
    worker.run()
    assert len(refused) == 5
    assert worker.tally.counts == {"acked": 50}
    assert sorted(handled) == [*range(50)]


@COLOURS
def test_an_ack_does_not_wait_for_the_next_message(
    colour: str, broker: rq_dlq.Broker, working: Working, refuse: Callable[..., list[str]]
) -> None:
    """It was refused beside a claim that was not, and that now waits for long."""
    queue = broker.queue("a")
    handle(queue, colour, print)
    refuse("ack", 3)
    with working(broker):
        queue.send(1)
        wait_until(lambda: queue.stats().totals.get("acked") == 1, 20)


@COLOURS
def test_a_failure_is_settled_when_that_is_not_refused_any_more(
    colour: str, broker: rq_dlq.Broker, refuse: Callable[..., list[str]]
) -> None:
    queue = broker.queue("a", redelivery=LATER)
    queue.send("no number")
    handle(queue, colour, int)
    refused = refuse("settle_by_error", 3)
    worker = Worker(broker, until="empty")
    worker.run()
    assert len(refused) == 3
    assert worker.tally.counts == {"redelivered": 1}


@COLOURS
@pytest.mark.parametrize(("verb", "body"), [("ack", "1"), ("settle_by_error", "no number")])
def test_what_is_always_refused_is_given_up_after_the_time_of_a_lease(
    colour: str, verb: str, body: str, broker: rq_dlq.Broker, refuse: Callable[..., list[str]]
) -> None:
    queue = broker.queue("a", lease=0.5)
    queue.send(body)
    handle(queue, colour, int)
    refused = refuse(verb, ALWAYS)
    worker = Worker(broker, until="empty")
    worker.run()
    assert len(refused) > 1
    assert worker.tally.counts == {}


@COLOURS
def test_a_missing_right_is_not_asked_for_again(
    colour: str, broker: rq_dlq.Broker, refuse: Callable[..., list[str]]
) -> None:
    queue = broker.queue("a")
    queue.send(1)
    handle(queue, colour, print)
    refused = refuse("ack", ALWAYS, MissingRights)
    Worker(broker, until="empty").run()
    assert len(refused) == 1


@COLOURS
def test_a_burst_whose_claims_are_refused_says_so(colour: str, broker: rq_dlq.Broker, raw: Any) -> None:
    queue = broker.queue("a")
    queue.send(1)
    handle(queue, colour, print)
    raw.rename("rq:{a}:ready", "kept")
    raw.set("rq:{a}:ready", "not an index")
    with pytest.raises(RqDlqError, match=r"claims were refused, .* not processed: a: .*holds something else"):
        broker.run(burst=True)
    raw.rename("kept", "rq:{a}:ready")
    assert queue.stats().ready == 1
