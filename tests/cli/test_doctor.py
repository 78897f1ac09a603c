"""`rq-dlq doctor`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from rq_dlq import Breaker, Broker, ConsumerReport, Message, PerKey, ProcessReport
from rq_dlq.cli import main
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.doctor import queues
from tests.cli.conftest import Shell
from tests.servers import Server, free_port, online, replica_of, wait_until
from tests.servers.acl import rules_of
from tests.servers.clusters import cluster_ports
from tests.tables import each_row

CHECKS = [
    "server", "version", "role", "eviction", "persistence", "replicas", "min-replicas", "durability",
    "rights", "clock", "round trip", "scripts", "names", "breakers", "keys", "lanes", "calls", "ignored",
    "uncharged", "outboxes", "commits",
]  # fmt: skip


def checks(shell: Shell, *options: str, code: int = 0) -> dict[str, dict[str, str]]:
    told = json.loads(shell("doctor", "--json", *options, code=code).stdout)
    return {check["name"]: check for check in told}


def states(shell: Shell, *options: str, code: int = 0) -> dict[str, str]:
    return {name: check["state"] for name, check in checks(shell, *options, code=code).items()}


def at(server: Server) -> Shell:
    return Shell(server.url, "doctor", server.directory)


def test_a_fit_server_passes_and_nothing_is_left_behind(shell: Shell, redis_socket: str) -> None:
    with redis.Redis(unix_socket_path=redis_socket) as client:
        before = set(client.keys())
        expire = {key for key in before if client.pttl(key) != -1}  # those of other tests
        found = states(shell)
        after = set(client.keys())
        assert after <= before
        assert before - after <= expire
    assert list(found) == CHECKS
    assert {name for name, state in found.items() if state != "ok"} <= {
        "version",  # it is as old as it is
        "persistence",  # the tests' server writes nothing to disk
        "round trip",
    }


def test_a_table_says_what_to_do_next(shell: Shell) -> None:
    told = shell("doctor").stdout
    assert "→ redis-cli CONFIG SET appendonly yes" in told
    assert "fsync: not kept: its append-only file is off" in told
    assert "neither an append-only file nor snapshots: a restart loses all" in told


def test_json_is_what_dash_o_says(shell: Shell) -> None:
    assert [row["name"] for row in json.loads(shell("doctor", "-o", "json").stdout)] == CHECKS


def test_what_is_closed_to_work_and_what_is_ignored(shell: Shell, broker: Broker) -> None:
    orders = broker.queue("orders", breaker=Breaker(distinct=2), per_key=PerKey(limit=1))
    orders.send_many(range(3), key="a", dependency="payments")
    found = checks(shell)
    assert (found["breakers"]["state"], found["ignored"]["state"]) == ("ok", "ok")
    orders.key("b").pause()
    orders.dependency("payments").pause(until="1h")
    mails = broker.queue("mails")
    mails.send("x", key="b", dependency="smtp")
    found = checks(shell)
    assert re.fullmatch(
        r"orders: payments paused until (..-.. )?..:.. UTC, \d wait; "
        "`rq-dlq queue resume orders --dependency payments` resumes it",
        found["breakers"]["found"],
    )
    assert found["breakers"]["advice"] == "`rq-dlq queue ls --dependencies` lists what is down or paused"
    assert found["keys"]["found"] == "orders: key b: paused until it is resumed"
    assert found["ignored"] == {
        "name": "ignored", "state": "warn",
        "found": "mails ignores the key of its messages; mails ignores the dependency of its messages",
        "advice": "`rq-dlq policy set QUEUE` with `--per-key order` or `--breaker on` uses them",
    }  # fmt: skip
    explained = str(mails.explain(next(iter(mails.select().browse())).id))
    assert "its dependency smtp is ignored, since the queue has no breaker" in explained


@each_row("option, of", [("--dependency", "dependency"), ("--key", "key")])
def test_the_commands_for_what_is_closed_to_work(shell: Shell, broker: Broker, option: str, of: Any) -> None:
    """Each says, or does, what the advice promises."""
    orders = broker.queue("orders", breaker=Breaker())
    orders.send("x", key="a b", dependency="a b")
    shell("queue", "pause", "orders", option, "a b")
    assert orders.claim() == []
    check = {"dependency": "breakers", "key": "keys"}
    (wrong,) = (one for one in check.values() if (found := checks(shell))[one]["state"] == "warn")
    assert wrong == check[of]
    names = {"QUEUE": "orders", "KEY": "'a b'"}
    said = re.findall("`rq-dlq (.+?)`", f"{found[wrong]['found']} {found[wrong]['advice']}")
    commands = [shlex.split(" ".join(names.get(word, word) for word in one.split())) for one in said]
    (resumes,) = (one for one in commands if "resume" in one)
    (looks,) = (one for one in commands if "show" in one or "ls" in one)
    assert "a b" in shell(*looks).stdout
    assert "is resumed" in shell(*resumes).stderr
    assert checks(shell)[wrong]["state"] == "ok"
    assert len(orders.claim()) == 1


@each_row(
    "report, waiting, state",
    [
        (ConsumerReport(2, held=2, oldest=61.0), 0, "ok"),
        (ConsumerReport(2, held=1, oldest=61.0), 1, "ok"),
        (ConsumerReport(2, held=2, oldest=59.0), 1, "ok"),
        (ConsumerReport(2, held=2, oldest=61.0), 1, "warn"),
    ],
)
def test_calls_that_hang_are_told_while_others_wait(
    shell: Shell, broker: Broker, report: ConsumerReport, waiting: int, state: str
) -> None:
    """Without a timeout nothing fails, so no breaker opens, and nothing is redelivered."""
    orders = broker.queue("orders")
    orders.send_many(Message("x", id="waits") for _ in range(waiting))
    reporter = Reporter(ProcessReport("web-1:4711", queues={"orders": report}))
    broker._run(reporter.note(broker.settings.namespace))
    try:
        found = checks(shell)["calls"]
    finally:
        broker._run(reporter.leave(broker.settings.namespace))
    assert found["state"] == state
    if state == "warn":
        assert found["found"] == (
            "orders: 1 ready; 1 worker holds 2 messages, the oldest for 1m1s: if that is usual, start more "
            "workers; if not, their calls are slow or hang"
        )
        assert "timeout" in found["advice"]


def test_what_did_not_count_is_named(shell: Shell, broker: Broker) -> None:
    """Not only that a breaker never opened; and a breaker whose messages name no dependency."""
    orders = broker.queue("orders", breaker=Breaker(errors=Breaker.UNREACHABLE))
    report = ConsumerReport(1, uncounted=("", "shop.Closed"))
    reporter = Reporter(ProcessReport("web-1:4711", queues={"orders": report}))
    broker._run(reporter.note(broker.settings.namespace))
    try:
        orders.send("x")
        found = checks(shell)
    finally:
        broker._run(reporter.leave(broker.settings.namespace))
    assert found["breakers"]["state"] == "warn"
    assert found["breakers"]["found"] == (
        "orders: an error in words did not count, since Breaker(errors=...) leaves it out; "
        "orders: shop.Closed did not count, since Breaker(errors=...) leaves it out"
    )
    assert found["breakers"]["advice"] == "add to Breaker(errors=...) what means that the service is down"
    assert found["ignored"]["found"] == "orders has a breaker, and its first messages name no dependency"
    assert "dependency=..." in found["ignored"]["advice"]
    orders.send("y", dependency="payments")
    assert checks(shell)["ignored"]["state"] == "ok"


def test_an_outage_that_ends_by_itself_is_no_warning(shell: Shell, broker: Broker) -> None:
    """The line of one that is down says that there is nothing to do, and names no command that charges."""
    orders = broker.queue("orders", breaker=Breaker(distinct=2, probe="1ms"))
    orders.send_many(range(90), dependency="payments")
    for one in orders.claim(2):
        one.nack("refused", delay=0)
    orders.claim(1)
    found = checks(shell)["breakers"]
    assert found["state"] == "warn"
    assert re.match(r"orders: payments down since ..:.. UTC, \d+ wait, ", found["found"])
    assert "; nothing to do: it probes by itself; the newest error: refused" in found["found"]
    assert "resume" not in found["found"] + found["advice"]
    wait_until(lambda: bool(held := orders.claim(9)) and bool(orders.ack(held)))
    found = checks(shell)["breakers"]
    assert found["state"] == "ok"
    assert re.match(r"orders: payments back at ..:.. UTC, \d+ come back; nothing to do", found["found"])


def test_what_a_key_holds_up_for_long(shell: Shell, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a dead letter, and behind what is in work; not what came of late."""
    held = broker.queue("held", per_key=PerKey(order=True, on_dead="hold"))
    held.send_many([Message(n, id=f"order-{n}", key="customer-7") for n in range(3)])
    held.poison(held.claim(), "no")
    limited = broker.queue("limited", per_key=PerKey(limit=1))
    limited.send_many([Message(n, id=f"mail-{n}", key="tenant-a") for n in range(2)])
    limited.claim()
    assert checks(shell)["keys"] == {
        "name": "keys", "state": "ok", "advice": "",
        "found": "no key is paused, or holds up its messages for more than ten minutes",
    }  # fmt: skip
    monkeypatch.setattr(queues, "PATIENCE", -1_000)
    found = checks(shell)["keys"]
    said = found["found"].replace(limited._core.consumer.strip('"'), "here")
    assert re.sub(r"\d{4}-.{11}|..:..:..", "T", said) == (
        "held: order-1, due since T UTC, 1 behind it: it waits for its key customer-7: 1 in front; order-0 "
        "is dead, and holds its lane until it is redriven, purged, moved or acked; limited: mail-1, due "
        "since T UTC: it waits for its key tenant-a: 1 in front; mail-0 is being processed at here until T "
        "UTC"
    )
    assert (found["state"], "rq-dlq key show QUEUE KEY" in found["advice"]) == ("warn", True)
    assert "`rq-dlq key limit QUEUE KEY N` lets in more if the rule is a limit" in found["advice"]


