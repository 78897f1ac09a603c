"""How a server gets the library: as functions; as a script, if it has none or the user may not load them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable, MissingRights
from rq_dlq._keys import MoreKeys, QueueKeys
from rq_dlq._redis import loading
from rq_dlq._redis.acl import BOTH, FUNCTIONS, OLD, acl_line
from rq_dlq._redis.guard import Guard
from rq_dlq._redis.loading import AGAIN, Functions, for_server
from rq_dlq._redis.role import Way
from rq_dlq._redis.roles import ROLES
from rq_dlq._scripts import Joined
from rq_dlq.client.settings import version_of
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.steps.call import Sender
from tests.needs import need_release
from tests.servers import Server, wait_until
from tests.servers.clusters import Cluster
from tests.servers.sentinels import Watched

VERBS = Joined()
pytestmark = pytest.mark.form("functions")


@pytest.fixture
def raw_without(redis_client: Any) -> Iterator[Any]:
    """A server that has no functions, and no scripts, at first and at last."""
    raw = redis_client
    need_release(version_of(raw.info("server")["redis_version"]), 7)
    raw.flushall()
    raw.function_flush()
    raw.script_flush()
    yield raw
    raw.function_flush()
    for user in set(raw.acl_users()) - {"default"}:
        raw.acl_deluser(user)


def broker_of(raw: Any, user: str = "") -> rq_dlq.Broker:
    path = raw.connection_pool.connection_kwargs["path"]
    return rq_dlq.Broker(f"unix://{user}{path}", verbs=VERBS)


def libraries(raw: Any) -> list[bytes]:
    return [dict(zip(one[::2], one[1::2], strict=True))[b"library_name"] for one in raw.function_list()]


def verbs_of(broker: rq_dlq.Broker) -> Functions:
    verbs = broker._connected().verbs
    assert isinstance(verbs, Functions)
    return verbs


def user_of(raw: Any, role: str, ways: Sequence[Way]) -> str:
    """A user of this role, with these ways to run the verbs."""
    line = acl_line(ROLES[role], role, "rq", ways=ways).split()
    raw.execute_command("ACL", "SETUSER", role, "reset", ">secret", *line[2:])
    return f"{role}:secret@"


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
    clock = {"clock": "function Clock.read()\n  return 1790000000000\nend\n"}
    with broker_of(raw_without) as broker:
        other = rq_dlq.Broker(broker.url, verbs=Joined(clock))
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


@pytest.mark.parametrize("denied", ["-function|load", "-fcall -fcall_ro -function|load"])
def test_whoever_ran_a_script_looks_for_the_functions_after_a_minute(raw_without: Any, denied: str) -> None:
    user = ("ACL", "SETUSER", "sender")
    raw_without.execute_command(*user, "on", ">secret", "~*", "&*", "+@all", *denied.split())
    with broker_of(raw_without, "sender:secret@") as broker, broker_of(raw_without) as operator:
        there_and_back(broker)
        there_and_back(operator)
        verbs = verbs_of(broker)
        raw_without.config_resetstat()
        there_and_back(broker)
        assert "cmdstat_fcall" not in raw_without.info("commandstats")
        began = verbs.clock()
        verbs.clock = lambda: began + AGAIN
        there_and_back(broker)
        assert bool(verbs.reason) is ("-fcall" in denied), "no error, whatever it finds"
        raw_without.execute_command(*user, "+fcall")
        verbs.clock = lambda: began + 2 * AGAIN
        there_and_back(broker)
        assert verbs.reason == ""
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
    return acl_line(ROLES[role], role, "rq").split()


def test_only_maintenance_may_load_a_library_and_all_may_call_it() -> None:
    lines = {role: rights_of(role) for role in ROLES}
    assert [role for role, line in lines.items() if "+fcall" not in line] == ["read-only"]
    assert all("+fcall_ro" in line for line in lines.values())
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
    with rq_dlq.Broker(cluster.url, verbs=VERBS) as broker:
        for n in range(12):  # on all nodes
            queue = broker.queue(f"loaded{n}")
            queue.send("x")
            (delivery,) = queue.claim()
            assert delivery.ack()


def test_without_the_library_a_user_of_functions_alone_is_told_what_to_run(raw_without: Any) -> None:
    user = user_of(raw_without, "producer", FUNCTIONS)
    with broker_of(raw_without, user) as producer, broker_of(raw_without) as operator:
        with pytest.raises(
            MissingRights, match=r"`rq-dlq load`.*before a new version is rolled out"
        ) as caught:
            producer.queue("loaded").send("x")
        assert set(caught.value.rights) & {"+evalsha", "+script|load"}
        assert not raw_without.exists("rq:{loaded}:messages")
        there_and_back(operator)
        producer.queue("loaded").send("x")  # at once, not after a minute


@pytest.mark.parametrize("ways", [FUNCTIONS, BOTH, ("scripts",), OLD], ids=str)
@pytest.mark.parametrize("loaded", [True, False])
def test_a_reader_needs_no_right_to_write(raw_without: Any, ways: Sequence[Way], loaded: bool) -> None:
    with broker_of(raw_without) as operator:
        operator.queue("loaded").send("x")
        if not loaded:
            raw_without.function_flush()
        raw_without.config_resetstat()
        with broker_of(raw_without, user_of(raw_without, "read-only", ways)) as reader:
            if ways == FUNCTIONS and not loaded:
                with pytest.raises(MissingRights):
                    reader.queue("loaded").stats()
                return
            assert reader.queue("loaded").stats().ready == 1
        commands = raw_without.info("commandstats")
        by_functions = loaded and "functions" in ways
        words = {"fcall_ro"} if by_functions else {"evalsha"} if ways == OLD else {"evalsha_ro"}
        ran = {word for word in ("fcall", "fcall_ro", "evalsha", "evalsha_ro")
               if commands.get(f"cmdstat_{word}", {"calls": 0})["calls"]
               - commands.get(f"cmdstat_{word}", {"rejected_calls": 0})["rejected_calls"] > 0}  # fmt: skip
        assert words <= ran <= words | {"fcall_ro"}


def test_a_full_server_is_not_given_the_text_for_what_it_refuses_anyway(raw_without: Any) -> None:
    with broker_of(raw_without) as broker:
        queue = broker.queue("loaded")
        queue.send("x")
        for flush in (False, True):
            if flush:
                raw_without.function_flush()
            raw_without.config_resetstat()
            raw_without.config_set("maxmemory", 1)
            try:
                with pytest.raises(BrokerRefused, match="out of memory"):
                    queue.send("y")
            finally:
                raw_without.config_set("maxmemory", 0)
            assert "cmdstat_script|load" not in raw_without.info("commandstats")
        queue.send("y")
        assert verbs_of(broker).reason == ""


def test_while_replicas_lack_what_reads_runs_and_the_rest_goes_on_afterwards(raw_without: Any) -> None:
    with broker_of(raw_without) as broker:
        queue = broker.queue("loaded")
        queue.send("x")
        raw_without.function_flush()
        raw_without.config_set("min-replicas-to-write", 1)
        try:
            with pytest.raises(BrokerUnavailable, match="too few replicas"):
                queue.send("y")
            assert queue.stats().ready == 1
        finally:
            raw_without.config_set("min-replicas-to-write", 0)
        queue.send("y")
        assert queue.stats().ready == 2


def test_whoever_loads_at_the_same_time_succeeds(raw_without: Any) -> None:
    errors, barrier = list[BaseException](), threading.Barrier(6)

    def begin() -> None:
        try:
            with broker_of(raw_without) as broker:
                queue = broker.queue("loaded")
                broker.queues()
                barrier.wait(60)
                queue.send("x")
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(libraries(raw_without)) == 1
    assert raw_without.hlen("rq:{loaded}:messages") == 6


def test_threads_that_learn_at_the_same_time_that_there_are_no_functions_all_go_on(raw_without: Any) -> None:
    """The second has its refusal after the first has turned to scripts."""
    user = user_of(raw_without, "producer", ("scripts",))
    with broker_of(raw_without, user) as broker:
        broker.queue("loaded").send("x")
        verbs = verbs_of(broker)
        assert verbs["send"].word == b"EVALSHA"
        late = NoPermissionError(verbs.reason)
        assert verbs.does_without(late, (b"FCALL", "rq_x"), "send"), "it runs again, as a script"
        assert not verbs.does_without(late, (b"EVALSHA", "x"), "send"), "but not forever"


def killed(server: Server) -> None:
    server.kill()
    server.start()


ACCIDENTS: dict[str, Callable[[Server], object]] = {
    "killed": killed,
    "loaded by another": lambda server: server.client().function_load(VERBS.library.source, replace=True),
    "flushed": lambda server: server.client().function_flush(),
}


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_accident_in_the_middle_of_a_load_loses_nothing(tmp_path: Path, accident: str, when: str) -> None:
    with (
        Server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server,
        rq_dlq.Broker(server.url, patience="30s") as broker,
    ):
        need_release(version_of(server.client().info("server")["redis_version"]), 7)
        queue = broker.queue("loaded")
        sent = [queue.send("x")]
        server.client().function_flush()
        connections = broker._connected()
        talk, left = connections._talk, [None]

        def interrupted(commands: Any) -> Any:
            if left and any(command[0] == b"FUNCTION" for command in commands):
                left.pop()
                if when == "before":
                    ACCIDENTS[accident](server)
                    return talk(commands)
                talk(commands[:1])  # only the load; then the server is gone
                ACCIDENTS[accident](server)
                return talk(commands[1:2]) and [b"rq_", *talk(commands[1:])]
            return talk(commands)

        connections._talk = interrupted
        sent.append(queue.send("y"))
        assert left == []
        claimed = queue.claim(3)
        assert [delivery.id for delivery in claimed] == sent
        assert all(delivery.ack() for delivery in claimed)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_failover_in_the_middle_of_a_load_loses_nothing(tmp_path: Path, loaded: bool) -> None:
    """The next master may have the library, by replication, or not."""
    with Watched(tmp_path) as watched, rq_dlq.Broker(watched.url, patience="60s") as broker:
        old, new = watched.servers
        need_release(version_of(watched.client(old).info("server")["redis_version"]), 7)
        queue = broker.queue("loaded")
        sent = [queue.send("x")]
        wait_until(lambda: watched.client(new).exists(queue._core.keys["messages"]))
        watched.client(old).function_flush()
        wait_until(lambda: not libraries(watched.client(new)))
        connections = broker._connected()
        talk, lost = connections._talk, list[Any]()

        def interrupted(commands: Any) -> Any:
            if not lost and any(command[0] == b"FUNCTION" for command in commands):
                lost.append(commands)
                if loaded:
                    talk(commands[:1])
                    wait_until(lambda: libraries(watched.client(new)))
                old.kill()
                wait_until(lambda: watched.master() is new)
            return talk(commands)

        connections._talk = interrupted
        sent.append(queue.send("y"))
        assert lost
        assert libraries(watched.client(new))
        claimed = queue.claim(3)
        assert [delivery.id for delivery in claimed] == sent
        assert all(delivery.ack() for delivery in claimed)


def test_the_durability_is_checked_however_the_verbs_run() -> None:
    checked = list[int]()

    def check() -> Any:
        checked.append(1)
        yield from ()

    keys = QueueKeys("rq", "loaded")
    sender = Sender(MoreKeys(keys, {"sender": keys.sender("n")}), 1)
    call = sending_calls.send(sender, delay=0, ttl=0, items=["a", b"x"])
    for form in ("functions", "flags_ro", "flags", "bare"):
        guard = Guard(check, VERBS)
        assert guard.due(object(), [call.command(VERBS.as_form(form))]), form
        assert not guard.due(object(), [queue_calls.stats(keys, "loaded").command(VERBS.as_form(form))])


def test_a_line_of_the_log_says_once_how_the_verbs_run(
    raw_without: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_said", set[str]())
    caplog.set_level(logging.INFO, "rq_dlq")
    with broker_of(raw_without, user_of(raw_without, "producer", ("scripts",))) as broker:
        verbs = verbs_of(broker)
        for _ in range(2):
            broker.queue("loaded").send("x")
            began = verbs.clock()
            verbs.clock = lambda: began + AGAIN  # noqa: B023
    said = [record.getMessage() for record in caplog.records if "as a script" in record.getMessage()]
    assert len(said) == 1
    assert "fcall" in said[0].lower()
    caplog.clear()
    for _ in range(2):  # a worker has a broker of each colour
        assert for_server(VERBS, (6, 2)) is VERBS.as_form("bare")
    (said_of_old,) = [record.getMessage() for record in caplog.records]
    assert "none before version 7" in said_of_old


def test_each_form_has_the_same_lines() -> None:
    for form in ("functions", "flags_ro", "flags", "bare"):
        for verb in ("send", "ack", "stats"):
            first, _, rest = VERBS.as_form(form)[verb].source.partition("\n")
            assert rest == VERBS.library.text
            assert first.startswith("#!lua") is (form != "bare")


def test_a_producer_cannot_put_something_else_in_the_place_of_names(raw_without: Any) -> None:
    with (
        broker_of(raw_without) as operator,
        broker_of(raw_without, user_of(raw_without, "producer", BOTH)) as producer,
    ):
        operator.queue("orders").send("x")
        producer.queue("orders").send("x")
        with redis.Redis.from_url(producer.url.replace("***", "secret")) as raw:
            for command in (
                ("SET", "rq:queues", "x"),
                ("DEL", "rq:aliases"),
                ("HSET", "rq:queues", "a", "b"),
            ):
                with pytest.raises(NoPermissionError):
                    raw.execute_command(*command)
        producer.queue("bills").send("x")
        assert raw_without.smembers("rq:queues") == {b"orders", b"bills"}


def test_an_error_names_a_line_of_a_module(raw_without: Any) -> None:
    broken = VERBS_WITH_A_FAULT
    path = raw_without.connection_pool.connection_kwargs["path"]
    for first in (0, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Functions, "first", first)
            broker = rq_dlq.Broker(f"unix://{path}", verbs=broken)
            with broker, pytest.raises(BrokerRefused, match=r"clock\.lua:3: .*oops"):
                broker.queue("loaded").send("x")


VERBS_WITH_A_FAULT = Joined({"clock": "-- A\nfunction Clock.read()\n  return oops.now\nend\n"})
