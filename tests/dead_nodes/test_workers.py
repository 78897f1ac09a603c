"""A worker whose queues are on nodes that answer goes on, whatever else it cannot reach."""

from __future__ import annotations

import threading

import pytest

import rq_dlq
from rq_dlq._redis import FAIL_FAST
from rq_dlq.core.processes import processes
from rq_dlq.doctor.vitals import Vitals
from rq_dlq.worker import reporting
from rq_dlq.worker.reporting import Reporting
from rq_dlq.worker.tally import Tally
from rq_dlq.worker.worker import Worker
from tests.dead_nodes.conftest import HERE, Kill, asked
from tests.servers import wait_until
from tests.servers.clusters import Cluster


def test_the_node_of_the_reports_is_asked_once(nodes: Cluster, kill: Kill) -> None:
    """The worker's maintenance, schedules and leases come after the report, and must not wait for it."""
    with rq_dlq.Broker(nodes.nodes[1].url) as broker:
        connections, vitals = broker._connect(FAIL_FAST), Vitals(bool)
        own = Reporting(broker.settings, [], Tally(), vitals)
        own.report(connections, stopping=False)
        assert len(broker._run(processes.processes("rq"))) == 1
        seen = asked(connections, kill(2))
        own.report(connections, stopping=True)
        own.leave(connections)
        assert len(seen) == 1
        assert not vitals.redis
        connections.close()


def test_a_worker_of_other_nodes_works_and_is_ready(
    monkeypatch: pytest.MonkeyPatch, nodes: Cluster, kill: Kill
) -> None:
    monkeypatch.setattr(reporting, "PERIOD", 0.05)
    done = list[str]()
    with rq_dlq.Broker(nodes.nodes[1].url) as broker:
        queue = broker.queue(HERE)
        queue.handler(done.append)
        worker = Worker(broker)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            queue.send("first")  # for its first message a queue is opened, which asks all nodes
            wait_until(lambda: done == ["first"])
            kill(2)
            queue.send("second")
            queue.schedule("beat", "tick", every="1s")
            wait_until(lambda: {"second", "tick"} <= {*done} and not worker.vitals.redis)
        finally:
            worker.stop.signal()
            thread.join(60)
        assert not thread.is_alive(), "the worker did not stop"
