"""What a Redis user may not do is said before anything is done."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import pytest_asyncio

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import BrokerRefused, MissingRights
from rq_dlq._redis.acl import acl_line
from rq_dlq._redis.proof import FORMS, WRITES, trials
from rq_dlq._redis.rights import right_of
from rq_dlq._redis.role import missing_rights
from rq_dlq._redis.roles import ROLES
from rq_dlq._scripts import Joined
from rq_dlq.core.jobs.stage import Stage
from tests import servers
from tests.colours import Awaited
from tests.contents import contents
from tests.servers import Server
from tests.servers.acl import reads_apart, rules_of
from tests.servers.clusters import one_node

JOINED = Joined()
ALL = frozenset().union(*(JOINED[name].commands for name in JOINED.names()))
ROOT = Path(rq_dlq.__file__).parent


@pytest.fixture(scope="module", params=servers.programs(), ids=str)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Every kind of server."""
    with Server(tmp_path_factory.mktemp("server"), program=str(request.param)) as server:
        yield server


@pytest.fixture
def admin(real: Server) -> Iterator[Any]:
    """Who may do everything."""
    client = real.client()
    client.flushall()
    client.script_flush()
    if reads_apart(client.info("server")["redis_version"]):
        client.function_flush()
    yield client
    client.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def user(real: Server, admin: Any, colour: str) -> AsyncIterator[Callable[..., Any]]:
    """A broker of a user that plays a role, with changes to its rights."""
    brokers: list[Any] = []

    def make(role: str, *changes: str, database: int = 0) -> Any:
        rules = rules_of(role, admin)
        admin.execute_command("ACL", "SETUSER", "joe", "reset", ">secret", *rules, *changes)
        kind = rq_dlq.asyncio.Broker if colour == "async" else rq_dlq.Broker
        broker = kind(f"unix://joe:secret@{real.socket}?db={database}")
        brokers.append(broker if colour == "async" else Awaited(broker))
        return brokers[-1]

    yield make
    for broker in brokers:
        await broker.close()


def calls(admin: Any) -> dict[str, int]:
    """How often each command was called since the last CONFIG RESETSTAT."""
    return {name.removeprefix("cmdstat_"): said["calls"] for name, said in admin.info("commandstats").items()}


async def test_all_that_is_lacking_is_named_and_nothing_done(user: Callable[..., Any], admin: Any) -> None:
    await user("producer").queue("orders").send("x")
    before = contents(admin)
    broker = user("producer", "-zadd", "-hincrby")
    for _ in range(2):  # it is asked again: the right may have been granted meanwhile
        with pytest.raises(
            MissingRights, match=r"the Redis user lacks \+hincrby \+zadd: nothing was"
        ) as caught:
            await broker.queue("orders").send("y")
        assert caught.value.rights == ("+hincrby", "+zadd")
    assert contents(admin) == before
    admin.execute_command("ACL", "SETUSER", "joe", "+zadd", "+hincrby")
    await broker.queue("orders").send("y")


async def test_a_right_is_asked_for_once(user: Callable[..., Any], admin: Any) -> None:
    queue = user("consumer").queue("orders")
    await queue.send_many(range(9))
    admin.config_resetstat()
    for delivery in await queue.claim(9):
        await delivery.ack()
    await queue.send("x")
    said = calls(admin)
    assert said["multi"] == said["discard"] == 1, "for the claim, which asks for what settles, too"
    loaded = said.get("script|load", 0)  # after an attempt without it
    runs = said.get("evalsha", 0) + said.get("fcall", 0)
    assert runs == 1 + 9 + 1 + loaded, "what was queued to ask is not carried out"


async def test_who_claims_can_settle(user: Callable[..., Any]) -> None:
    """A right that only an ack takes is missed before anything is handed out."""
    await user("producer").queue("orders").send("x")
    queue = user("consumer", "-hexists").queue("orders")
    with pytest.raises(MissingRights, match=r"\+hexists"):
        await queue.claim()
    assert (await queue.stats()).ready == 1


