"""Which keys and records a queue should have: layouts measured side by side.

Each layout is three bare scripts in `layouts/` (send, claim, ack) with the same features: a
repeatable send, delay, priority, ttl, delivery count, a random token as the fence, the check for
lapses inside the claim, a claim that can be repeated. Each is checked before it is measured.

Server and client share one core; the layouts take turns, in another order each round. A figure is
the median of the rounds; in brackets the median of its ratios to the first layout of the same
round, which holds where the machine changes its speed. Compare figures of one run only.

    python tests/benchmarks/layouts.py --messages 100000 --rounds 5

Results on Redis 7.0.15, in messages per second of CPU for claim + ack, with the ratio to the first layout in
the same round (noise about ±5 %), from `--messages 100000 --rounds 7`:

| layout | send | batch 1 | batch 10 | batch 100 | Redis µs | bytes pending |
|---|---|---|---|---|---|---|
| one lease per claim (chosen) | 153,401 | 6,863 | 43,480 | 110,223 | 7.0 | 283 |
| one lease per message | 145,188 (0.95) | 7,313 (1.07) | 41,685 (0.96) | 80,118 (0.77) | 10.3 | 282 |
| one set by visibility time | 132,435 (0.90) | 7,473 (1.10) | 45,862 (1.03) | 106,728 (0.97) | 7.3 | 282 |
| a key per message | 111,777 (0.76) | 7,078 (1.09) | 40,513 (0.97) | 83,777 (0.79) | 9.8 | 450 |
| a list of ids, if fresh | 220,033 (1.45) | 7,009 (1.00) | 42,015 (1.06) | 129,118 (1.17) | 5.8 | 185 |

The list is smaller and faster, but messages can be taken only from its head: a purge or an expiry would leave
tombstones, and order would need a merge. A single sorted set loses the exact position of a returned message.
Keys of single messages cannot be declared.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redis import ConnectionError as RedisConnectionError
from redis import Redis, UnixDomainSocketConnection
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Generator

SCRIPTS: Final = Path(__file__).with_suffix("")
VERBS: Final = ("send", "claim", "ack")
SEND_BATCH: Final = 500
BATCHES: Final = {1: 40, 10: 5, 100: 0}  # size: the part of the messages drained so; 0: the rest
LEASE: Final = 60_000  # milliseconds
PAYLOAD: Final = 100  # bytes
USUAL: Final = 4  # priority

Sample: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Script:
    """A Lua file with its fragments, and the keys that its first lines name."""

    text: str
    keys: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Script:
        """Read the file, put its `-- @include`s in place."""
        text = _assembled(path)
        bindings = re.findall(r"^local ([\w, ]+) = KEYS\[", text, re.MULTILINE)
        names = [name for binding in bindings for name in binding.split(", ")]
        return cls(text, tuple(f"{{bench}}:{name}" for name in names))


def _assembled(path: Path) -> str:
    def fragment(match: re.Match[str]) -> str:
        return _assembled(path.with_name(f"{match[1]}.lua"))

    return re.sub(r"^-- @include (\w+)\n", fragment, path.read_text(), flags=re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """A way to lay out a queue: one script a verb."""

    name: str
    scripts: dict[str, Script] = field(repr=False)

    @classmethod
    def find(cls, directory: Path, wanted: list[str]) -> list[Layout]:
        """Return those wanted, or all, in the order of their first lines (A, B, ...)."""
        heads = {p.name.split(".")[0]: p.read_text() for p in directory.glob("*.send.lua")}
        names = wanted or sorted(heads, key=heads.__getitem__)
        return [
            cls(name, {verb: Script.read(directory / f"{name}.{verb}.lua") for verb in VERBS})
            for name in names
        ]


@dataclass(frozen=True)
class Delivery:
    """One message as a claim returned it."""

    id: bytes
    record: bytes
    count: int
    token: str


class Client:
    """A connection of its own, without redis-py's command layer; the same for every layout."""

    def __init__(self, path: str) -> None:
        """Connect at the first command."""
        self._connection = UnixDomainSocketConnection(path=path)  # type: ignore[abstract]
        self._shas: dict[str, bytes] = {}

    def command(self, *words: str | bytes | int) -> Any:
        """Run one command."""
        packed = self._connection.pack_command(*words)
        self._connection.send_packed_command(packed)
        return self._connection.read_response()

    def run(self, script: Script, *args: str | bytes | int) -> Any:
        """Run a script by its hash."""
        sha = self._shas.get(script.text)
        if sha is None:
            sha = self._shas[script.text] = self.command("SCRIPT", "LOAD", script.text)
        return self.command("EVALSHA", sha, len(script.keys), *script.keys, *args)

    def info(self, section: str) -> dict[str, str]:
        """Return one section of INFO."""
        text: bytes = self.command("INFO", section)
        return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)

    def cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        info = self.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory(self) -> int:
        """Return the bytes of data, once tables have stopped growing."""
        seen, before = 0, -1
        while seen != before:
            time.sleep(0.25)
            info = self.info("memory")
            before, seen = seen, int(info["used_memory"]) - int(info["mem_clients_normal"])
        return seen

    def close(self) -> None:
        """Hang up."""
        self._connection.disconnect()


