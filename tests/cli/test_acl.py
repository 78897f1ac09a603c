"""`rq-dlq acl`: a line for each role, which servers take and programs can work with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rq_dlq._redis.roles import ROLES
from rq_dlq.client.settings import version_of
from tests import servers
from tests.cli.conftest import ROOT, Shell
from tests.servers import Server, wait_until
from tests.servers.acl import acl_file, reads_apart
from tests.servers.warm import Warm
from tests.tables import each_row

APP = """
import rq_dlq

broker = rq_dlq.Broker()
orders = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))


@orders.handler()
def handle(body):
    if body == "bad":
        raise ValueError("out of stock")
    broker.queue("bills").send(body)
"""


@pytest.fixture(params=servers.programs(), ids=str)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that has read the lines from a file."""
    file = acl_file(tmp_path, str(request.param), "secret", ROLES)
    with Server(tmp_path, "--aclfile", str(file), program=str(request.param)) as server:
        yield server


def line(role: str) -> str:
    return (ROOT / "docs" / "acl" / f"{role}.acl").read_text().strip()


@each_row("role", ROLES)
def test_the_files_are_what_it_prints(role: str, tmp_path: Path) -> None:
    """Where not: `rq-dlq acl producer > docs/acl/producer.acl`, and so on."""
    assert Shell("", "rq", tmp_path)("acl", role).output == f"{line(role)}\n"


def test_every_role_can_do_its_work(server: Server, tmp_path: Path, warm: Warm) -> None:
    def at(role: str) -> Shell:
        return Shell(f"unix://{role}:secret@{server.socket}", "rq", tmp_path, warm)

    (tmp_path / "shop.py").write_text(APP)
    at("producer")("send", "orders", typed="good\nbad\n")
    with at("consumer").process("worker", "shop:broker", "--burst") as worker:
        said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 0, said
    assert "lacks" not in said
    look = at("read-only")
    counts = {row["name"]: (row["ready"], row["dead"]) for row in look.json("queue", "ls")}
    assert counts == {"orders": (0, 1), "bills": (1, 0)}
    assert [row["body"] for row in look.json("peek", "bills")] == ["good"]
    assert [row["error"] for row in look.json("dlq", "groups", "orders")] == ["ValueError: out of stock"]
    assert 'rq_dlq_messages{queue="orders",state="dead"} 1.0' in look("metrics").stdout
    assert "lacks +" in look("dlq", "redrive", "orders", "--all", "--yes", code=3).output
    with at("maintenance").process("maintain", "--period", "10ms") as process:
        wait_until(lambda: look.json("queue", "ls", "--maintainers"))
        process.terminate()
        log = process.communicate(timeout=60)[1]
    assert process.returncode == 0, log
    assert "lacks" not in log
    at("maintenance")("dlq", "redrive", "orders", "--all", "--yes")
    assert look.json("queue", "show", "orders")["ready"] == 1
    assert "lacks +" in look("queue", "purge", "bills", "--all", "--yes", code=3).output


def test_a_user_of_some_queues_alone(server: Server, tmp_path: Path) -> None:
    shell = Shell(server.url, "rq", tmp_path)
    with server.client() as client:
        said = shell("acl", "producer", "--user", "joe", "--queue", "orders*", "-o", "json")
        version = client.info("server")["redis_version"]
        assert (f"for Redis {version}, the server at {server.url}" in said.stderr) != reads_apart(version)
        words = json.loads(said.stdout)["line"].split()
        client.execute_command("ACL", "SETUSER", *words[1:], ">secret")
    joe = Shell(f"unix://joe:secret@{server.socket}", "rq", tmp_path)
    joe("send", "orders.new", typed="1\n")
    refused = joe("send", "bills", typed="1\n", code=3).output
    assert "lacks ~rq:{bills}:*" in refused
    listed = joe("queue", "ls").output
    assert "orders.new" in listed
    assert "maintain" not in listed
    assert "lacks ~rq:processes" in joe("queue", "ls", "--maintainers", code=3).output
    hint = "`rq-dlq doctor --queue NAME`"
    assert hint in " ".join(joe("doctor", code=1).output.split())
    assert hint not in " ".join(joe("doctor", "--queue", "orders.new").output.split())


