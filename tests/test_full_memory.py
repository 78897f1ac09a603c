"""A server whose memory is full refuses what adds, and lets the rest drain it (I9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from rq_dlq import Broker, BrokerRefused, RedeliveryPolicy, ResultUnavailable
from rq_dlq._scripts import Joined
from rq_dlq.client.settings import version_of
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from tests import servers
from tests.audit import audit
from tests.behaviour.stepping import alone
from tests.conftest import MOVED_CLOCK
from tests.contents import contents
from tests.model.driver import Driver
from tests.model.steps import STEPS
from tests.model.world import World
from tests.needs import need_release
from tests.verbs import VERBS


@pytest.fixture
def full() -> Iterator[tuple[Broker, Any]]:
    """A broker whose server has taken 300 messages and takes no more."""
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        Broker(f"unix://{path}") as broker,
    ):
        queue = broker.queue(
            "q", redelivery=RedeliveryPolicy(initial_delay="1h", max_delay="1h", max_redeliveries=1)
        )
        queue.send_many(["x" * 1000] * 300)
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] // 2)  # buffers of clients go later
        yield broker, raw


def test_a_send_is_refused_and_adds_nothing(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    with pytest.raises(BrokerRefused, match="out of memory"):
        broker.queue("q").send("y" * 1000)
    assert audit(raw, "q")["ready"] == 300


def test_an_ack_that_sends_is_refused_and_its_message_is_held(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    with room(raw):
        (delivery,) = broker.queue("q").claim()
    for send in ([(broker.queue("q"), "y")], [(broker.queue("other"), "y")]):
        with pytest.raises(BrokerRefused, match="out of memory"):
            delivery.ack(send=send)
    assert (delivery.outcome, audit(raw, "q")["leased"]) == (None, 1)
    assert delivery.ack().outcome == "acked"


def test_an_ack_goes_on_whose_result_finds_no_room(full: tuple[Broker, Any]) -> None:
    """From Redis 7 on scripts that drain a queue may go beyond the limit; then it finds room."""
    broker, raw = full
    raw.config_set("maxmemory", 0)
    sent = broker.queue("results").send("x", result=True)
    (delivery,) = broker.queue("results").claim()
    raw.config_set("maxmemory", 1)
    assert delivery.ack(result="done").outcome == "acked"
    if version_of(raw.info("server")["redis_version"]) >= (7,):
        assert sent.result() == "done"
    else:
        with pytest.raises(ResultUnavailable):
            sent.result()


def test_what_is_there_can_be_drained(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")
    queue.nack(queue.claim(100), ValueError("x"))
    queue.poison(queue.claim(50), "bad")
    queue.release(queue.claim(50))
    while deliveries := queue.claim(100):
        queue.ack(deliveries)
    assert audit(raw, "q") == {"scheduled": 100, "dead": 50}
    assert queue.stats().totals["acked"] == 150


@contextmanager
def room(raw: Any) -> Iterator[None]:
    """Memory without a limit, for a while."""
    limit = raw.config_get("maxmemory")["maxmemory"]
    raw.config_set("maxmemory", 0)
    yield
    raw.config_set("maxmemory", limit)


def can_drain(raw: Any) -> None:
    """Before Redis 7 no script may add a lease when memory is full."""
    need_release(version_of(raw.info("server")["redis_version"]), 7)


def test_what_is_to_be_dropped_is_dropped(full: tuple[Broker, Any]) -> None:
    """Poisoned, lapsed, kept for long enough: the scripts that discard run, too."""
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")
    queue.poison(queue.claim(50), "bad")
    with room(raw):
        broker.policies.set("q", redelivery={"max_redeliveries": 0}, dead_letter=None, pinned=True)
    queue.poison(queue.claim(100), "bad")
    assert len(queue.claim(100, lease="10ms")) == 100
    servers.wait_until(lambda: queue.maintain()["swept"])
    assert queue.stats().totals["discarded"] == 200
    with room(raw):
        broker.policies.set("q", dead_letter={"expiration": "1ms"}, pinned=True)
    servers.wait_until(lambda: queue.maintain()["retired"])
    assert audit(raw, "q") == {"ready": 50}
    assert queue.stats().totals["discarded"] == 250


def test_a_paused_queue_can_be_resumed_and_drained(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")
    with room(raw):
        assert broker.queue("q").pause()
    assert queue.claim() == []
    assert queue.resume()
    queue.ack(queue.claim(100))
    assert audit(raw, "q") == {"ready": 200}


def test_what_an_operator_adds_is_refused_and_changes_nothing(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    with room(raw):
        broker.queue("other").send("x")
    chosen = broker.queue("q").select(limit=10)
    for change in (
        chosen.dead_letter,
        chosen.expire,
        lambda: chosen.move("other"),
        lambda: chosen.copy("other"),
    ):
        with pytest.raises(BrokerRefused, match="out of memory"):
            change()
    assert audit(raw, "q") == {"ready": 300}
    assert audit(raw, "other") == {"ready": 1}


def test_a_session_that_only_acks_drains(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")
    with queue.session() as session:
        assert len(session.claim(100)) == 100
    assert queue.stats().totals["acked"] == 100
    assert audit(raw, "q") == {"ready": 200}


def test_batches_can_be_drained(full: tuple[Broker, Any]) -> None:
    """By a query that begins them, keeps them, halves those that fail."""
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")._core
    keys, run = queue.keys, broker._run
    batch = run(batches.claim_batch(queue, "b", limit=200, lease=60_000))
    run(alone(batch_calls.begin_batch(keys, "query", batch=1, run="a")))
    assert run(batches.extend_batch(keys, batch.tokens, 60_000)) == []
    assert run(batches.halve_batch(keys, batch.tokens, "rest")) == 100
    assert run(batches.ack_batch(keys, batch.tokens)) == 100
    run(alone(batch_calls.note_done(keys, "query", 1)))
    rest = run(batches.find_batch(keys, "rest"))
    assert run(batches.ack_batch(keys, rest.tokens)) == 100
    assert audit(raw, "q") == {"ready": 100}


def send_what_was_claimed(queue: Any) -> None:
    with queue.session() as session:
        for delivery in session.claim(5):
            session.send(queue, delivery.body)


def test_a_session_that_is_refused_charges_nothing(full: tuple[Broker, Any]) -> None:
    broker, raw = full
    can_drain(raw)
    queue = broker.queue("q")
    for _ in range(3):  # more than the budget
        with pytest.raises(BrokerRefused, match="out of memory"):
            send_what_was_claimed(queue)
    assert queue.stats().dead == 0
    assert {message.charged for message in queue.select(places=["scheduled"]).browse()} == {0}
    assert audit(raw, "q") == {"ready": 285, "scheduled": 15}


# Every script

ADDS = [verb.name for verb in VERBS.values() if verb.refused]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A server of its own, whose memory these tests fill."""
    with servers.running() as path, redis.Redis(unix_socket_path=path) as raw:
        can_drain(raw)
        yield raw