def test_a_server_that_evicts_fails(tmp_path: Path) -> None:
    with Server(tmp_path, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as server:
        shell = at(server)
        assert states(shell, code=1)["eviction"] == "fail"
        assert "noeviction" in shell("doctor", code=1).stdout
        assert "maxmemory-policy" in shell("queue", "ls", code=3).stderr


def test_the_disk_is_held_against_the_profile(tmp_path: Path) -> None:
    with Server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        shell = at(server)
        found = checks(shell)
        assert found["persistence"]["state"] == "ok"
        assert "fsync: a crash of the server" in found["durability"]["found"]
        assert states(shell, "--durability", "fsync")["durability"] in {"ok", "warn"}  # 6.2 has flaws there
        with server.client() as raw:
            raw.config_set("appendfsync", "everysec")
        check = checks(shell, "--durability", "fsync", code=1)["durability"]
        assert check["state"] == "fail"
        assert "appendfsync always" in check["advice"]


def test_replicas_count_when_they_are_online(tmp_path: Path) -> None:
    master = Server(tmp_path / "master", "--repl-diskless-sync-delay", "0", port=free_port())
    replicated = ("--durability", "replicated")
    with master, replica_of(master, tmp_path / "replica") as replica:
        wait_until(lambda: online(master))
        shell = at(master)
        found = checks(shell, *replicated)
        assert found["durability"]["state"] == "ok"
        assert found["replicas"]["state"] == "warn"
        assert "run 3 servers" in found["replicas"]["advice"]  # after a failover of two none confirms
        assert " online, " in found["replicas"]["found"]
        assert found["min-replicas"]["state"] == "warn"  # a master that was cut off would go on
        with master.client() as raw:
            raw.config_set("min-replicas-to-write", 1)
            assert states(shell, *replicated)["min-replicas"] == "ok"
            found = checks(shell, *replicated, "--replicas", "2", code=1)
            assert found["replicas"]["state"] == found["durability"]["state"] == "fail"
            replica.kill()
            wait_until(lambda: not raw.info("replication")["connected_slaves"])
        found = checks(shell, *replicated, code=1)
        assert "takes no changes" not in found["min-replicas"]["found"]
        assert {name for name in found if found[name]["state"] == "fail"} == {
            "replicas", "min-replicas", "durability", "scripts",
        }  # fmt: skip


def test_a_replica_fails(tmp_path: Path) -> None:
    with Server(tmp_path, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "yes") as server:
        found = checks(at(server), code=1)
        assert (found["role"]["state"], found["scripts"]["state"]) == ("fail", "fail")
        assert found["role"]["advice"] == "use the master, 127.0.0.1:1"


def test_a_user_with_a_role_passes_and_one_without_fails(tmp_path: Path) -> None:
    with Server(tmp_path) as server, server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "ann", *rules_of("producer", raw), ">secret")
        raw.execute_command("ACL", "SETUSER", "bob", "on", ">secret", "+ping", "+info")
        ann, bob = (Shell(f"unix://{who}:secret@{server.socket}", "rq", tmp_path) for who in ("ann", "bob"))
        found = checks(ann)
        assert found["rights"]["found"].startswith("producer")
        assert "not consumer: +" in found["rights"]["found"]
        found = checks(bob, code=1)
        assert (found["rights"]["state"], found["rights"]["found"]) == ("fail", "no role")