class UsualClient(Client):
    """The client of redis-py, as programs use it: what most of them would call the scripts by."""

    def __init__(self, path: str) -> None:
        """Connect at the first command."""
        super().__init__(path)
        self._redis = Redis(unix_socket_path=path)

    def command(self, *words: str | bytes | int) -> Any:
        """Run one command."""
        return self._redis.execute_command(*words)

    def close(self) -> None:
        """Hang up."""
        self._redis.close()
        super().close()


class Queue:
    """One queue in one layout."""

    def __init__(self, client: Client, layout: Layout) -> None:
        """Take the scripts of the layout."""
        self._client = client
        self._send, self._claim, self._ack = (layout.scripts[verb] for verb in VERBS)
        self.name = layout.name

    def send(self, items: list[bytes], delay: int = 0, ttl: int = 0) -> int:
        """Send id, payload, id, payload, ...; return how many were new."""
        sent: int = self._client.run(self._send, delay, ttl, *items)
        return sent

    def claim(self, token: str, count: int, lease: int = LEASE) -> list[Any]:
        """Return id, record, state for each message."""
        rows: list[Any] = self._client.run(self._claim, token, count, lease, "host-1")
        return rows

    def deliveries(self, token: str, count: int, lease: int = LEASE) -> list[Delivery]:
        """Claim, and read what came."""
        rows = self.claim(token, count, lease)
        return [
            Delivery(rows[i], rows[i + 1], int(rows[i + 2].split()[3]), token) for i in range(0, len(rows), 3)
        ]

    def keys_left(self) -> int:
        """Return the number of keys, but for the counters: one small hash a queue."""
        keys: list[bytes] = self._client.command("KEYS", "*")
        return sum(not key.endswith(b":counters") for key in keys)

    def ack(self, items: list[bytes | str]) -> list[int]:
        """Ack id, token, id, token, ...; return 1 or, for a stale token, 0 for each."""
        verdicts: list[int] = self._client.run(self._ack, *items)
        return verdicts


