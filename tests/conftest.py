"""Brokers for the tests: fakeredis and a real Redis, blocking and awaiting, with a clock that tests move."""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import hypothesis
import pytest
import pytest_asyncio
import redis
import redis.asyncio

import rq_dlq
import rq_dlq.asyncio
from rq_dlq.testing.clock import MOVED_CLOCK as MOVED_CLOCK  # noqa: PLC0414 - the tests have both from here
from rq_dlq.testing.clock import Clock as Clock  # noqa: PLC0414
from tests import distribution, needs, part, servers, variants
from tests.audit import audit_all
from tests.colours import Awaited
from tests.servers.choice import Choice, talks
from tests.servers.clusters import Cluster
from tests.servers.fakes import Fakes
from tests.servers.fakes import running as running_fakes
from tests.servers.forms import Forms
from tests.servers.warm import Warm

ROOT = Path(__file__).parent.parent
CHOICE = pytest.StashKey[Choice]()
FORMS = pytest.StashKey[Forms]()
BEFORE = pytest.StashKey[set[str]]()

# Without deadlines: the machine may be busy. Each run draws anew, and remembers what failed.
hypothesis.settings.register_profile("few", deadline=None, max_examples=30)
hypothesis.settings.register_profile("many", deadline=None, max_examples=300)  # `make slow`
hypothesis.settings.load_profile("few")


