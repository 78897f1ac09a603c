"""How long a call is repeated while no server answers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable
from rq_dlq._redis import Retries
from rq_dlq._redis.retries import FAIL_FAST
from tests.connections.conftest import Opening
from tests.servers import free_port
from tests.servers.sentinels import MASTER

FIVE_SECONDS = Retries(attempts=None, seconds=5.0)


def retries_of(broker: Any) -> Retries:
    """The retries of its connections, which nothing needs to answer."""
    connections = broker._open(broker._retries)
    try:
        return connections._patience  # type: ignore[no-any-return]
    finally:
        connections.close()


@pytest.mark.parametrize(
    ("host", "options", "retries"),
    [
        ("redis://", {}, FAIL_FAST),
        ("redis://", {"patience": "30s"}, Retries(attempts=None, seconds=30.0)),
        ("redis://", {"patience": "0s"}, Retries(attempts=1)),
        ("redis+sentinel://", {}, FIVE_SECONDS),
        ("redis+sentinel://", {"patience": "1s"}, Retries(attempts=None, seconds=1.0)),
        ("redis+sentinel://", {"patience": 0}, Retries(attempts=1)),
    ],
)
def test_a_failover_takes_longer_than_a_single_server_is_tried(
    host: str, options: dict[str, Any], retries: Retries
) -> None:
    with rq_dlq.Broker(f"{host}127.0.0.1:1/{MASTER if 'sentinel' in host else 0}", **options) as broker:
        assert retries_of(broker) == retries
        assert retries_of(pickle.loads(pickle.dumps(broker))) == retries  # noqa: S301 - made here


async def test_the_error_says_how_long_it_was_tried(opened: Opening) -> None:
    async with opened(f"redis+sentinel://127.0.0.1:{free_port()}/{MASTER}", patience="0.3s") as broker:
        with pytest.raises(BrokerUnavailable, match=r"gave up after 0\.3 s: Broker\(patience=…\)") as failure:
            await broker.queue("a").send(1)
    assert not failure.value.indeterminate


async def test_a_single_server_that_is_down_has_its_usual_error(opened: Opening) -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}") as broker:
        with pytest.raises(BrokerUnavailable, match=r"(?m)start Redis.*server$"):
            await broker.queue("a").send(1)
