"""Tests that were collected once, run in forks: each with Lua of its own, on a server of its own."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import redis

from rq_dlq import _scripts
from rq_dlq._scripts import Joined
from rq_dlq._scripts.joining import join
from rq_dlq._scripts.verb import Library
from tests.proofs.mutants.came_by import telling
from tests.proofs.mutants.mutate import Mutant
from tests.servers import Server, answers, wait_until

ENDLESS = 2_000  # milliseconds; no script of ours runs for as long
Message = dict[str, Any]


class _Child:
    """A plugin: the tests' server is this one, and failures are noted."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.failures: list[str] = []

    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> object:
        """None: it is set up as it says."""
        if fixturedef.argname != "redis_socket":
            return None
        fixturedef.cached_result = (self.socket, fixturedef.cache_key(request), None)  # type: ignore[arg-type]
        return self.socket

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of setup, test and teardown; the audit of the keys is a teardown."""
        if report.failed:
            self.failures.append(str(report.longrepr))


@dataclass
class Slot:
    """A place for one fork at a time, with a server."""

    server: Server
    pid: int = 0
    pipe: int = -1
    rest: bytes = b""
    began: float = 0.0

    def begin(self, work: Callable[[Callable[[Message], None]], None]) -> None:
        """Fork, and have the child do the work; what it tells is read by `messages`."""
        _made()
        gc.freeze()  # else the first collection of the child copies all its memory
        reader, writer = os.pipe()
        self.began, self.rest = time.monotonic(), b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            _child(work, writer)
        with suppress(PermissionError, ProcessLookupError):  # it was quicker
            os.setpgid(self.pid, self.pid)
        os.close(writer)
        self.pipe = reader

    def messages(self) -> Iterator[Message]:
        """What the child has told by now; the last is empty: it has ended."""
        part = os.read(self.pipe, 1 << 20)
        *lines, self.rest = (self.rest + part).split(b"\n")
        yield from map(json.loads, lines)
        if not part:
            self.end()
            yield {}

    def end(self) -> None:
        """Kill the child and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        self.pid, self.pipe = 0, -1

    def is_stuck(self) -> bool:
        """Whether the server is gone, or in a script that does not end."""
        try:
            with self.server.client(socket_timeout=3) as client:
                client.ping()
        except redis.TimeoutError:
            return False  # the machine is busy
        except redis.RedisError as error:
            return isinstance(error, redis.ConnectionError) or "BUSY" in str(error)
        return False

    def refresh(self) -> None:
        """A new server, empty."""
        self.server.kill()
        self.server.start(wait=False)
        wait_until(lambda: answers(self.server.socket))


def _child(work: Callable[[Callable[[Message], None]], None], writer: int) -> None:
    def tell(message: Message) -> None:
        _all(writer, json.dumps(message).encode() + b"\n")

    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        work(tell)
    except BaseException:  # noqa: BLE001 - whatever it is, the child ends here
        tell({"broke": traceback.format_exc()})
    finally:
        os._exit(0)


def _all(writer: int, text: bytes) -> None:
    while text:
        text = text[os.write(writer, text) :]


def ready(slots: Sequence[Slot], seconds: float) -> list[Slot]:
    """Those whose child has told something, or ended."""
    busy = {slot.pipe: slot for slot in slots if slot.pid}
    return [busy[pipe] for pipe in select.select(list(busy), [], [], seconds)[0]]


def use(change: Callable[[str, str], str], joined: Callable[[str], str] = str) -> None:
    """In a child: the modules read as `change` makes them, and their joined text as `joined` makes that."""

    @cache
    def anew(modules: frozenset[tuple[str, str]]) -> Library:
        library = join({name: change(name, text) for name, text in modules})
        return replace(library, text=joined(library.text))

    def join_anew(texts: Mapping[str, str]) -> Library:
        return anew(frozenset(texts.items()))

    vars(_scripts)["join"] = join_anew
    _scripts._library = cache(lambda: join_anew(_scripts._files()))
    for known in _made():
        known.known.clear()
        for name in ("_joined", "_sources"):
            known.__dict__.pop(name, None)


@cache
def _made() -> list[Joined]:
    """Those that the tests hold since they were imported."""
    gc.unfreeze()  # what is frozen, as after a collection of tests, is in no list
    return [known for known in gc.get_objects() if type(known) is Joined]


def run_tests(
    items: Sequence[pytest.Item], server: Server, tell: Callable[[Message], None], *, first: bool
) -> None:
    """In a child: run them, and tell of each; `first`: no more after one that failed, and failed again."""
    child = _Child(server.socket)
    items[0].config.pluginmanager.register(child)

    def failed(item: pytest.Item, following: pytest.Item | None) -> bool:
        known = len(child.failures)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return len(child.failures) > known

    for item, following in zip(items, [*items[1:], None], strict=True):
        began = time.monotonic()
        tell({"begins": item.nodeid})
        fails = failed(item, following)
        if fails and first:
            item._initrequest()  # type: ignore[attr-defined]
            fails = failed(item, None)
        why = child.failures[-1][-2_000:] if fails else ""
        tell({"test": item.nodeid, "failed": fails, "seconds": time.monotonic() - began, "why": why})
        if fails and first:
            return


def record(items: Sequence[pytest.Item], slot: Slot, seconds: float) -> None:
    """In a fork: what each test comes by, how long it takes, whether it succeeds."""
    told = telling()

    def work(tell: Callable[[Message], None]) -> None:
        use(told.change, told.joined)
        with slot.server.log.open("rb") as log:
            log.seek(0, os.SEEK_END)

            def extended(message: Message) -> None:
                if "test" in message:
                    tell(message | {"lines": sorted(told.read(log.read()))})
                    if time.monotonic() - slot.began > seconds:
                        os._exit(0)

            run_tests(items, slot.server, extended, first=False)

    slot.begin(work)


def attempt(items: Sequence[pytest.Item], usual: Sequence[float], mutant: Mutant, slot: Slot) -> None:
    """In a fork: run the tests until one fails, or takes far longer than usual (seconds)."""

    def change(name: str, text: str) -> str:
        if name != mutant.file or not text.startswith(mutant.sound):
            return text
        return mutant.text + text.removeprefix(mutant.sound)  # a test may add a verb of its own

    def work(tell: Callable[[Message], None]) -> None:
        use(change)
        for item, seconds in zip(items, usual, strict=True):
            item.add_marker(pytest.mark.timeout(5 + 10 * seconds), append=False)
        run_tests(items, slot.server, tell, first=True)

    slot.begin(work)
