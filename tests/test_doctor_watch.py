"""What workers and maintenance say of their server: before they begin, and when it changes."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine

from rq_dlq import Broker, BrokerRefused, BrokerSettings, BrokerUnavailable
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.doctor import Watch
from rq_dlq.doctor.versions import NEVER, Flaw
from rq_dlq.worker import Worker
from rq_dlq.worker.maintenance import Maintenance
from tests.servers import Server, free_port, online, replica_of, wait_until
from tests.servers.acl import rules_of
from tests.test_doctor import ALWAYS, MASTER, replicated

Said = list[tuple[str, str]]
UNKNOWN = "unknown: the server does not report it (grant this user {} (+{}))"


class Told:
    """In place of connections: what servers say, by their address.

    Attributes:
        refused: commands that the user may not use.
        asked: how often each command was.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, str]] = {"one": dict(MASTER)}
        self.config, self.ahead = ALWAYS, 0
        self.refused: set[bytes] = set()
        self.asked: Counter[bytes] = Counter()

    def everywhere(self, make: Any) -> dict[str, Any]:
        """Ask."""
        if not self.nodes:
            message = "gone"
            raise BrokerUnavailable(message)
        return {node: self._run(make(), info) for node, info in self.nodes.items()}

    def _run(self, steps: Any, info: dict[str, str]) -> Any:
        step = next(steps)
        try:
            while True:
                calls: Any = step.calls if isinstance(step, Pipeline) else [step]
                command = calls[0].parts[0]
                self.asked[command] += 1
                if command in self.refused:
                    step = steps.throw(BrokerRefused("no right"))
                elif command == b"TIME":
                    seconds, nanos = divmod(time.time_ns(), 10**9)
                    step = steps.send((seconds + self.ahead, nanos // 1000))
                else:
                    said = info if command == b"INFO" else self.config
                    step = steps.send([said, *[{}] * (len(calls) - 1)])
        except StopIteration as stop:
            return stop.value


@pytest.fixture
def told() -> Told:
    return Told()


def looked(watch: Watch, connections: Any, at: float) -> None:
    """Look at this time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rq_dlq.doctor.watch.time.monotonic", lambda: at)
        watch.look(connections)


def said(caplog: pytest.LogCaptureFixture) -> Said:
    """What the doctor said since the last time: how loud, and of what; not of how old this server is."""
    records = [record for record in caplog.records if record.name == "rq_dlq.doctor"]
    told = [(record.levelname, record.getMessage().partition(": ")[0]) for record in records]
    caplog.clear()
    return [line for line in told if line != ("WARNING", "version")]


def test_what_turned_bad_is_said_once_again_when_it_changes_and_when_it_is_well(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(BrokerSettings(), "30s")
    looked(watch, told, 0)
    assert caplog.messages == []
    for at, policy in enumerate(("allkeys-lru", "allkeys-lru", "volatile-lru", "noeviction"), 1):
        told.nodes = {"one": {**MASTER, "maxmemory_policy": policy}}
        looked(watch, told, 30 * at)
    told.nodes = {}
    looked(watch, told, 200)
    assert [(record.levelname, record.message.split(" ")[2]) for record in caplog.records] == [
        ("ERROR", "allkeys-lru,"),
        ("ERROR", "volatile-lru,"),
        ("WARNING", "again"),
    ]
    assert "CONFIG SET maxmemory-policy noeviction" in caplog.messages[0]


def test_figures_that_move_are_no_news(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(BrokerSettings(durability="replicated", replicas=2), "30s")
    lines = ["offset=990,lag=0", "offset=10,lag=1", "offset=500,lag=11", "offset=500,lag=41"]
    for at, line in enumerate(lines):
        info = replicated(f"state=online,{line}")
        told.nodes = {"one": {**info, "min_slaves_good_slaves": str(at % 2)}}
        told.config = {**ALWAYS, "min-replicas-to-write": "2"}
        looked(watch, told, 30 * at)
    assert said(caplog) == [("ERROR", "replicas"), ("ERROR", "min-replicas")]


def test_the_same_trouble_at_another_node_is_news(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    watch, bad = Watch(BrokerSettings(), "30s"), {**MASTER, "rdb_last_bgsave_status": "err"}
    for at, nodes in enumerate(({"a": bad, "b": MASTER}, {"a": bad, "b": bad}, {"a": bad, "b": MASTER})):
        told.nodes = nodes
        looked(watch, told, 30 * at)
    assert said(caplog) == [("ERROR", "persistence")] * 2


def test_what_is_to_be_minded_is_a_warning(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(BrokerSettings(), "30s")
    told.nodes, told.ahead = {"one": {**MASTER, "redis_version": "7.4.5"}}, 3600
    for at in (0, 30):
        looked(watch, told, at)
    assert [(record.levelname, record.message[:20]) for record in caplog.records] == [
        ("WARNING", "version: redis 7.4.5"),
        ("WARNING", "clock: the server's "),
    ]
    caplog.clear()
    told.ahead = 0
    looked(watch, told, 60)
    assert said(caplog) == [("WARNING", "clock")]


def test_flaws_that_only_others_could_use_are_not_told_of_the_embedded_server(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(BrokerSettings(), "30s", private=True)
    for at, release in enumerate(("7.4.5", "6.0.20")):
        told.nodes = {"one": {**MASTER, "redis_version": release}}
        looked(watch, told, 30 * at)
    assert [(record.levelname, record.message[:20]) for record in caplog.records] == [
        ("ERROR", "version: redis 6.0.2")  # the one that is too old
    ]


@pytest.mark.parametrize("url", [None, "redis://127.0.0.1:6379"])
def test_who_has_an_address_does_not_work_with_the_embedded_server(
    url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RQ_DLQ_URL", raising=False)
    seen = Mock(wraps=Watch)
    monkeypatch.setattr("rq_dlq.doctor.Watch", seen)
    broker = Broker(url)
    broker.queue("a").handler(print)
    Worker(broker)
    Maintenance(broker)
    assert [call.kwargs["private"] for call in seen.call_args_list] == [url is None] * 2


def test_what_the_answer_took_is_not_held_against_the_clock(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread whose handlers keep the interpreter busy hears the answer late."""
    times = iter(range(0, 100, 3))
    monkeypatch.setattr("rq_dlq.doctor.trials.time.monotonic", lambda: next(times))
    Watch(BrokerSettings(), "1s").look(told)  # type: ignore[arg-type]
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("ERROR", "eviction")]),
        ({"require_noeviction": False}, []),
        (
            {"durability": "replicated", "require_noeviction": False},
            [("WARNING", "persistence"), ("ERROR", "replicas"), ("WARNING", "min-replicas")],
        ),
        (
            {"durability": "fsync", "require_noeviction": False},
            [("WARNING", "persistence"), ("ERROR", "durability")],
        ),
    ],
)
def test_what_was_chosen_is_not_warned_of(
    options: dict[str, Any], expected: Said, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.nodes = {"one": {**MASTER, "aof_enabled": "0", "maxmemory_policy": "allkeys-lru"}}
    Watch(BrokerSettings(**options), "30s").look(told)  # type: ignore[arg-type]
    assert said(caplog) == expected


def test_a_server_that_tells_nothing_is_called_unknown_in_one_line(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(BrokerSettings(), "30s")
    told.refused = {b"INFO", b"TIME"}
    for at in (0, 30):
        looked(watch, told, at)
    assert caplog.messages == [
        "version, role, eviction, replicas: " + UNKNOWN.format("INFO", "info"),
        "clock: " + UNKNOWN.format("TIME", "time"),
    ]


def test_between_two_looks_nothing_is_asked(told: Told) -> None:
    watch = Watch(BrokerSettings(), "30s")
    for at in (0, 10, 29.9, 30, 45, 60):
        looked(watch, told, at)
    assert told.asked[b"INFO"] == told.asked[b"TIME"] == 3


@pytest.mark.parametrize(
    ("durability", "granted", "refused"), [("memory", 0, 0), ("replicated", 3, 1), ("fsync", 3, 3)]
)
def test_only_who_needs_the_configuration_asks_for_it(
    durability: Any, granted: int, refused: int, told: Told
) -> None:
    """A user of a role may not see it, and the server notes each refusal."""
    cases: list[tuple[set[bytes], int]] = [(set(), granted), ({b"CONFIG"}, refused)]
    for commands, expected in cases:
        watch, told.refused = Watch(BrokerSettings(durability=durability), "30s"), commands
        told.asked.clear()
        for at in (0, 30, 60):
            looked(watch, told, at)
        assert told.asked[b"CONFIG"] == expected


# On real servers


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "master", "--repl-diskless-sync-delay", "0", port=free_port()) as server:
        yield server


def said_before_the_first_message(server: Server, caplog: pytest.LogCaptureFixture) -> list[Any]:
    """The records of a worker's doctor, as they are when its handler runs."""
    records: list[Any] = []
    with Broker(server.url) as broker:
        queue = broker.queue("q")

        @queue.handler()
        def note(_: object) -> None:
            records.extend(caplog.records)

        queue.send("x")
        Worker(broker, until="empty").run()
    return [record for record in records if record.name == "rq_dlq.doctor"]


def test_a_worker_looks_at_the_release_and_the_clock_before_its_first_claim(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as raw:
        told = raw.info("server")
    name = told.get("server_name", "redis")  # Valkey tells its own version and a compatible one of Redis
    series = ".".join(told[f"{name}_version"].split(".")[:2])
    flaw = Flaw("it is bad", {name: {series: NEVER}})
    monkeypatch.setattr("rq_dlq.doctor.versions.FLAWS", [flaw])
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1), tick=True):
        release, clock = said_before_the_first_message(server, caplog)
    assert (release.levelno, clock.levelno) == (logging.WARNING, logging.WARNING)
    assert "it is bad" in release.message
    assert "s behind this machine's" in clock.message


