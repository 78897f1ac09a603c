"""What it means that a message was taken in: durability "memory", "fsync", "replicated"."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fakeredis
import pytest
import pytest_asyncio
import redis

import rq_dlq
from rq_dlq import Broker, BrokerRefused, BrokerSettings, LeaseLost, Queue, Unconfirmed
from rq_dlq._keys import MoreKeys, QueueKeys
from rq_dlq._redis.exchange import exchange
from rq_dlq._scripts import Joined
from rq_dlq.client.durability import what_fsync_lacks
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sending.calls import Place, Taken
from rq_dlq.core.steps import confirm
from rq_dlq.core.steps.call import Sender
from rq_dlq.core.steps.confirm import Confirm, taken_in
from rq_dlq.doctor import examine
from rq_dlq.errors import ConfigurationError, InvalidDuration
from tests import servers
from tests.audit import audit
from tests.behaviour.helpers import bodies, counts
from tests.colours import Awaited
from tests.servers import Server, free_port, online, replica_of, wait_until
from tests.servers.clusters import Cluster
from tests.tables import each_row

KEYS = QueueKeys("rq", "q")


class Pair(NamedTuple):
    """A server, its replica, and a broker that wants it to confirm."""

    master: Server
    replica: Server
    broker: Any
    raw: Any

    def freeze(self) -> None:
        """From here on the replica confirms nothing."""
        self.replica.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """And on again."""
        self.replica.signal(signal.SIGCONT)
        wait_until(lambda: online(self.master))

    def replicated(self) -> set[str]:
        """The messages that the replica has."""
        with self.replica.client() as client:
            return {key.decode() for key in client.hkeys(KEYS["messages"])}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    where = tmp_path_factory.mktemp("two")
    master = Server(where / "master", "--repl-diskless-sync-delay", "0", port=free_port())
    with master, replica_of(master, where / "replica") as replica:
        wait_until(lambda: online(master))
        yield master, replica


@pytest_asyncio.fixture(params=["sync", "async"])
async def pair(request: pytest.FixtureRequest, two: tuple[Server, Server]) -> AsyncIterator[Pair]:
    """Empty; the queue is audited in the end."""
    settings = BrokerSettings(url=two[0].url, durability="replicated", confirm_within="300ms")
    broker: Any = Awaited(Broker(settings=settings))
    if request.param == "async":
        broker = rq_dlq.asyncio.Broker(settings=settings)
    with two[0].client() as raw:
        raw.flushall()
        pair = Pair(*two, broker, raw)
        yield pair
        pair.thaw()
        await broker.close()
        for family in raw.smembers("rq:queues"):
            audit(raw, family.decode())


async def test_what_was_sent_is_on_the_replica(pair: Pair) -> None:
    queue = pair.broker.queue("q")
    sent = {await queue.send("one"), *await queue.send_many(range(1_200))}
    async with queue.session() as session:
        sent.add(await session.send(queue, "two"))
    assert pair.replicated() == sent
    assert 0 < pair.raw.pttl(KEYS.confirm) <= 60_000


async def test_what_no_replica_confirms_is_in_the_queue_and_sent_again_it_is_there_once(pair: Pair) -> None:
    queue = pair.broker.queue("q")
    pair.freeze()
    with pytest.raises(Unconfirmed, match=r"a: in the queue.*within 300 ms 0 of 1.*same ids") as raised:
        await queue.send("x", id="a")
    assert raised.value.ids == ("a",)
    assert await counts(queue) == {"ready": 1}
    pair.thaw()
    assert await queue.send("x", id="a") == "a"
    assert pair.replicated() == {"a"}
    assert await bodies(queue) == ["x"]


async def test_a_repeated_send_that_changes_nothing_is_not_confirmed_either(pair: Pair) -> None:
    """A WAIT is about the last write of its connection: before the one that nobody confirmed."""
    queue = pair.broker.queue("q")
    await queue.send("x", id="before")
    pair.freeze()
    for _ in range(2):
        with pytest.raises(Unconfirmed):
            await queue.send("x", id="a")
    await pair.broker.close()  # by a connection that has written nothing yet
    with pytest.raises(Unconfirmed):
        await queue.send("x", id="a")


async def test_scripts_that_the_server_forgot_confirm_nothing(pair: Pair) -> None:
    queue = pair.broker.queue("q")
    await queue.send("x", id="before")
    pair.freeze()
    pair.raw.script_flush()
    with pytest.raises(Unconfirmed):
        await queue.send("x", id="a")
    assert await counts(queue) == {"ready": 2}


async def test_of_many_the_error_has_the_ids_that_are_in_doubt(pair: Pair) -> None:
    queue = pair.broker.queue("q")

    def thousands() -> Iterator[int]:
        for n in range(2_500):
            if n == 1_000:
                pair.freeze()
            yield n

    with pytest.raises(Unconfirmed, match="1,000 messages: in the queue") as raised:
        await queue.send_many(thousands())
    assert raised.value.__notes__[:-1] == ["1,000 messages before it were sent"]
    assert await counts(queue) == {"ready": 2_000}
    there = await queue.select(limit=2_500).browse()
    assert set(raised.value.ids) == {message.id for message in there if message.body >= 1_000}


async def test_a_session_that_is_not_confirmed_is_committed_again(pair: Pair) -> None:
    queue, other = pair.broker.queue("q"), pair.broker.queue("other")
    await queue.send("in")
    session = queue.session()
    await session.claim()
    sent = await session.send(other, "out")
    pair.freeze()
    for _ in range(2):
        with pytest.raises(Unconfirmed, match=r"commit\(\) again") as raised:
            await session.commit()
    assert raised.value.ids == (sent,)
    pair.thaw()
    assert await session.commit() == 1
    assert await counts(queue) == {}
    assert await bodies(other) == ["out"]


async def test_settlements_wait_for_no_replica(pair: Pair) -> None:
    """What a failover forgets of them is delivered again."""
    queue = pair.broker.queue("q")
    await queue.send_many(range(3))
    session = queue.session()
    await session.claim()
    (first, second) = await queue.claim(2)
    pair.freeze()
    assert await session.commit() == 1
    assert await first.ack()
    assert await second.nack("no")


async def test_a_session_that_lost_a_lease_says_that(pair: Pair) -> None:
    queue = pair.broker.queue("q")
    await queue.send("in")
    session = queue.session()
    (delivery,) = await session.claim(lease="20ms")
    await session.send(queue, "out")
    wait_until(lambda: pair.raw.zscore(KEYS["leases"], delivery.token) < server_time(pair.raw))
    await queue.maintain()
    pair.freeze()
    with pytest.raises(LeaseLost):
        await session.commit()
    pair.thaw()
    await session.rollback()


def server_time(raw: Any) -> float:
    seconds, micros = raw.time()
    return float(seconds * 1000 + micros / 1000)


async def test_a_job_that_is_not_confirmed_is_run_again(pair: Pair) -> None:
    queue = pair.broker.queue("q")
    pack = queue._core.codec.packer(4, {})

    async def run(attempt: str) -> Any:
        task = Stage(queue._core.keys, "j", attempt)
        await pair.broker._run(task.add(["a", pack("x")]))
        lists = {"q": task.counts}
        return await pair.broker._run(jobs.commit([queue._core], "j", lists)), list(task.counts)

    pair.freeze()
    with pytest.raises(Unconfirmed, match=r"job j: committed.*same id"):
        await run("t0")
    with pytest.raises(Unconfirmed):  # it was committed before, and still nobody has it
        await run("t1")
    pair.thaw()
    done, lists = await run("t2")
    assert not done
    for steps in (
        jobs.drop(KEYS, "j", [*lists, "t1.0.0"]),
        jobs.move(KEYS, "j", "t0.0.0"),
    ):
        await pair.broker._run(steps)
    assert await bodies(queue) == ["x"]


async def test_a_message_that_is_there_is_not_called_refused(pair: Pair) -> None:
    """Where only the question is refused, as where the message took the last memory that there was."""
    queue = pair.broker.queue("q")
    await queue.send("x", id="before")
    pair.raw.execute_command("ACL", "SETUSER", "default", "-set")
    try:
        with pytest.raises(Unconfirmed, match="did not ask"):
            await queue.send("x", id="a")
        with pytest.raises(Unconfirmed, match="did not ask"):
            await queue.send("x", id="a")
    finally:
        pair.raw.execute_command("ACL", "SETUSER", "default", "+set")
    assert await counts(queue) == {"ready": 2}


def test_the_mark_is_the_last_write_before_the_question() -> None:
    sender = Sender(MoreKeys(KEYS, {"sender": KEYS.sender("n")}), 1)
    call = sending_calls.send(sender, delay=0, ttl=0, items=["a", b"\x04x"])
    batch: Any = next(taken_in(Confirm(2, 100), KEYS, [call]))
    said = [command.command(Joined())[:3] for command in batch.calls]
    assert [part[0] for part in said] == [b"FCALL", b"SET", b"WAIT"]
    assert said[2] == (b"WAIT", 2, 100)


def test_what_follows_an_unknown_script_is_said_again_with_it() -> None:
    senders = [Sender(MoreKeys(KEYS, {"sender": KEYS.sender(name)}), 1) for name in ("a", "b")]
    sends = [sending_calls.send(sender, delay=0, ttl=0, items=["a", b"\x04x"]) for sender in senders]
    first = queue_calls.clock()
    talk = exchange(
        [first, sends[0], sends[1], confirm.mark(KEYS), confirm.confirmed_by(1, 9)],
        Joined(),
        repeated=False,
    )
    next(talk)
    again = talk.send([[1, 0], [7], redis.ResponseError("Function not found"), b"OK", 1])
    assert [command[0] for command in again] == [b"FUNCTION", b"FCALL", b"SET", b"WAIT"]
    with pytest.raises(StopIteration) as end:
        talk.send([b"sha", [0, 1, b"acked/3"], b"OK", 0])
    assert end.value.value == [1000, Taken(7, {}), Taken(0, {0: Place("acked", 3)}), b"OK", 0]


# What is refused at first use


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ((), "CONFIG SET appendonly yes"),
        (("--appendonly", "yes", "--appendfsync", "everysec"), "CONFIG SET appendfsync always"),
        (("--appendonly", "yes", "--appendfsync", "no"), "CONFIG SET appendfsync always"),
        (
            ("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"),
            "no-appendfsync-on-rewrite no",
        ),
        (("--rename-command", "CONFIG", ""), "CONFIG SET appendonly yes"),
        (
            ("--appendonly", "yes", "--appendfsync", "always", "--rename-command", "CONFIG", ""),
            r"grant CONFIG GET",
        ),
    ],
)
def test_a_server_that_cannot_keep_fsync_is_refused(
    tmp_path: Path, options: tuple[str, ...], advice: str
) -> None:
    with Server(tmp_path, *options) as server, Broker(server.url, durability="fsync") as broker:
        with pytest.raises(BrokerRefused, match=advice):
            broker.queue("q").send("x")
        with server.client() as raw:
            assert raw.keys() == []


def test_a_server_that_loads_its_file_is_not_taken_for_one_without() -> None:
    """While it does, INFO says that the file is off; CONFIG GET tells what was set."""
    loading = {"aof_enabled": "0", "loading": "1"}
    kept = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
    assert what_fsync_lacks(loading, kept) == ""
    assert "append-only file is off" in what_fsync_lacks(loading, kept | {"appendonly": "no"})
    assert "append-only file is off" in what_fsync_lacks({"aof_enabled": "0", "loading": "0"}, None)


def test_a_server_that_keeps_fsync_is_used(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with Server(tmp_path, *options) as server, Broker(server.url, durability="fsync") as broker:
        sent = broker.queue("q").send("x")
        server.kill()
        server.start()
        assert [message.id for message in broker.queue("q").select().browse()] == [sent]


def test_a_server_without_wait_is_refused() -> None:
    pool = fakeredis.FakeRedis(server=fakeredis.FakeServer()).connection_pool
    with (
        Broker(pool=pool, durability="replicated") as broker,
        pytest.raises(BrokerRefused, match="needs WAIT"),
    ):
        broker.queue("q").send("x")


@each_row(
    "options, error",
    [
        ({"durability": "disk"}, ConfigurationError),
        ({"durability": None}, ConfigurationError),
        ({"durability": "replicated", "replicas": 0}, ConfigurationError),
        ({"durability": "replicated", "replicas": 1.5}, ConfigurationError),
        ({"durability": "replicated", "replicas": True}, ConfigurationError),
        ({"replicas": 2}, ConfigurationError),
        ({"confirm_within": 0}, InvalidDuration),
        ({"confirm_within": "soon"}, InvalidDuration),
        ({"confirm_within": "5s"}, ConfigurationError),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        BrokerSettings(**options)


def test_nothing_is_asked_where_nothing_was_said() -> None:
    with servers.running() as path, Broker(f"unix://{path}") as broker:
        broker.queue("q").send_many(range(3))
        with redis.Redis(unix_socket_path=path) as raw:
            assert "cmdstat_wait" not in raw.info("commandstats")


def test_on_a_cluster_the_replicas_of_the_queues_node_are_asked(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path, replicas=1) as cluster,
        Broker(cluster.url, durability="replicated", confirm_within="300ms") as broker,
    ):
        queues = [broker.queue(f"q{number}") for number in range(6)]
        nodes = [cluster.owner(queue._core.keys["messages"]) for queue in queues]
        assert len({node.port for node in nodes}) > 1
        for queue in queues:
            wait_until(partial(confirmed, queue))
        lonely = nodes[0]
        cluster.nodes[cluster.nodes.index(lonely) + cluster.masters].kill()
        with lonely.client() as raw:
            wait_until(lambda: not raw.info("replication")["connected_slaves"])
        assert [confirmed(queue) for queue in queues] == [node is not lonely for node in nodes]
        (check,) = [check for check in examine(broker) if check.name == "replicas"]
        assert check.state == "fail"
        assert check.found == f"127.0.0.1:{lonely.port}: none"


def confirmed(queue: Queue[Any]) -> bool:
    """Whether a message that was sent to it is."""
    try:
        return bool(queue.send("x"))
    except Unconfirmed:
        return False
