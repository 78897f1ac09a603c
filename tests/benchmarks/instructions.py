"""Instructions of redis-server for a call, and bytecodes of the client for a message, beside another commit.

Other programs change no count, so no quiet machine is needed: callgrind counts the instructions of a server
of its own, and Python its own bytecodes. Each commit is measured in a process of its own. The clock of the
queue only moves from message to message, or the work that is due now and then would come more often the
slower the machine is.

    python -m tests.benchmarks.instructions --beside HEAD~1
    python -m tests.benchmarks.instructions --beside ../the-other-checkout --calls ack:1 ack:100
    python -m tests.benchmarks.instructions --at-most 1.02

The last is what CI runs: a commit fails if one of its counts is more than 1.02 times that of the commit
before, unless a line `Instructions: ` and the reason is among the trailers of its message.

What else a machine does must not count: Redis collects Lua's garbage every fifty calls, so a count begins
behind that; the embedded server gets a hash seed; of a worker only the thread counts that runs handlers, and
the clock by which it sizes its claims stands still. A count that seems to have grown is taken up to three
times more, and the lowest counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from types import FrameType, SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import redis
from rich.console import Console
from rich.table import Table

import rq_dlq
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.worker import Worker
from rq_dlq.worker.claiming import Pace
from tests import servers
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.driver import CAUSE, Driver

HERE = Path(__file__).resolve().parents[2]
NO_VALGRIND = "no valgrind here: apt-get install valgrind"
# Little work of its own. Under callgrind most calls are slow, more of them the busier the machine is.
QUIET = ("--hz", "1", "--dynamic-hz", "no", "--activerehashing", "no", "--slowlog-log-slower-than", "-1")
COLLECT = "collectgarbage('collect')"  # or a cycle of Lua's collector begins in one count, and in another not
LIBRARY = f"""#!lua name=collect
redis.register_function('collect', function() {COLLECT} end)
redis.register_function('nothing', function() end)"""
CYCLE = 50  # of so many calls of verbs, Redis has one collect garbage for a while
PARTS = 4  # of the calls, which are counted one after the other
AGAIN = 3  # times that a count is taken which seems to have grown
WARM = 5  # calls, or messages, that are not counted
TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)
Calls = tuple[Call[Any], ...]
Counts = dict[str, float]
"""What was counted, by its name and the feature, as `ack:100 off`."""

FEATURES: dict[str, dict[str, str]] = {
    "off": {},
    "keys": {"per_key": "order"},
    "results": {"results": "3600000"},  # of all messages, for an hour
    "on": {"per_key": "order", "results": "3600000"},
}
"""The settings of the queue; with a rule for keys, each message has one of its own."""


def _send(driver: Driver, n: int, size: int) -> Calls:
    return (driver.send_call(*[(f"m{n}-{k}", 4) for k in range(size)]),)


def _claim(driver: Driver, n: int, size: int) -> Calls:
    driver.run_all(*_send(driver, n, size))
    return (driver.claim_call(f"token-{n:020}", size),)


def _held(driver: Driver, n: int, size: int) -> list[tuple[str, str]]:
    driver.run_all(*_claim(driver, n, size))
    return [(f"m{n}-{k}", f"token-{n:020}") for k in range(size)]


def _nack(driver: Driver, n: int, size: int) -> Calls:
    held = _held(driver, n, size)
    how: dict[str, Any] = {"charge": True, "cause": CAUSE, "consumer": '"c"', "seed": 0.5}
    return (settling_calls.nack(driver.keys, held, delay=None, default_policy=driver.wire, **how),)


CALLS: dict[str, Callable[[Driver, int, int], Calls]] = {
    "send": _send,
    "claim": _claim,
    "ack": lambda driver, n, size: (settling_calls.ack(driver.keys, _held(driver, n, size)),),
    "nack": _nack,
    "release": lambda driver, n, size: (settling_calls.release(driver.keys, _held(driver, n, size)),),
}
SIZES = (1, 100)
ALL = [f"{call}:{size}" for size in SIZES for call in CALLS]


class Counted:
    """A server under callgrind."""

    def __init__(self, folder: Path, raw: Any, process: subprocess.Popen[bytes]) -> None:
        self._folder, self.raw, self._process = folder, raw, process

    def count(self, commands: list[tuple[Any, ...]]) -> float:
        """The instructions of each of these commands: the median of parts; other work is in few of them."""
        size = max(min(len(commands) // PARTS, CYCLE - 1), 1)
        parts = [commands[at : at + size] for at in range(0, len(commands), size)]
        return median_low(self.count_while(partial(self._run, part)) / len(part) for part in parts)

    def _run(self, commands: list[tuple[Any, ...]]) -> None:
        """All in one write, so that nothing comes between them."""
        with self.raw.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            pipe.execute()

    def count_while(self, act: Callable[[], object]) -> int:
        """The instructions of the server meanwhile."""
        self.raw.function_load(LIBRARY, replace=True)
        self.raw.eval(COLLECT, 0)
        self.raw.fcall("collect", 0)
        self._begin_cycle()
        self._tell("-z")
        act()
        before = {*self._folder.glob("out.*")}
        self._tell("-d")
        found: list[str] = []

        def written() -> list[str]:
            new = {*self._folder.glob("out.*")} - before
            found[:] = [said for file in new for said in TOTAL.findall(file.read_text())]
            return found

        servers.wait_until(written)
        return int(found[0])

    def _begin_cycle(self) -> None:
        """Call until Redis has just collected garbage by itself."""
        told = self.raw.info("commandstats").items()
        calls = sum(of["calls"] for name, of in told if name.startswith(("cmdstat_eval", "cmdstat_fcall")))
        with self.raw.pipeline(transaction=False) as pipe:
            for _ in range(-calls % CYCLE):
                pipe.fcall("nothing", 0)
            pipe.execute()

    def _tell(self, what: str) -> None:
        subprocess.run(["callgrind_control", what, str(self._process.pid)], check=True, capture_output=True)


def same_hashes(server: str) -> tuple[str, ...]:
    """Options by which a Valkey hashes alike in each run; a Redis draws, so its counts differ by 2 %."""
    return ("--hash-seed", "the same") if "valkey" in Path(server).name else ()


@contextmanager
def counted(server: str) -> Generator[Counted]:
    """A server of this program under callgrind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        socket = folder / "redis.sock"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out.%p", server]
        command += ["--port", "0", "--unixsocket", str(socket), "--save", "", *QUIET, *same_hashes(server)]
        with subprocess.Popen(
            command, cwd=name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                servers.wait_until(socket.exists)
                yield Counted(folder, redis.Redis(unix_socket_path=str(socket), socket_timeout=None), process)
            finally:
                process.kill()


def of_call(server: Counted, what: str, feature: str, times: int) -> float:
    """The instructions of one call of this kind: `ack:100` acks a hundred messages."""
    verb, _, size = what.partition(":")
    server.raw.flushall()
    verbs, clock = MOVED_CLOCK.for_server((7,)), Clock(server.raw)
    with_keys = {f"m{n}-{k}": f"key-{n}-{k}" for n in range(times + WARM) for k in range(int(size or 1))}
    key_of = with_keys if "per_key" in FEATURES[feature] else {}
    driver = Driver(
        server.raw, RedeliveryPolicy(), verbs, key_of=key_of
    )  # by position: it may be another commit's
    policy = {"redelivery": driver.wire.decode()}
    driver.run(driver.configure_call({**policy, **FEATURES[feature]}))
    calls: list[Call[Any]] = []
    for n in range(times + WARM):
        clock.advance("1ms")
        calls += CALLS[verb](driver, n, int(size or 1))
    driver.run_all(*calls[:WARM])
    return server.count([call.command(verbs) for call in calls[WARM:]])


AT_REST = ("rq_dlq.client.queue", "rq_dlq.client.delivery", "rq_dlq.worker.thread_consumer")
"""Here the clock stands still meanwhile: how many acks a client sends together depends on the time."""
STEADY = 127  # messages until a worker claims a hundred at a time: 1, 2, 4 … before


class Bytecodes:
    """Counts the bytecodes of each thread by itself, between `with` and its end.

    A worker's other threads look after the one that handles messages every so often, and the slower the
    machine is, the more often. The collector of garbage stands still, whose finalizers would count somewhere.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def here(self) -> int:
        """Those of this thread so far."""
        return self._counts[threading.get_ident()]

    def _traced(self, frame: FrameType, event: str, arg: object) -> Any:
        del arg
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self._counts[threading.get_ident()] += 1
        return self._traced

    def __enter__(self) -> Self:
        gc.collect()
        gc.disable()
        threading.settrace(self._traced)
        sys.settrace(self._traced)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)
        gc.enable()


@contextmanager
def at_rest() -> Iterator[None]:
    """The clock stands still for what decides how many messages go together."""
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    with ExitStack() as stack:
        for module in AT_REST:
            stack.enter_context(patch(f"{module}.time", clock))
        yield


def consume(queue: rq_dlq.Queue[Any], size: int, note: Callable[[], None]) -> None:
    """Consume all messages in a loop, so many in a claim."""
    for delivery in queue.consume(size):
        with delivery:
            note()


def work(queue: rq_dlq.Queue[Any], size: int, note: Callable[[], None]) -> None:
    """Work all messages off with one thread, so many in a claim."""

    @queue.handler
    def handle(body: object) -> None:
        del body
        note()

    with patch.object(Pace, "claim", size):
        Worker(queue._broker, until="empty").run()


WAYS: dict[str, Callable[[rq_dlq.Queue[Any], int, Callable[[], None]], None]] = {
    "consume": consume,
    "worker": work,
}
ALL_WAYS = [f"{way}:{size}" for size in SIZES for way in WAYS]


def of_client(url: str, what: str, feature: str, messages: int) -> float:
    """The bytecodes of the client for each message, on average of so many: `worker:100` claims a hundred.

    The lowest of parts, since chance only adds: a thread that wants a connection while another one reports
    over the last free one connects anew.
    """
    way, _, size = what.partition(":")
    declared: Any = {
        name: f"{value}ms" if value.isdigit() else value for name, value in FEATURES[feature].items()
    }
    with redis.Redis.from_url(url) as raw:
        raw.flushall()
    seen: list[int] = []
    with rq_dlq.Broker(url) as broker, at_rest():
        queue = broker.queue("counted", **declared)
        count = STEADY + PARTS * messages + 1
        keys = [f"key-{n}" if "per_key" in FEATURES[feature] else None for n in range(count)]
        queue.send_many(rq_dlq.Message({"n": n}, key=key) for n, key in enumerate(keys))
        with Bytecodes() as bytecodes:
            WAYS[way](queue, int(size), lambda: seen.append(bytecodes.here()))
    assert len(seen) == len(keys), f"{what} {feature}: {len(seen)} messages instead of {len(keys)}"
    marks = seen[STEADY::messages]
    return min(after - before for before, after in pairwise(marks)) / messages


def wanted(what: Iterable[str], options: argparse.Namespace) -> list[tuple[str, str]]:
    """What is counted, each with a feature."""
    pairs = [(one, feature) for feature in options.features for one in what]
    return [
        (one, feature) for one, feature in pairs if not options.only or f"{one} {feature}" in options.only
    ]


def measured(options: argparse.Namespace) -> Counts:
    """The counts of the library that this process has imported, by their names."""
    logging.basicConfig(level=logging.WARNING)  # of the worker
    program = options.server
    counts: Counts = {}
    with counted(program) as server:
        for what, feature in wanted(options.calls, options):
            size = int(what.partition(":")[2] or 1)
            times = max(options.times * 10 // (9 + size), PARTS)
            counts[f"{what} {feature}"] = of_call(server, what, feature, times)
    with servers.running(program=program) as path:
        for what, feature in wanted(options.clients, options):
            counts[f"{what} {feature}"] = of_client(f"unix://{path}", what, feature, 2 * max(SIZES))
    return counts


def measured_by(checkout: Path, words: list[str], server: str) -> Counts:
    """The same of a checkout, in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", *words, "--server", server]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"}
    result = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd=checkout
    )
    said: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert Path(said.pop("file")).is_relative_to(checkout), f"measured {said}, not {checkout}"
    return said


