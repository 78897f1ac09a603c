"""`rq-dlq doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import redis
from click.testing import CliRunner

from rq_dlq.cli import main
from tests import servers
from tests.cli.conftest import Shell


def states(shell: Shell, code: int = 0) -> dict[str, str]:
    checks = json.loads(shell("doctor", "-o", "json", code=code).stdout)
    return {check["name"]: check["state"] for check in checks}


def test_a_fit_server_passes_and_nothing_is_left_behind(shell: Shell, redis_socket: str) -> None:
    with redis.Redis(unix_socket_path=redis_socket) as client:
        before = set(client.keys())
        found = states(shell)
        assert set(client.keys()) == before
    assert found == {
        "server reachable": "ok",
        "version": "ok",
        "role": "ok",
        "eviction": "ok",
        "persistence": "warn",  # the tests' server writes nothing to disk
        "clock": "ok",
        "round trip": found["round trip"],
        "scripts": "ok",
    }


def test_a_table_says_what_to_do_next(shell: Shell) -> None:
    told = shell("doctor").stdout
    assert "→ redis-cli CONFIG SET appendonly yes" in told


def test_a_server_that_evicts_fails(tmp_path: Path) -> None:
    with servers.running("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as path:
        shell = Shell(f"unix://{path}", "doctor", tmp_path)
        assert states(shell, code=1)["eviction"] == "fail"
        assert "noeviction" in shell("doctor", code=1).stdout
        assert "maxmemory-policy" in shell("queue", "ls", code=3).stderr


def test_an_append_only_file_is_well(tmp_path: Path) -> None:
    with servers.running("--appendonly", "yes") as path:
        assert states(Shell(f"unix://{path}", "doctor", tmp_path))["persistence"] == "ok"


def test_a_replica_fails(tmp_path: Path) -> None:
    with servers.running("--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "yes") as path:
        found = states(Shell(f"unix://{path}", "doctor", tmp_path), code=1)
        assert (found["role"], found["scripts"]) == ("fail", "fail")


def test_a_server_that_is_not_there_fails(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--url", f"unix://{tmp_path}/none.sock", "doctor"])
    assert result.exit_code == 1
    assert "cannot reach" in result.stdout
