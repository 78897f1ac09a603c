"""Steps that are sent at once, and whose replies are read later."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerUnavailable
from rq_dlq._redis import Retries
from rq_dlq._redis.in_flight import InFlight, Underway
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.step import Steps
from rq_dlq.values.settlement import Settlement
from tests.servers import wait_until
from tests.servers.clusters import Cluster


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """Only the real server: fakeredis answers at once, whoever asks."""
    return str(request.param)


@pytest.fixture
def queue(sync_broker: rq_dlq.Broker) -> rq_dlq.Queue[Any]:
    """A queue whose verbs the server knows, and whose rights are proven."""
    queue = sync_broker.queue("a")
    queue.send("first")
    queue.ack(queue.claim())
    queue.send_many(range(10))
    return queue


def acking(queue: rq_dlq.Queue[Any]) -> Steps[list[Settlement]]:
    """The steps that ack a message."""
    (delivery,) = queue.claim()
    return settle.ack(queue._core, [delivery._held])


def connections(queue: rq_dlq.Queue[Any]) -> Any:
    return queue._broker._connections


def outcomes(settlements: list[Settlement]) -> list[str]:
    return [settlement.outcome for settlement in settlements]


def test_they_are_done_before_the_reply_is_read(queue: rq_dlq.Queue[Any], raw: Any) -> None:
    begun = InFlight(connections(queue), acking(queue))
    assert begun.is_sent
    wait_until(lambda: raw.hlen("rq:{a}:messages") == 9)
    wait_until(lambda: begun.is_answered)
    assert outcomes(begun.result(connections(queue))) == ["acked"]


def test_each_has_a_connection_for_itself(queue: rq_dlq.Queue[Any], raw: Any) -> None:
    """A server that cannot reply to a dead client reads no further from its connection."""
    steps = [acking(queue) for _ in range(3)]
    before = raw.info("clients")["connected_clients"]
    begun = [InFlight(connections(queue), one) for one in steps]
    assert raw.info("clients")["connected_clients"] >= before + 2
    assert [outcomes(one.result(connections(queue))) for one in begun] == [["acked"]] * 3
    assert len({id(one) for one in connections(queue)._link._idle._all}) == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_lost_settles_nothing_twice(
    when: str, queue: rq_dlq.Queue[Any], raw: Any
) -> None:
    """The repetition says that it was done, as that of a call without a reply does (I12)."""
    steps = acking(queue)
    if when == "before":
        raw.client_kill_filter(skipme=True, _type="normal")
    begun = InFlight(connections(queue), steps)
    if when == "after":
        wait_until(lambda: raw.hlen("rq:{a}:messages") == 9)
        begun._connection.disconnect()
    assert outcomes(begun.result(connections(queue))) == ["acked" if when == "before" else "settled"]
    assert raw.hlen("rq:{a}:messages") == 9


def test_without_a_server_the_result_is_the_error(
    queue: rq_dlq.Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty, steps = connections(queue).with_retries(Retries(attempts=1)), acking(queue)

    def refuse(_: Any) -> Any:
        message = "no server"
        raise redis.ConnectionError(message)

    connections(queue).close()
    monkeypatch.setattr("rq_dlq._redis.blocking.link.Link._connected", refuse)
    begun = InFlight(hasty, steps)
    assert not begun.is_sent
    assert begun.is_answered
    with pytest.raises(BrokerUnavailable, match="no server"):
        begun.result(hasty)


@pytest.mark.parametrize("late", [False, True])
def test_a_socket_that_the_program_has_closed_is_a_lost_connection(
    late: bool, queue: rq_dlq.Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a handler may do; the worker's thread looks at it meanwhile."""
    read = list[list[str]]()
    underway = Underway[list[Settlement]](lambda _, settlements: read.append(outcomes(settlements)))
    begun = InFlight(connections(queue), acking(queue))
    begun._connection._sock.close()
    if late:
        monkeypatch.setattr(begun, "_timeout", -1)
    underway.add(begun)
    underway.read_meanwhile(connections(queue))
    assert read in ([["settled"]], [["acked"]])


def test_a_reply_that_is_late_is_not_waited_for_again(queue: rq_dlq.Queue[Any], raw: Any) -> None:
    """The time since it was sent counts."""
    steps = acking(queue)
    raw.client_pause(60_000, all=False)  # all that write
    begun = InFlight(connections(queue), steps)
    at_first = begun.is_answered
    begun.began -= 3_600
    assert (at_first, begun.is_answered) == (False, True)
    began = time.monotonic()
    raw.client_unpause()
    assert outcomes(begun.result(connections(queue)))[0] in {"acked", "settled"}
    assert time.monotonic() - began < connections(queue)._timeout


def test_who_reads_meanwhile_does_not_wait(queue: rq_dlq.Queue[Any], raw: Any) -> None:
    found = list[str]()
    underway = Underway[Any](lambda _, settlements: found.extend(outcomes(settlements)))
    steps = [acking(queue), acking(queue)]
    raw.client_pause(60_000, all=False)  # all that write
    for one in steps:
        underway.add(InFlight(connections(queue), one))
    underway.read_meanwhile(connections(queue))
    assert (found, len(underway)) == ([], 2)
    raw.client_unpause()
    underway.read(connections(queue), but=1)
    assert (found, len(underway)) == (["acked"], 1)
    underway.read_meanwhile(connections(queue), every=True)
    assert (found, len(underway)) == (["acked"] * 2, 0)


@pytest.mark.usefixtures("queue")
def test_over_a_pool_of_the_program_they_are_done_at_once(server: str) -> None:
    """It may have no connection to spare, and would wait for one."""
    pool = redis.BlockingConnectionPool.from_url(f"unix://{server}", max_connections=1, timeout=0)
    with rq_dlq.Broker(pool=pool) as broker:
        other = broker.queue("a")
        steps = [acking(other) for _ in range(2)]
        begun = [InFlight(connections(other), one) for one in steps]
        assert [outcomes(one.result(connections(other))) for one in begun] == [["acked"]] * 2
    pool.disconnect()


def test_in_a_cluster_they_are_done_at_once(cluster: Cluster) -> None:
    with rq_dlq.Broker(cluster.url) as broker:
        queue = broker.queue("begun")
        queue.send_many(range(2))
        steps = [acking(queue) for _ in range(2)]
        begun = [InFlight(connections(queue), one) for one in steps]
        assert [outcomes(one.result(connections(queue))) for one in begun] == [["acked"]] * 2
        queue.purge(all=True)
