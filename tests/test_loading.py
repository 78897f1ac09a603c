"""How a server gets the library: as functions; as a script, if it has none or the user may not load them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import rq_dlq
from rq_dlq._redis.acl import acl_line
from rq_dlq._redis.loading import AGAIN, Functions
from rq_dlq._redis.roles import ROLES
from rq_dlq._scripts import Scripts
from tests.servers.clusters import Cluster

FUNCTIONS = Scripts(form="functions")


@pytest.fixture
def raw_without(redis_client: Any) -> Iterator[Any]:
    """A server that has no functions, and no scripts, at first and at last."""
    raw = redis_client
    raw.flushall()
    raw.function_flush()
    raw.script_flush()
    yield raw
    raw.function_flush()
    for user in set(raw.acl_users()) - {"default"}:
        raw.acl_deluser(user)


def broker_of(raw: Any, user: str = "") -> rq_dlq.Broker:
    path = raw.connection_pool.connection_kwargs["path"]
    return rq_dlq.Broker(f"unix://{user}{path}", scripts=FUNCTIONS)


def libraries(raw: Any) -> list[bytes]:
    return [dict(zip(one[::2], one[1::2], strict=True))[b"library_name"] for one in raw.function_list()]


def there_and_back(broker: rq_dlq.Broker) -> None:
    """Send, claim and ack."""
    queue = broker.queue("loaded")
    queue.send("x")
    (delivery,) = queue.claim()
    assert delivery.ack()


def test_the_first_call_loads_the_library_and_a_lost_one_is_loaded_again(raw_without: Any) -> None:
    with broker_of(raw_without) as broker:
        there_and_back(broker)
        (name,) = libraries(raw_without)
        assert name.startswith(b"rq_")
        assert len(name) == len("rq_") + 12
        raw_without.function_flush()
        there_and_back(broker)
        assert libraries(raw_without) == [name]


def test_two_versions_are_there_at_the_same_time(raw_without: Any) -> None:
    clock = {"broker/clock": "function Clock.read()\n  return 1790000000000\nend\n"}
    with broker_of(raw_without) as broker:
        other = rq_dlq.Broker(broker.url, scripts=Scripts(clock, form="functions"))
        with other:
            there_and_back(broker)
            there_and_back(other)
            there_and_back(broker)
    assert len(libraries(raw_without)) == 2


@pytest.mark.parametrize("denied", ["-function|load", "-fcall -function|load"])
def test_who_may_not_load_it_runs_the_same_text_as_a_script(raw_without: Any, denied: str) -> None:
    raw_without.execute_command(
        "ACL", "SETUSER", "sender", "on", ">secret", "~*", "&*", "+@all", *denied.split()
    )
    with broker_of(raw_without, "sender:secret@") as broker:
        there_and_back(broker)
    assert libraries(raw_without) == []
    commands = raw_without.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] > 0


def test_whoever_ran_a_script_looks_for_the_functions_after_a_minute(raw_without: Any) -> None:
    raw_without.execute_command(
        "ACL", "SETUSER", "sender", "on", ">secret", "~*", "&*", "+@all", "-function|load"
    )
    with broker_of(raw_without, "sender:secret@") as broker, broker_of(raw_without) as operator:
        there_and_back(broker)
        there_and_back(operator)
        verbs = broker._connections.scripts  # type: ignore[union-attr]
        assert isinstance(verbs, Functions)
        raw_without.config_resetstat()
        there_and_back(broker)
        assert "cmdstat_fcall" not in raw_without.info("commandstats")
        began = verbs.clock()
        verbs.clock = lambda: began + AGAIN
        there_and_back(broker)
        assert raw_without.info("commandstats")["cmdstat_fcall"]["calls"] > 0


def test_a_full_server_drains_without_the_library(raw_without: Any) -> None:
    with broker_of(raw_without) as broker:
        queue = broker.queue("loaded")
        queue.send("x")
        (delivery,) = queue.claim()
        raw_without.function_flush()
        raw_without.config_set("maxmemory", 1)
        try:
            assert delivery.ack()
        finally:
            raw_without.config_set("maxmemory", 0)


def rights_of(role: str) -> list[str]:
    return acl_line(ROLES[role], role, "rq", scripts=FUNCTIONS).split()


def test_only_maintenance_may_load_a_library_and_all_may_call_it() -> None:
    lines = {role: rights_of(role) for role in ROLES}
    assert all("+fcall" in line for line in lines.values())
    assert [role for role, line in lines.items() if "+function|load" in line] == ["maintenance"]


def test_a_producer_and_a_consumer_with_these_rights_use_functions(raw_without: Any) -> None:
    for role in ("producer", "consumer"):
        raw_without.execute_command("ACL", "SETUSER", role, ">secret", *rights_of(role)[2:])
    with broker_of(raw_without) as operator:
        there_and_back(operator)
    raw_without.config_resetstat()
    with broker_of(raw_without, "producer:secret@") as producer:
        producer.queue("loaded").send("x")
    with broker_of(raw_without, "consumer:secret@") as consumer:
        (delivery,) = consumer.queue("loaded").claim()
        assert delivery.ack()
    assert "cmdstat_evalsha" not in raw_without.info("commandstats")


def test_each_master_of_a_cluster_is_loaded_when_it_is_first_met(cluster: Cluster) -> None:
    with rq_dlq.Broker(cluster.url, scripts=FUNCTIONS) as broker:
        for n in range(12):  # on all nodes
            queue = broker.queue(f"loaded{n}")
            queue.send("x")
            (delivery,) = queue.claim()
            assert delivery.ack()