@contextmanager
def checkout_of(beside: str) -> Iterator[Path]:
    """The directory of this name, or a checkout of this commit for a while."""
    if Path(beside).is_dir():
        yield Path(beside).resolve()
        return
    with tempfile.TemporaryDirectory() as name:
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", f"{name}/checkout", beside], check=True)
        try:
            yield Path(name).resolve() / "checkout"
        finally:
            subprocess.run([*git, "remove", "--force", f"{name}/checkout"], check=True)


def rows(counts: Counts) -> Counts:
    """The counts, and with them those of a claim and its ack."""
    together: Counts = {}
    for what, count in counts.items():
        ack = what.replace("claim", "ack", 1)
        if what.startswith("claim") and ack in counts:
            together[what.replace("claim", "claim + ack", 1)] = count + counts[ack]
    return counts | together


def table_of(this: Counts, before: Counts, beside: str) -> Table:
    """Each count, and its ratio to that of the other commit."""
    table = Table("", "this", f"{beside}", "this : other")
    for what, count in rows(this).items():
        other = rows(before)[what]
        table.add_row(what, f"{count:,.0f}", f"{other:,.0f}", f"{count / other:.3f}")
    return table


def arguments(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--beside", default="HEAD~1", help="a commit, or another checkout")
    parser.add_argument("--times", type=int, default=200, help="calls of one message; fewer of a hundred")
    parser.add_argument("--calls", nargs="*", default=ALL, help=f"of {' '.join(ALL)}")
    parser.add_argument("--features", nargs="*", default=[*FEATURES], help=f"of {' '.join(FEATURES)}")
    parser.add_argument("--clients", nargs="*", default=ALL_WAYS, help=f"of {' '.join(ALL_WAYS)}")
    parser.add_argument("--server", default=servers.binary(), help='a redis-server, or "embedded"')
    parser.add_argument(
        "--at-most", type=float, help="fail if a count has more than this ratio, without a reason"
    )
    parser.add_argument("--only", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def git(*words: str) -> str:
    """What git says of this checkout; empty: nothing, or it knows no such thing."""
    command = ["git", "-C", str(HERE), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def without_need(beside: str) -> str:
    """Why a commit need not, or cannot, be compared with; empty: it can."""
    if not shutil.which("valgrind"):
        return NO_VALGRIND
    if not git("rev-parse", "--verify", "--quiet", f"{beside}^{{commit}}"):
        return f"there is no {beside} in this clone"
    if not git("diff", "--name-only", beside, "--", "lua", "rq_dlq"):
        return f"lua and rq_dlq are those of {beside}"
    return ""


def grown(this: Counts, before: Counts, at_most: float) -> list[str]:
    """The counts that have a higher ratio to those of the other commit."""
    return [what for what, count in this.items() if count > at_most * before[what]]


def again(
    measure: Callable[[list[str]], tuple[Counts, Counts]], this: Counts, before: Counts, at_most: float
) -> tuple[Counts, Counts]:
    """The counts, where those that seem to have grown are the lowest of some: chance only adds to them."""
    for _ in range(AGAIN):
        if not (high := grown(this, before, at_most)):
            break
        this, before = (
            old | {what: min(old[what], new[what]) for what in high}
            for old, new in zip((this, before), measure(high), strict=True)
        )
    return this, before


def reasons(beside: str) -> str:
    """What the commits since then say: the trailers `Instructions: …` of their messages."""
    return git("log", "--format=%(trailers:key=Instructions,valueonly)", f"{beside}..HEAD")


def verdict(this: Counts, before: Counts, at_most: float, why: str) -> str:
    """Why the step of CI fails; empty: it does not."""
    found = [f"{what} {this[what] / before[what]:.3f}" for what in grown(this, before, at_most)]
    if found and why:
        sys.stdout.write(f"more than {at_most}: {', '.join(found)}\nsince: {why}\n")
    if not found or why:
        return ""
    return (
        f"more than {at_most} times the instructions of the commit before: {', '.join(found)}\n"
        "make it cheaper, or end the commit's message with a line `Instructions: ` and why it is worth that"
    )


def main(given: list[str] | None = None) -> None:
    """Count, and print what was run."""
    options, words = arguments(given), sys.argv[1:] if given is None else given
    if options.measure:
        sys.stdout.write(json.dumps({**measured(options), "file": rq_dlq.__file__}))
        return
    if options.at_most and (why := without_need(options.beside)):
        sys.stdout.write(f"skipped: {why}\n")
        return
    if not shutil.which("valgrind"):
        sys.exit(NO_VALGRIND)
    options.server = servers.found(options.server) or options.server
    with checkout_of(options.beside) as other, ThreadPoolExecutor() as pool:

        def measure(only: list[str]) -> tuple[Counts, Counts]:
            chosen = [*words, "--only", *only] if only else words
            this, before = pool.map(partial(measured_by, words=chosen, server=options.server), (HERE, other))
            return this, before

        this, before = measure([])
        if options.at_most:
            this, before = again(measure, this, before, options.at_most)
    console = Console()
    console.print(
        f"$ {shlex.join(['python', '-m', 'tests.benchmarks.instructions', *words])}", soft_wrap=True
    )
    console.print(table_of(this, before, options.beside))
    if options.at_most and (why := verdict(this, before, options.at_most, reasons(options.beside))):
        sys.exit(why)


if __name__ == "__main__":
    main()