def pytest_configure(config: pytest.Config) -> None:
    """Before processes of xdist start; in each of them, too."""
    config.stash[CHOICE] = Choice.of(os.environ)
    config.stash[FORMS] = Forms.of(os.environ)
    config.stash[BEFORE] = contents()
    if draw := part.taken(os.environ, here=not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(part.Part.of(draw, ROOT, files_of_tests(config)))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.pluginmanager.hasplugin("cacheprovider"):
        distribution.compile_once(config.cache.mkdir("compiled"))


def contents() -> set[str]:
    """What is in the checkout, but for what tools keep there: caches, and the folders of builds."""
    return {
        name
        for name in (path.name for path in ROOT.iterdir())
        if name[0] != "." and name not in {"build", "dist"}
    }


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if the tests have left something in the checkout."""
    before = session.config.stash[BEFORE]
    left = contents() - before
    if left and not hasattr(session.config, "workerinput"):
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(f"left in the checkout: {', '.join(sorted(left))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def files_of_tests(config: pytest.Config) -> list[Path]:
    """All files of tests."""
    left_out = {ROOT / folder for folder in config.getini("norecursedirs")}
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path for path in files if left_out.isdisjoint(path.parents)]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is collected stays to the end: no use looking for garbage there, now or later."""
    gc.disable()
    process = os.environ.get("PYTEST_XDIST_WORKER", "")  # as in gw0
    try:
        if process and session.config.args == session.config.getini("testpaths"):
            files = [path.relative_to(ROOT) for path in files_of_tests(session.config)]
            distribution.import_own(files, int(process[2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The variants of each test; before pytest looks for parameters of its fixtures."""
    variants.make(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first; what talks to a server is marked."""
    items.sort(key=lambda item: distribution.rank(item.nodeid))
    for item in items:
        if talks(item):
            item.add_marker("redis")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The server of the test, and what else it needs; before there are fixtures."""
    wanted = {kind for mark in item.iter_markers("needs") for kind in mark.args}
    server = item.config.stash[CHOICE].take(item.nodeid, tls="tls" in wanted)
    only = next((str(mark.args[0]) for mark in item.iter_markers("form")), "")
    form = item.config.stash[FORMS].take(item.nodeid, only)
    item.add_report_section("setup", "server", f"{server}, {form}")  # shown where the test fails
    for program in wanted - {"tls"}:
        needs.need_program(program)


def pytest_report_header(config: pytest.Config) -> str:
    """The servers of the tests."""
    forms = " or ".join(config.stash[FORMS].names)
    return f"server: {config.stash[CHOICE]}; with {forms}"


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`."""
    return distribution.processes()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> distribution.Shares | None:
    """For `-n`."""
    return distribution.scheduler(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What could not run here."""
    skipped = terminalreporter.stats.get("skipped", [])
    if terminalreporter.hasopt("skipped"):  # -rs: then pytest says it
        needs.fold(skipped)
        return
    for line in needs.summary(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def version_of_the_client() -> Iterator[None]:
    """Read from its metadata once, and not for each connection."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("redis.utils.get_lib_version", functools.cache(redis.utils.get_lib_version))
        yield


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """The command line sets it for its process, as with -vv; the next test has it as it was."""
    logger = logging.getLogger("rq_dlq")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def kept() -> Iterator[servers.Kept]:
    """Servers for the whole session."""
    with servers.Kept() as kept:
        yield kept


@pytest.fixture(scope="module")
def redis_socket(kept: servers.Kept) -> str:
    """A real server, the same in all files that draw it."""
    return kept.one("server", servers.running)


@pytest.fixture(scope="module")
def cluster(kept: servers.Kept, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster of three nodes, the same in all files that draw its server."""
    return kept.one("cluster", lambda: Cluster(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Starts processes that have imported the package."""
    with Warm() as warm:
        yield warm


@pytest.fixture(scope="module")
def redis_client(redis_socket: str) -> Iterator[redis.Redis]:
    """A plain client of that server."""
    with redis.Redis(unix_socket_path=redis_socket) as client:
        yield client


@pytest.fixture(scope="session")
def fakes() -> Iterator[Fakes]:
    """Makes fake servers."""
    with running_fakes() as fakes:
        yield fakes


@pytest.fixture
def empty_socket(redis_socket: str, redis_client: redis.Redis) -> str:
    """That server, of which all databases are empty."""
    redis_client.flushall()
    return redis_socket


@pytest.fixture(params=variants.VALUES["backend"])
def backend(request: pytest.FixtureRequest) -> str:
    """Which kind of server."""
    return str(request.param)


@pytest.fixture
def server(backend: str, request: pytest.FixtureRequest) -> Any:
    """An empty server: a fakeredis one, or the path of a socket."""
    if backend == "fake":
        return request.getfixturevalue("fakes").server()
    return request.getfixturevalue("empty_socket")


@pytest.fixture
def raw(server: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A plain client, to look at the keys."""
    if not isinstance(server, str):
        client: redis.Redis = fakeredis.FakeRedis(server=server)
    elif server == request.getfixturevalue("redis_socket"):
        yield request.getfixturevalue("redis_client")
        return
    else:  # a file's own
        client = redis.Redis(unix_socket_path=server)
    yield client
    client.close()


@pytest.fixture
def clock(raw: Any) -> Clock:
    """The clock of `broker`."""
    return Clock(raw)


@pytest.fixture
def sync_broker(server: Any, clock: Clock) -> Iterator[rq_dlq.Broker]:
    """A blocking broker with the moved clock."""
    del clock
    if isinstance(server, str):
        broker = rq_dlq.Broker(f"unix://{server}", verbs=MOVED_CLOCK)
    else:
        pool = fakeredis.FakeRedis(server=server).connection_pool
        broker = rq_dlq.Broker(pool=pool, verbs=MOVED_CLOCK)
    yield broker
    broker.close()


@pytest_asyncio.fixture
async def async_broker(server: Any, clock: Clock) -> AsyncIterator[rq_dlq.asyncio.Broker]:
    """An awaiting broker with the moved clock."""
    del clock
    if isinstance(server, str):
        broker = rq_dlq.asyncio.Broker(f"unix://{server}", verbs=MOVED_CLOCK)
    else:
        pool = fakeredis.FakeAsyncRedis(server=server).connection_pool
        broker = rq_dlq.asyncio.Broker(pool=pool, verbs=MOVED_CLOCK)
    yield broker
    await broker.close()


@pytest.fixture(params=variants.VALUES["broker"])
def broker(request: pytest.FixtureRequest, clock: Clock) -> Any:
    """A broker to be awaited, of either colour; the behaviour suite runs on this."""
    del clock  # named here, so that the audit below sees that there is a server
    if request.param == "async":
        return request.getfixturevalue("async_broker")
    return Awaited(request.getfixturevalue("sync_broker"))


@pytest.fixture(autouse=True)
def _nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test that used a server: its keys agree with each other, and nothing is left behind."""
    client = request.getfixturevalue("raw") if "raw" in request.fixturenames else None
    yield
    if client is not None:
        audit_all(client)