@pytest.mark.parametrize("lacking", ["multi", "discard"])
async def test_who_must_not_ask_is_refused(lacking: str, user: Callable[..., Any], admin: Any) -> None:
    broker = user("consumer", f"-{lacking}")
    with pytest.raises(MissingRights, match=rf"\+{lacking}"):
        await broker.queue("orders").send("x")
    assert not admin.exists("rq:{orders}:messages")
    assert all(int(client["multi"]) == -1 for client in admin.client_list()), "a transaction is left open"
    admin.execute_command("ACL", "SETUSER", "joe", f"+{lacking}")
    await broker.queue("orders").send("x")


async def test_a_right_taken_away_meanwhile(user: Callable[..., Any], admin: Any) -> None:
    """The first script after that may stop in its middle; from then on nothing is begun."""
    queue = user("producer").queue("orders")
    await queue.send("x")
    admin.execute_command("ACL", "SETUSER", "joe", "-zadd")
    with pytest.raises(MissingRights, match="a call stopped halfway"):
        await queue.send("y", id="y")
    before = contents(admin)
    with pytest.raises(MissingRights, match=r"lacks \+zadd"):
        await queue.send("y", id="y")
    assert contents(admin) == before
    admin.execute_command("ACL", "SETUSER", "joe", "+zadd")
    await queue.send("y", id="y")
    assert (await user("read-only").queue("orders").stats()).ready == 2


async def test_keys_are_named_by_their_queue(user: Callable[..., Any], admin: Any) -> None:
    await user("producer").queue("orders").send("x")
    broker = user("producer", "resetkeys", "~rq:{bills}:*", "~rq:queues", "~rq:aliases", "~rq:policies")
    await broker.queue("bills").send("x")
    before = contents(admin)
    with pytest.raises(MissingRights, match=r"lacks ~rq:\{orders\}:\*:"):
        await broker.queue("orders").send("x")
    await broker.close()
    with pytest.raises(MissingRights, match=r"lacks ~rq:\{orders\}:\*:"):
        await broker.queue("orders").send("x")
    assert contents(admin) == before
    with pytest.raises(MissingRights, match=r"lacks (~rq:queues )?~rq:aliases"):
        await user("producer", "resetkeys", "~rq:{*").queue("orders").send("x")


async def test_what_a_wait_takes(user: Callable[..., Any], admin: Any) -> None:
    """It is refused before the claim that is sent with it is carried out."""
    await user("producer").queue("orders").send("x")
    queue = user("consumer", "-blpop").queue("orders")
    await queue.ack(await queue.claim())
    admin.config_resetstat()
    with pytest.raises(MissingRights, match=r"lacks \+blpop"):
        await queue.claim(wait="1m")
    said = calls(admin)
    assert said.get("evalsha", 0) + said.get("fcall", 0) == 1, "the claim before the wait"


async def test_what_loading_a_script_takes(user: Callable[..., Any], admin: Any, real: Server) -> None:
    rules = [rule for rule in rules_of("producer", admin) if rule != "+script|load"]
    queue = user("producer", "reset", ">secret", *rules).queue("orders")
    with pytest.raises(MissingRights, match=r"\+script\|load"):
        await queue.send("x")
    assert not admin.exists("rq:{orders}:messages")
    with rq_dlq.Broker(real.url) as broker:
        broker.queue("other").send("x")
    await queue.send("x")


async def test_what_another_database_takes(user: Callable[..., Any]) -> None:
    with pytest.raises(BrokerRefused, match=r"\+select"):
        await user("producer", "-select", database=1).queue("orders").send("x")
    await user("producer", "-select").queue("orders").send("x")


async def test_a_job_stages_nothing_that_would_stay(user: Callable[..., Any], admin: Any) -> None:
    """What is appended goes by itself, or is not appended."""
    broker = user("producer", "-pexpire")
    stage = Stage(broker.queue("orders")._core.keys, "job", "attempt")
    with pytest.raises(MissingRights, match=r"\+pexpire"):
        await broker._run(stage.add(["id", b"payload"]))
    assert not admin.keys("*stage*")


async def test_without_transactions_it_goes_on(tmp_path: Path, colour: str) -> None:
    """As with some proxies: then the server refuses what it refuses."""
    options = ("--rename-command", "MULTI", "")
    with Server(tmp_path, *options) as server:
        kind = rq_dlq.asyncio.Broker if colour == "async" else rq_dlq.Broker
        broker: Any = kind(server.url)
        broker = broker if colour == "async" else Awaited(broker)
        queue = broker.queue("orders")
        await queue.send("x")
        assert all(await queue.ack(await queue.claim()))
        await broker.close()


