"""What many calls of a task cost, beside as many bodies of its queue: time, the client's part, and bytecodes.

python -m tests.benchmarks.tasks --rounds 15
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from tests import servers
from tests.benchmarks.instructions import Bytecodes

MESSAGES = 10_000  # of a round
Send: TypeAlias = "Callable[[int], object]"
"""Sends so many messages."""


def one(user: int) -> None:
    """A task of one argument."""


def two(user: int, lang: str = "en") -> None:
    """A task of two."""


def untyped(user, lang="en"):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A task whose arguments may be anything."""


SIDES: dict[str, tuple[Callable[..., Any], Callable[[int], Any], Callable[[int], Any]]] = {
    "one argument": (one, lambda n: {"user": n}, lambda n: (n,)),
    "two arguments": (two, lambda n: {"user": n, "lang": "de"}, lambda n: (n, "de")),
    "two by name": (two, lambda n: {"user": n, "lang": "de"}, lambda n: {"user": n, "lang": "de"}),
    "two of any type": (untyped, lambda n: {"user": n, "lang": "de"}, lambda n: (n, "de")),
}
"""The function of a task, a body, and a call."""


def sends(broker: Broker, name: str) -> tuple[Send, Send]:
    """What sends bodies, and what sends calls; all of these are made before."""
    function, body, call = SIDES[name]
    queue, task = broker.queue("bodies"), broker.task(queue="calls", name=name)(function)
    bodies, calls = [*map(body, range(MESSAGES))], [*map(call, range(MESSAGES))]
    return lambda count: queue.send_many(bodies[:count]), lambda count: task.send_many(calls[:count])


def spent(broker: Broker, send: Send) -> tuple[float, float]:
    """Microseconds of a message, and those of this process; the queues are emptied before."""
    for queue in ("bodies", "calls"):
        broker.queue(queue).delete(force=True)
    send(1)
    began = time.perf_counter(), time.process_time()
    send(MESSAGES)
    ended = time.perf_counter(), time.process_time()
    whole, own = ((end - begin) / MESSAGES * 1e6 for begin, end in zip(began, ended, strict=True))
    return whole, own


def bytecodes(send: Send) -> float:
    """Those of a message more in a call."""
    send(2_000)
    counts: list[int] = []
    for count in (1_000, 2_000):
        with Bytecodes() as counted:
            before = counted.here()
            send(count)
            counts.append(counted.here() - before)
    return (counts[1] - counts[0]) / 1_000


def main(arguments: list[str] | None = None) -> None:
    """Measure both sides, turn and turn about."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    chosen = parser.parse_args(arguments)
    table = Table("a message", "a body", "a call", "call : body", title="send_many")
    with servers.running(program=chosen.server) as path, Broker(f"unix://{path}") as broker:
        for name in SIDES:
            both = sends(broker, name)
            rounds = [[spent(broker, send) for send in both] for _ in range(chosen.rounds)]
            # The fastest round of each, since other processes only slow one.
            figures = {
                f"{name}, µs{what}": [min(one[side][n] for one in rounds) for side in range(2)]
                for n, what in enumerate(("", " of the client"))
            }
            figures[f"{name}, bytecodes"] = [bytecodes(send) for send in both]
            for said, (body, call) in figures.items():
                table.add_row(said, f"{body:.2f}", f"{call:.2f}", f"{call / body:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