def check(queue: Queue) -> None:
    """Refuse to measure a layout that does not keep its promises.

    Raises:
        SystemExit: says which promise.
    """

    def expect(promise: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            sys.exit(f"{queue.name}: {promise}: {seen!r} instead of {wanted!r}")

    def items(ids: str, priority: int = USUAL) -> list[bytes]:
        return [part for id_ in ids for part in (id_.encode(), bytes([priority]) + b"body")]

    def claimed(token: str, count: int, lease: int = LEASE) -> str:
        return b"".join(each.id for each in queue.deliveries(token, count, lease)).decode()

    def ack(ids: str, token: str) -> list[int]:
        return queue.ack([part for id_ in ids for part in (id_.encode(), token)])

    expect("send", queue.send(items("abcdef")), 6)
    expect("a repeated send adds nothing", queue.send(items("afg")), 1)
    expect("priority", (queue.send(items("h", 9)), claimed("t1", 3)), (1, "hab"))
    expect("a repeated claim", claimed("t1", 3), "hab")
    expect("the count stays", [each.count for each in queue.deliveries("t1", 3)], [1, 1, 1])
    expect("order", claimed("t2", 9, 20), "cdefg")
    expect("a stale token", ack("hc", "t2"), [0, 1])
    time.sleep(0.03)
    expect("lapsed, at its place", claimed("t3", 2), "de")
    expect("the count grows", [each.count for each in queue.deliveries("t3", 2)], [2, 2])
    expect("the rest of the lapsed", claimed("t4", 9), "fg")
    expect("late ack", ack("de", "t2"), [0, 0])
    expect("ack", ack("hab", "t1") + ack("dde", "t3") + ack("fg", "t4"), [1, 1, 1, 1, 0, 1, 1, 1])
    expect("delay and ttl", (queue.send(items("x"), 200, 0), queue.send(items("y"), 0, 150)), (1, 1))
    expect("not before it is due", claimed("t5", 9, 1), "y")
    time.sleep(0.25)
    expect("due, and not the expired", claimed("t6", 9, 20), "x")
    time.sleep(0.03)
    expect("a delayed one lapses, too", claimed("t7", 9), "x")
    expect("expired ones are gone", (ack("xy", "t7"), claimed("t8", 9)), ([1, 0], ""))
    expect("in time", (queue.send(items("z"), 0, 200), claimed("t9", 9)), (1, "z"))
    time.sleep(0.25)
    expect("no expiry while it is held", (claimed("u1", 9), ack("z", "t9")), ("", [1]))
    expect("in time", (queue.send(items("w"), 0, 200), claimed("u2", 9, 20)), (1, "w"))
    time.sleep(0.25)
    expect("expired when it lapsed", (claimed("u3", 9), claimed("u4", 9)), ("", ""))
    expect("nothing is left", (ack("w", "u2"), queue.keys_left()), ([0], 0))


@dataclass(frozen=True)
class Cost:
    """What a phase took, in seconds."""

    wall: float
    cpu: float
    server: float


@contextmanager
def timed(client: Client, into: list[Cost]) -> Generator[None]:
    """Time a phase: by the clock, all CPU, the server's CPU."""
    server, cpu, wall = client.cpu(), time.process_time(), time.perf_counter()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    server = client.cpu() - server
    into.append(Cost(wall, cpu + server, server))


def drain(queue: Queue, count: int, batch: int, seed: str, *, each: bool = False) -> None:
    """Claim and ack so many messages, a call each; or a call for the ack of `each` message.

    Raises:
        RuntimeError: a message was missing, or an ack refused.
    """
    for n in range(0, count, batch):
        token = f"{seed}{n:022d}"[-22:]
        rows = queue.claim(token, min(batch, count - n))
        settled: list[bytes | str] = [token] * (len(rows) // 3 * 2)
        settled[::2] = rows[::3]
        parts = [settled[i : i + 2] for i in range(0, len(settled), 2)] if each else [settled]
        if sum(sum(queue.ack(part)) for part in parts) != min(batch, count - n):
            message = f"{queue.name}: not all of a batch of {batch} was acked"
            raise RuntimeError(message)


def items_of(messages: int) -> list[bytes]:
    """Return id, payload, id, payload, ...: ids of 12 characters, the same for every layout."""
    draw = random.Random(1)
    body = bytes([USUAL]) + draw.randbytes(PAYLOAD)
    return [part for _ in range(messages) for part in (urlsafe_b64encode(draw.randbytes(9)), body)]


def fill(queue: Queue, items: list[bytes]) -> None:
    """Send everything, in batches."""
    for n in range(0, len(items), 2 * SEND_BATCH):
        queue.send(items[n : n + 2 * SEND_BATCH])


def weigh(client: Client, queue: Queue, items: list[bytes]) -> Sample:
    """Return the bytes of a pending message, and what is left when all are gone."""
    messages = len(items) // 2
    fill(queue, items)  # once before, so that scripts and buffers are there already
    drain(queue, messages, max(BATCHES), "warm")
    client.command("FLUSHALL", "SYNC")
    empty = client.memory()
    fill(queue, items)
    pending = client.memory() - empty
    drain(queue, messages, max(BATCHES), "")
    keys: list[bytes] = client.command("KEYS", "*")
    return {
        "bytes pending": pending / messages,
        "keys left": queue.keys_left(),
        "bytes left": sum(client.command("MEMORY", "USAGE", key) for key in keys),  # the counters
    }


def measure(client: Client, queue: Queue, items: list[bytes], clock: str) -> Sample:
    """Fill the queue and drain it once."""
    client.command("FLUSHALL", "SYNC")
    costs, result = list[Cost](), Sample()
    with timed(client, costs):
        fill(queue, items)
    left = messages = len(items) // 2
    result["send /s"] = messages / getattr(costs[-1], clock)
    result["send µs"] = costs[-1].server / messages * 1e6
    for batch, part in BATCHES.items():
        count = messages // part if part else left
        with timed(client, costs):
            drain(queue, count, batch, f"{batch}-")
        left -= count
        result[f"claim {batch} /s"] = count / getattr(costs[-1], clock)
        result[f"claim {batch} µs"] = costs[-1].server / count * 1e6
    return result


@contextmanager
def server(program: str, settings: list[str]) -> Generator[Client]:
    """Start a server of our own that keeps nothing on disk."""
    with tempfile.TemporaryDirectory() as family:
        path = f"{family}/socket"
        command = [program, "--port", "0", "--unixsocket", path, "--dir", family, "--save", ""]
        for setting in settings:
            name, value = setting.split("=", 1)
            command += [f"--{name}", value]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        client = Client(path)
        try:
            _await(client)
            yield client
        finally:
            client.close()
            process.terminate()
            process.wait()


def _await(client: Client) -> None:
    for _ in range(500):
        try:
            client.command("PING")
        except RedisConnectionError:
            time.sleep(0.01)
        else:
            return
    sys.exit("the server does not start")


def report(title: str, weights: dict[str, Sample], rounds: list[dict[str, Sample]]) -> None:
    """Print the medians, in brackets those of the ratios to the first layout."""
    first = next(iter(weights))
    caption = "/s: of CPU or clock, as asked; µs: CPU of Redis; claim: claim and ack"
    table = Table(title=title, caption=caption)
    for name in ("layout", *rounds[0][first], *weights[first]):
        table.add_column(name, justify="left" if name == "layout" else "right")
    for layout, weight in weights.items():
        cells = []
        for name in rounds[0][layout]:
            figure = median(each[layout][name] for each in rounds)
            ratio = median(each[layout][name] / each[first][name] for each in rounds)
            cells.append(f"{figure:,.{2 if 'µs' in name else 0}f} ({ratio:.2f})")
        table.add_row(layout, *cells, *(f"{figure:,.0f}" for figure in weight.values()))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", default="redis-server", help="the program (default: on PATH)")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--core", type=int, default=1, help="for server and client together; -1: any")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu", help="what /s is of")
    parser.add_argument("--scripts", type=Path, default=SCRIPTS, help="another directory of layouts")
    parser.add_argument("layout", nargs="*", help="some of them (default: all)")
    return parser.parse_args()


def main() -> None:
    """Check the layouts, measure them in turns, print one table."""
    args = _arguments()
    program = shutil.which(args.server)
    if program is None:
        sys.exit(f"no such server: {args.server}")
    layouts = Layout.find(args.scripts, args.layout)
    if args.core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})
    items, rounds = items_of(args.messages), list[dict[str, Sample]]()
    with server(program, args.config) as client:
        queues = [Queue(client, layout) for layout in layouts]
        for queue in queues:
            client.command("FLUSHALL", "SYNC")
            check(queue)
        weights = {queue.name: weigh(client, queue, items) for queue in queues}
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            turn = number % len(queues)
            turns = queues[turn:] + queues[:turn]
            rounds.append({queue.name: measure(client, queue, items, args.clock) for queue in turns})
        version = client.info("server")["redis_version"]
    command = shlex.join(["layouts.py", *sys.argv[1:]])
    report(f"{command}\nRedis {version}", weights, rounds)


if __name__ == "__main__":
    main()
