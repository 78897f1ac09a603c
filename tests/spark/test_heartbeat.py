"""The driver's renewal of leases."""

from __future__ import annotations

from typing import Any

import pytest

import rq_dlq
from rq_dlq.core.batches import batches
from rq_dlq.spark.heartbeat import Heartbeat
from tests.servers import wait_until


@pytest.mark.parametrize("failure", [MemoryError("for a moment"), rq_dlq.BrokerUnavailable("for a moment")])
def test_it_outlives_an_error(
    failure: Exception, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    queue = broker.queue("orders")
    queue.send("x")
    (delivery,) = queue.claim()
    renewed, renew = list[bool](), batches.extend_batch

    def fail_once(keys: Any, tokens: list[str], _: int) -> Any:
        renewed.append(True)
        if len(renewed) == 2:  # the first by the thread of the heartbeat
            raise failure
        return renew(keys, tokens, 60_000)  # so that none lapses on a busy machine

    monkeypatch.setattr(batches, "extend_batch", fail_once)
    heartbeat = Heartbeat(broker, lease=60)
    heartbeat.keep({queue._core.keys: [delivery.token]})
    wait_until(lambda: len(renewed) > 3)
    heartbeat.stop()
    (record,) = [one for one in caplog.records if "of a batch were not renewed" in one.getMessage()]
    assert (record.exc_info is None) == isinstance(failure, rq_dlq.RqDlqError)
