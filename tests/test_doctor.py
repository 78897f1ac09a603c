"""The doctor's judgements, on what servers said or might say; on real ones: tests/cli/test_doctor.py."""

from __future__ import annotations

from typing import Any

from rq_dlq import BrokerSettings
from rq_dlq.client.durability import DURABILITIES
from rq_dlq.doctor import Check
from rq_dlq.doctor.check import of_all
from rq_dlq.doctor.examine import changing
from rq_dlq.doctor.facts import ServerFacts
from rq_dlq.doctor.standing import cluster, eviction, persistence, promise, replicas, role
from rq_dlq.doctor.versions import version
from tests.tables import each_row

MASTER = {
    "redis_version": "7.4.9", "role": "master", "maxmemory_policy": "noeviction", "maxmemory": "0",
    "aof_enabled": "1", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok",
}  # fmt: skip
ALWAYS = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


def replicated(*lines: str) -> dict[str, str]:
    """What INFO says of a master with these replicas."""
    told = {f"slave{n}": f"ip=10.0.0.{n},port=6379,{line}" for n, line in enumerate(lines)}
    return {**MASTER, **told, "connected_slaves": str(len(lines)), "master_repl_offset": "1000"}


@each_row(
    "info, state, reason",
    [
        ({"redis_version": "7.4.9"}, "ok", ""),
        ({"redis_version": "7.4.8"}, "warn", "CVE-2026-23479"),
        ({"redis_version": "7.4.5"}, "warn", "CVE-2025-49844"),
        ({"redis_version": "6.2.20"}, "ok", ""),
        ({"redis_version": "6.2.14"}, "warn", "CVE-2025-49844"),
        ({"redis_version": "7.0.15"}, "warn", "unless your distribution has fixed it"),
        ({"redis_version": "6.0.20"}, "fail", "6.2 is the oldest supported"),
        ({"redis_version": "9.0.0"}, "ok", ""),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.0.4"}, "ok", ""),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.0.1"}, "warn", "67733"),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.3"}, "warn", "49844"),
        ({"redis_version": "7.2.4", "server_name": "another"}, "ok", ""),
        ({}, "warn", "INFO"),
    ],
)
def test_versions(info: dict[str, str], state: str, reason: str) -> None:
    check = version(ServerFacts(info))
    assert check.state == state
    assert reason in check.advice


@each_row(
    "info, durability, state, said",
    [
        (MASTER, "fsync", "ok", "a crash of the server or its machine loses no confirmed message"),
        ({**MASTER, "redis_version": "7.0.2"}, "fsync", "warn", "folder"),
        ({**MASTER, "redis_version": "6.2.14"}, "fsync", "warn", "io-threads"),
        ({**MASTER, "redis_version": "6.2.5", "os": "Darwin 22 arm64"}, "fsync", "warn", "6.2.6"),
        ({**MASTER, "redis_version": "6.2.14"}, "memory", "ok", "fsync: a crash of the server"),
        (MASTER, "memory", "ok", "replicated: not kept: 0 of 1"),
        (MASTER, "replicated", "fail", "0 of 1 replicas are online"),
        (replicated("state=online,offset=990,lag=1"), "replicated", "ok", "a failover keeps"),
        (replicated("state=online,offset=990,lag=11"), "replicated", "fail", "0 of 1"),
    ],
)
def test_promises(info: dict[str, str], durability: Any, state: str, said: str) -> None:
    check = promise(ServerFacts(info, ALWAYS), durability, 1)
    assert check.state == state
    assert said in check.found + check.advice


@each_row(
    "lines, wanted, state, said",
    [
        ((), 0, "ok", "none"),
        ((), 1, "fail", "none"),
        (("state=online,offset=990,lag=0",), 0, "ok", "10.0.0.0:6379 online, 10 bytes behind"),
        (("state=online,offset=990,lag=0",), 1, "warn", "run 3 servers, so that 2 replicas are online"),
        (("state=online,offset=990,lag=0",) * 2, 1, "ok", "10.0.0.0:6379 online, 10 bytes behind"),
        (("state=online,offset=990,lag=0",) * 2, 2, "warn", "run 4 servers, so that 3 replicas are online"),
        (("state=wait_bgsave,offset=0,lag=0",), 0, "warn", "not online yet (wait_bgsave)"),
        (("state=wait_bgsave,offset=0,lag=0",), 1, "fail", "not online yet"),
        (("state=online,offset=990,lag=40",), 0, "warn", "silent for 40 s"),
        (("state=online,offset=1,lag=0", "state=send_bulk,offset=0,lag=0"), 1, "warn", "send_bulk"),
        (("state=online,offset=1,lag=0",) * 2, 3, "fail", "online"),
    ],
)
def test_replicas(lines: tuple[str, ...], wanted: int, state: str, said: str) -> None:
    check, _ = replicas(ServerFacts(replicated(*lines)), wanted)
    assert check.state == state
    assert said in check.found + check.advice


@each_row(
    "least, good, wanted, state",
    [("0", "0", 0, "ok"), ("1", "1", 1, "ok"), ("0", "1", 1, "warn"), ("2", "1", 0, "fail")],
)
def test_min_replicas(least: str, good: str, wanted: int, state: str) -> None:
    info = {**replicated("state=online,offset=1,lag=0"), "min_slaves_good_slaves": good}
    _, check = replicas(ServerFacts(info, {"min-replicas-to-write": least}), wanted)
    assert (check.name, check.state) == ("min-replicas", state)