def test_a_server_that_does_not_answer_is_taken_for_a_new_one(tmp_path: Path) -> None:
    said = Shell(f"unix://{tmp_path}/nothing", "rq", tmp_path)("acl", "producer")
    assert said.stdout == f"{line('producer')}\n"
    assert said.stderr.startswith(
        "for Redis 7 or newer, or Valkey; for Redis 6.2 pass --redis-6 (cannot reach "
    )


@each_row(
    ("words", "said"),
    [
        (["--redis-6", "--functions-only"], "Redis 6.2 has no functions: pass --redis-6 or --functions-only"),
        (["--user", ""], "'': the ACLs of Redis need a single word here"),
        (["--user", "two words"], "'two words': the ACLs of Redis need a single word here"),
        (["--queue", ""], "'': the ACLs of Redis need a single word here"),
        (["--durability", "disk"], "'disk' is not one of 'memory', 'fsync', 'replicated'"),
    ],
)
def test_options_that_make_no_line(words: list[str], said: str, tmp_path: Path) -> None:
    refused = Shell("", "rq", tmp_path)("acl", "producer", *words, code=2)
    assert said in " ".join(refused.stderr.split())
    assert refused.stdout == ""


def test_a_server_without_functions(server: Server, tmp_path: Path) -> None:
    """It gets no library, and no user who may only call functions, unless that is for another server."""
    with server.client() as client:
        old = version_of(client.info("server")["redis_version"]) < (7,)
    shell = Shell(server.url, "rq", tmp_path)
    asked = shell("acl", "producer", "--functions-only", code=2 if old else 0)
    assert ("that server has no functions: leave out --functions-only" in asked.stderr) == old
    assert "+fcall" in shell("acl", "producer", "--functions-only", "--redis-7").stdout
    for words in ([], ["--prune"]):
        loaded = " ".join(shell("load", *words).stderr.split())
        assert ("which has no functions: programs run the verbs as a script there" in loaded) == old


def test_what_a_durability_asks_is_granted_with_it(tmp_path: Path) -> None:
    shell = Shell("", "rq", tmp_path)
    usual = set(shell("acl", "producer").output.split())
    for durability, right in (("fsync", "+config|get"), ("replicated", "+wait")):
        assert set(shell("acl", "producer", "--durability", durability).output.split()) - usual == {right}


@each_row("words", [("producer", "--user", "joe +@all"), ("producer", "--queue", "a b"), ("god",)])
def test_wrong_words_are_usage_errors(words: tuple[str, ...], tmp_path: Path) -> None:
    Shell("", "rq", tmp_path)("acl", *words, code=2)


def test_it_is_json_too(tmp_path: Path) -> None:
    told = Shell("", "rq", tmp_path).json("acl", "producer", "--user", "shop")
    assert told["role"] == "producer"
    assert told["line"].startswith(f"user {told['user']} on ")
    assert told["user"] == "shop"


def test_what_is_only_read_is_granted_for_reading(tmp_path: Path) -> None:
    """Redis 6.2 cannot do that, and it is said."""
    shell = Shell("", "rq", tmp_path)
    for role, written in (
        ("producer", False),
        ("consumer", False),
        ("maintenance", True),
        ("read-only", False),
    ):
        for queue in ("*", "orders*"):
            said = shell("acl", role, "--queue", queue)
            words = said.stdout.split()
            assert ("~rq:policies" in words, "%R~rq:policies" in words) == (written, not written)
            assert said.stderr == ""
            old = shell("acl", role, "--queue", queue, "--redis-6")
            assert "~rq:policies" in old.stdout.split()
            assert "%" not in old.stdout
            assert "on Redis 6.2 this user can also write" in old.stderr