def test_what_the_user_may_not_ask_is_unknown_and_nothing_stops_for_it(tmp_path: Path) -> None:
    options = ("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    with Server(tmp_path, *options) as server, server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "ann", *rules_of("producer", raw), "-info", ">secret")
        ann = Shell(f"unix://ann:secret@{server.socket}", "rq", tmp_path)
        found = checks(ann)
        unknown = {name for name in found if found[name]["found"] == "unknown: the server does not report it"}
        assert unknown == {
            "version", "role", "eviction", "persistence", "replicas", "min-replicas",
        }  # fmt: skip
        assert {found[name]["state"] for name in unknown} == {"warn"}
        assert found["eviction"]["advice"] == "grant this user INFO (+info)"
        with Broker(ann.url) as broker:
            assert broker.queue("q").send("x")


def test_a_cluster_without_all_slots_fails(tmp_path: Path) -> None:
    (port,) = cluster_ports(1)
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "500")  # it waits as long
    with Server(tmp_path, *options, port=port) as server, server.client() as raw:
        shell = Shell(f"redis://127.0.0.1:{server.port}", "doctor", tmp_path)
        raw.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        wait_until(lambda: b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"))
        assert checks(shell)["cluster"] == {
            "name": "cluster", "state": "ok",
            "found": "16384 of 16384 slots are served, state ok, 1 nodes", "advice": "",
        }  # fmt: skip
        raw.execute_command("CLUSTER", "DELSLOTS", 5)
        wait_until(lambda: b"cluster_state:fail" in raw.execute_command("CLUSTER", "INFO"))
        raw.config_resetstat()
        check = checks(shell, code=1)["cluster"]
        assert (check["state"], check["found"].split(" ")[0]) == ("fail", "16383")
        stats = raw.info("commandstats")  # Redis 6.2 counts no subcommands
        looks = stats.get("cmdstat_cluster|slots", stats.get("cmdstat_cluster"))["calls"]
        assert looks < 20, "it tries each call once: to wait for the slot takes 5 s a call"


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    result: Any = CliRunner().invoke(main, ["--url", f"unix://{tmp_path}/none.sock", "doctor", "--json"])
    assert result.exit_code == 3
    (check,) = json.loads(result.stdout)
    assert (check["name"], check["state"]) == ("server", "fail")
    assert "cannot reach" in check["found"]


def test_a_server_that_does_not_let_us_in(tmp_path: Path) -> None:
    with Server(tmp_path, "--requirepass", "secret") as server:
        told = at(server)("doctor", code=3)
        assert "requires a password" in told.stdout


def test_lists_of_names_that_hold_something_else_are_made_anew(tmp_path: Path) -> None:
    with Server(tmp_path) as server, server.client() as raw:
        shell = at(server)
        with Broker(server.url, namespace=shell.namespace) as broker:
            for name in ("orders", "{shop}.bills"):
                broker.queue(name).send("x")
        lists = [f"{shell.namespace}:{name}" for name in ("queues", "aliases")]
        before = raw.smembers(lists[0])
        assert checks(shell)["names"]["state"] == "ok"
        for key in lists:
            raw.set(key, "x")
        found = checks(shell, code=1)["names"]
        assert (found["state"], found["found"].partition(" hold")[0]) == ("fail", " and ".join(lists))
        assert "rq-dlq doctor --repair" in found["advice"]
        checks(shell, "--repair")
        assert raw.smembers(lists[0]) == before
        assert checks(shell)["names"]["state"] == "ok"
        with Broker(server.url, namespace=shell.namespace) as broker:
            broker.queue("new").send("x")
