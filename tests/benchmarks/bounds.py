"""What one call costs Redis at most: where keys have a rate or take turns, much is due, or a rule is new.

python -m tests.benchmarks.bounds
python -m tests.benchmarks.bounds --calls 50 "fair"

It counts the time of the processor, of which others on a busy machine take nothing; but it is slower while
they share its caches: compare with the plain queue. Each call that a client makes counts by itself.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import redis
from redis.connection import AbstractConnection
from rich.console import Console
from rich.table import Table

from rq_dlq import Breaker, Broker, Message, PerKey
from rq_dlq.testing.clock import MOVED_CLOCK, Clock
from tests import servers

GOAL = 5.0  # milliseconds (I9)
MOST = 2  # verbs of a queue that are printed: those that cost most
CHUNK = 5_000


def sent(queue: Any, count: int, keys: int, **options: Any) -> None:
    """Send so many messages, each with one of so many keys."""
    for first in range(0, count, CHUNK):
        numbers = range(first, min(first + CHUNK, count))
        queue.send_many([Message(n, key=f"k{n % keys}", **options) for n in numbers])


def ruled(rule: PerKey | None, count: int, keys: int) -> Callable[[Broker, Clock], Any]:
    """A queue with this rule, which has so many messages of so many keys."""

    def make(broker: Broker, clock: Clock) -> Any:
        del clock
        queue = broker.queue("a", per_key=rule)
        sent(queue, count, keys)
        return queue

    return make


def due(broker: Broker, clock: Clock) -> Any:
    """Keyed messages that fall due together."""
    queue = broker.queue("a", per_key=PerKey(order=True))
    sent(queue, 60_000, 60_000, delay="1m")
    clock.advance("1m")
    return queue


def turned_on(broker: Broker, clock: Clock) -> Any:
    """A rule that is turned on over a full queue."""
    del clock
    sent(broker.queue("a"), 200_000, 200)
    return broker.queue("a", per_key=PerKey(order=True))


def down(broker: Broker, clock: Clock) -> Any:
    """Messages whose dependency is down: no claim hands them out."""
    del clock
    queue = broker.queue("a", breaker=Breaker())
    for first in range(0, 60_000, CHUNK):
        queue.send_many([Message(n, dependency="payments") for n in range(first, first + CHUNK)])
    queue.dependency("payments").pause()
    return queue


MAKE: dict[str, tuple[Callable[[Broker, Clock], Any], int]] = {
    "plain": (ruled(None, 100_000, 1_000), 1_000),
    "a rate of keys": (ruled(PerKey(rate="1/s"), 100_000, 50_000), 1_000),
    "a rate of keys, claims of 100": (ruled(PerKey(rate="1/s"), 100_000, 50_000), 100),
    "order": (ruled(PerKey(order=True), 100_000, 50_000), 1_000),
    "order with a rate": (ruled(PerKey(order=True, rate="1/s"), 100_000, 50_000), 1_000),
    "fair": (ruled(PerKey(fair=True), 100_000, 5_000), 1_000),
    "limit 8": (ruled(PerKey(limit=8), 100_000, 5_000), 1_000),
    "60,000 fall due": (due, 1_000),
    "a rule turned on over 200,000": (turned_on, 1_000),
    "60,000 whose dependency is down": (down, 1_000),
}


@dataclass(frozen=True)
class Cost:
    """What the calls of one verb cost in one kind of queue, milliseconds."""

    calls: int
    middle: float
    high: float
    most: float


def used(raw: Any) -> float:
    """The time of the processor that the server's thread has used, milliseconds."""
    cpu = raw.info("cpu")
    return 1_000 * float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])


@contextmanager
def measured(raw: Any) -> Iterator[dict[str, list[float]]]:
    """What each call of a verb costs that a client makes meanwhile, by the verbs that it sends together."""
    costs = defaultdict[str, list[float]](list)
    send, read = AbstractConnection.send_packed_command, AbstractConnection.read_response
    idle = min(-(used(raw) - used(raw)) for _ in range(20))  # of asking
    waits: dict[Any, tuple[list[bytes], float]] = {}  # connection -> what it sent, and the time used before

    def sending(self: Any, command: Any, *args: Any, **options: Any) -> Any:
        verbs = _VERB.findall(b"".join(map(bytes, command)))
        if verbs:
            waits[self] = (verbs, used(raw))
        return send(self, command, *args, **options)

    def reading(self: Any, *args: Any, **options: Any) -> Any:
        reply = read(self, *args, **options)
        if self in waits:
            verbs, before = waits.pop(self)
            cost = (used(raw) - before - idle) / len(verbs)
            costs[b" + ".join(sorted({*verbs})).decode()].append(cost)
        return reply

    with patch.multiple(AbstractConnection, send_packed_command=sending, read_response=reading):
        yield costs


_VERB = re.compile(rb"rq_[0-9a-f]{12}_(\w+)")


def run(queue: Any, clock: Clock, count: int, calls: int) -> int:
    """Claim so many times, and settle in each way; how many messages a claim returned."""
    settle = (queue.ack, partial(queue.nack, error=ValueError("broken")), queue.release)
    sizes: list[int] = []
    for n in range(calls):
        clock.advance(0.05)
        claimed = queue.claim(count)
        sizes.append(len(claimed))
        settle[n % len(settle)](claimed)
        if n % 10 == 0:
            queue.maintain()
    return sorted(sizes)[len(sizes) // 2]


def costs(name: str, calls: int, program: str | None) -> tuple[int, dict[str, Cost]]:
    """Measure one kind of queue on a server of its own: the messages of a claim, and the verbs."""
    make, count = MAKE[name]
    with (
        servers.running(program=program) as path,
        redis.Redis(unix_socket_path=path) as raw,
        Broker(f"unix://{path}", verbs=MOVED_CLOCK) as broker,
    ):
        clock = Clock(raw)
        queue = make(broker, clock)
        with measured(redis.Redis(unix_socket_path=path)) as seen:
            batch = run(queue, clock, count, calls)
    return batch, {verb: cost_of(sorted(times)) for verb, times in seen.items()}


def cost_of(times: list[float]) -> Cost:
    """Of some calls, from what each of them cost."""
    return Cost(len(times), times[len(times) // 2], times[max(len(times) * 99 // 100 - 1, 0)], times[-1])


def main(arguments: list[str] | None = None) -> None:
    """Measure each kind of queue, or those whose names have a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    parser.add_argument("word", nargs="?", default="")
    chosen = parser.parse_args(arguments)
    table = Table(
        "ms of Redis a call", "messages", "verb", "calls", "middle", "99th of 100", "most", f"<= {GOAL:g}"
    )
    for name in MAKE:
        if chosen.word in name:
            batch, found = costs(name, chosen.calls, chosen.server)
            for verb, cost in sorted(found.items(), key=lambda one: -one[1].high)[:MOST]:
                verdict = "yes" if cost.high <= GOAL else "[red]no"
                times = (f"{time:.1f}" for time in (cost.middle, cost.high, cost.most))
                table.add_row(name, f"{batch:,}", verb, f"{cost.calls:,}", *times, verdict)
    Console().print(table)


if __name__ == "__main__":
    main()