@each_row(
    "number, said",
    [(1, "with one replica more"), (2, "loses them: redis-cli CONFIG SET min-replicas-to-write 1")],
)
def test_min_replicas_are_not_advised_to_a_pair_of_servers(number: int, said: str) -> None:
    """After its failover there is no replica, so the setting would stop claims and acks."""
    _, check = replicas(ServerFacts(replicated(*["state=online,offset=1,lag=0"] * number)), 1)
    assert said in check.advice


def test_a_disk_that_cannot_be_written_fails() -> None:
    assert persistence(ServerFacts({**MASTER, "aof_last_write_status": "err"})).state == "fail"
    assert persistence(ServerFacts({**MASTER, "rdb_last_bgsave_status": "err"})).state == "fail"
    assert persistence(ServerFacts(MASTER, ALWAYS)).state == "ok"
    unread = persistence(ServerFacts(MASTER))
    assert (unread.state, unread.advice) == ("warn", "grant this user CONFIG GET (+config|get)")
    assert persistence(ServerFacts(MASTER, {"appendfsync": "everysec"})).state == "ok"
    assert persistence(ServerFacts(MASTER, {"appendfsync": "no"})).state == "warn"


@each_row(
    "config, said",
    [
        ({"save": "3600 1"}, "snapshots only: a crash now loses the last 7 changes"),
        ({"save": ""}, "neither an append-only file nor snapshots: a restart loses all"),
        (None, "no append-only file, perhaps no snapshots: a crash loses the last 7 changes, or all"),
    ],
)
def test_without_an_append_only_file(config: dict[str, str] | None, said: str) -> None:
    info = {**MASTER, "aof_enabled": "0", "rdb_changes_since_last_save": "7"}
    check = persistence(ServerFacts(info, config))
    assert (check.state, check.found) == ("warn", said)


def test_a_replica_and_a_cluster_that_is_down_fail() -> None:
    check = role(ServerFacts({"role": "slave", "master_host": "10.0.0.9", "master_port": "6379"}))
    assert (check.state, check.advice) == ("fail", "use the master, 10.0.0.9:6379")
    whole = {"cluster_state": "ok", "cluster_slots_ok": "16384", "cluster_known_nodes": "6"}
    assert cluster(ServerFacts({}, None, whole)).state == "ok"
    part = cluster(ServerFacts({}, None, {**whole, "cluster_slots_ok": "16383"}))
    assert (part.state, part.advice.partition(":")[0]) == ("fail", "queues in the other slots do not work")
    apart = cluster(ServerFacts({}, None, {**whole, "cluster_state": "fail"}))
    assert (apart.state, apart.advice.partition(":")[0]) == ("fail", "no queue works")
    assert cluster(ServerFacts({})).state == "warn"


def test_who_accepts_eviction_is_warned() -> None:
    evicts = ServerFacts({**MASTER, "maxmemory_policy": "allkeys-lru"})
    assert eviction(evicts).state == "fail"
    assert eviction(evicts, required=False).state == "warn"


def test_of_several_nodes_the_worst_is_told() -> None:
    ok, fail = Check("role", "ok", "master"), Check("role", "fail", "a replica", "use the master")
    assert list(of_all({"a": [ok], "b": [ok]})) == [ok]
    assert list(of_all({"a": [ok], "b": [fail]})) == [Check("role", "fail", "b: a replica", "use the master")]
    assert list(of_all({"a": [ok], "b": [Check("role", "ok", "too")]})) == [
        Check("role", "ok", "a: master; b: too")
    ]


def test_what_is_looked_at_again_goes_by_the_profile() -> None:
    def names(**options: Any) -> list[str]:
        return [check.name for check in changing(ServerFacts(MASTER, ALWAYS), BrokerSettings(**options))]

    assert names() == ["role", "eviction", "persistence", "replicas", "min-replicas"]
    assert names(durability="fsync")[3] == "durability"
    (check,) = [
        c for c in changing(ServerFacts(MASTER), BrokerSettings(durability="replicated")) if c.state == "fail"
    ]
    assert check.name == "replicas"


def test_what_is_not_told_is_never_ok() -> None:
    """But what follows from the settings alone, which no server could change."""
    facts = ServerFacts({})
    for durability in DURABILITIES:
        checks = [version(facts), *changing(facts, BrokerSettings(durability=durability))]
        assert {check.state for check in checks if check.name != "durability"} == {"warn"}
        assert all("grant this user" in check.advice for check in checks if check.state == "warn")
    assert promise(facts, "replicated", 1).state == "warn"
    assert promise(ServerFacts({}, ALWAYS), "fsync", 1).state == "warn"
    assert promise(facts, "fsync", 1).state == "fail"  # as a broker would refuse it
    assert "replicated: unknown" in promise(facts, "memory", 1).found


@each_row(
    "good, state, said",
    [(None, "warn", "isolated master"), ("0", "fail", "refuses changes"), ("1", "warn", "CONFIG GET")],
)
def test_min_replicas_without_the_configuration(good: str | None, state: str, said: str) -> None:
    info = replicated("state=online,offset=1,lag=0") | ({"min_slaves_good_slaves": good} if good else {})
    _, check = replicas(ServerFacts(info), 1)
    assert check.state == state
    assert said in check.advice