@pytest.mark.parametrize("role", ROLES)
def test_a_line_gives_all_that_the_role_needs(role: str, real: Server, admin: Any) -> None:
    rules = rules_of(role, admin, "orders")
    admin.execute_command("ACL", "SETUSER", "joe", "reset", ">secret", *rules)
    with rq_dlq.Broker(f"unix://joe:secret@{real.socket}") as broker:
        keys, run = broker.queue("orders")._core.keys, broker._connected().alone
        assert run(missing_rights([ROLES[role]], keys, JOINED)) == []
        assert "~rq:{bills}:*" in run(missing_rights([ROLES[role]], broker.queue("bills")._core.keys, JOINED))


def test_each_form_is_valid_for_every_server(real: Server) -> None:
    """Else a server would count arguments, and never look at rights."""
    with real.client() as client:
        pipeline = client.pipeline()
        for trial in trials(FORMS.keys() | {b"TIME"}, "rq:{orders}:x"):
            pipeline.execute_command(*trial)
        assert len(pipeline.execute(raise_on_error=False)) == len(FORMS) + 1  # EXECABORT, where one is not


def test_there_is_a_form_for_each_command_of_a_script() -> None:
    assert FORMS.keys() | {b"TIME"} == ALL


def plain() -> set[bytes]:
    """The plain commands of the operations, read from the source."""
    text = "".join(file.read_text() for file in (ROOT / "core").glob("**/*.py"))
    return {name.encode() for name in re.findall(r'\(?\(b"([A-Z]+)"', text)}


def test_it_is_known_which_plain_commands_write(real: Server) -> None:
    with real.client() as client:
        known = {name: client.command()[name.decode().lower()]["flags"] for name in plain()}
    writing = {name for name, flags in known.items() if "write" in flags}
    assert writing | {b"SET"} == WRITES | {b"SET"}


def test_every_plain_command_belongs_to_a_role() -> None:
    granted = {right for role in ROLES.values() for right in acl_line(role, "x", "rq").split()}
    granted |= set(acl_line(ROLES["producer"], "x", "rq", durability="replicated").split())
    granted |= {right.partition("|")[0] for right in granted}  # of those that have several
    assert {f"+{right_of((name,))}" for name in plain()} <= granted
    assert {name for role in ROLES.values() for name in role.verbs} == set(JOINED.names())


def test_the_fake_server_is_asked_too() -> None:
    server = fakeredis.FakeServer()
    with rq_dlq.Broker(pool=fakeredis.FakeRedis(server=server).connection_pool) as broker:
        broker.queue("orders").send("x")
        assert broker._connected()._link.proven >= {"send"}


async def test_a_node_of_a_cluster(tmp_path: Path, colour: str) -> None:
    with Server(tmp_path, *one_node()) as server, server.client() as admin:
        admin.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        servers.wait_until(lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO"))
        rules = rules_of("producer", admin)
        admin.execute_command("ACL", "SETUSER", "joe", ">secret", *rules, "-zadd")
        kind = rq_dlq.asyncio.Broker if colour == "async" else rq_dlq.Broker
        broker: Any = kind(f"unix://joe:secret@{server.socket}")
        broker = broker if colour == "async" else Awaited(broker)
        for name in ("orders", "bills"):
            with pytest.raises(MissingRights, match=r"\+zadd"):
                await broker.queue(name).send("x")
            assert not admin.exists(f"rq:{{{name}}}:messages")
        admin.execute_command("ACL", "SETUSER", "joe", "+zadd")
        await broker.queue("orders").send("x")
        await broker.close()


def test_the_error_crosses_processes() -> None:
    import pickle  # noqa: PLC0415

    error = MissingRights("the Redis user lacks +zadd", ("+zadd",))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.rights) == (str(error), error.rights)


def test_nobody_takes_a_right_by_a_wrong_word() -> None:
    for user, queue in (("joe +@all", "*"), ("", "*"), ("joe", "a b"), ("joe", "a\n~*"), ("joe", "a\tb")):
        with pytest.raises(rq_dlq.InvalidInput, match="a single word"):
            acl_line(ROLES["producer"], user, "rq", queue)