def tried(raw: Any, step: str) -> tuple[bool, bool]:
    """A step when memory is full: whether it was refused, and whether something changed."""
    world = World(raw)
    call = STEPS[step][0](world)
    before = contents(raw)
    raw.config_set("maxmemory", 1)
    try:
        Driver(raw, verbs=MOVED_CLOCK.for_server((7,))).run(call)
    except BrokerRefused as refused:
        assert "out of memory" in str(refused), refused  # noqa: PT017 - others are failures
        return True, contents(raw) != before
    finally:
        raw.config_set("maxmemory", 0)
    return False, contents(raw) != before


@pytest.fixture(scope="module")
def verbs(server: Any) -> dict[str, str]:
    """Which script each step runs; to find out takes a world for each of them."""
    return {name: step(World(server)).verb for name, (step, _) in STEPS.items()}


def test_what_drains_says_so() -> None:
    verbs = Joined()
    assert {name for name in VERBS if verbs[name].drains} == {v.name for v in VERBS.values() if v.drains}


def test_a_full_server_runs_every_step_that_drains(server: Any, verbs: dict[str, str]) -> None:
    steps = [step for step, script in verbs.items() if script not in ADDS]
    assert steps
    assert [step for step in steps if tried(server, step)[0]] == []


@pytest.mark.parametrize("script", ADDS)
def test_a_full_server_refuses_what_adds_and_nothing_is_changed(
    server: Any, verbs: dict[str, str], script: str
) -> None:
    seen = {step: tried(server, step) for step, runs in verbs.items() if runs == script}
    assert any(is_refused for is_refused, _ in seen.values())
    assert [step for step, (_, has_changed) in seen.items() if has_changed] == []