def test_of_a_plain_server_a_worker_says_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rq_dlq.doctor.versions.FLAWS", [])
    assert said_before_the_first_message(server, caplog) == []


def test_replicas_that_are_too_few_are_one_alarm_under_load(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = BrokerSettings(url=server.url, durability="replicated", replicas=2)
    watch = Watch(settings, "30s")
    with (
        Broker(settings=settings) as broker,
        replica_of(server, tmp_path / "replica") as replica,
        server.client() as raw,
    ):
        wait_until(lambda: online(server))
        looked(watch, broker._connected(), 0)
        assert said(caplog) == [
            ("WARNING", "persistence"), ("ERROR", "replicas"), ("WARNING", "min-replicas")
        ]  # fmt: skip
        replica.signal(signal.SIGSTOP)
        raw.set("x", "x" * 10_000)
        looked(watch, broker._connected(), 30)
        assert said(caplog) == []
        replica.signal(signal.SIGCONT)


def test_min_replicas_are_looked_at_as_far_as_the_user_may(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with replica_of(server, tmp_path / "replica"), server.client() as raw:
        rules = rules_of("consumer", raw, durability="replicated")
        raw.execute_command("ACL", "SETUSER", "joe", *rules, ">secret")
        wait_until(lambda: online(server))
        for least, admins, joes in (
            (0, [("WARNING", "min-replicas")], [("WARNING", "min-replicas")]),
            (1, [], [("WARNING", "min-replicas")]),  # how many it asks, CONFIG alone tells
            (2, [("ERROR", "min-replicas")], [("WARNING", "min-replicas")]),
        ):
            raw.config_set("min-replicas-to-write", least)
            for url, expected in ((server.url, admins), (f"unix://joe:secret@{server.socket}", joes)):
                settings = BrokerSettings(url=url, durability="replicated")
                with Broker(settings=settings) as broker:
                    Watch(settings, "30s").look(broker._connected())
                pair = ("WARNING", "replicas")  # of two servers, it advises a third one
                assert [line for line in said(caplog) if line[1] != "persistence"] == [pair, *expected]
