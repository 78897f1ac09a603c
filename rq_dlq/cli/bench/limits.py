"""Measures the server without queues: the limits for the figures."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from statistics import median, quantiles
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rq_dlq.core.steps.call import Command
from rq_dlq.core.steps.step import Pipeline

if TYPE_CHECKING:
    from rq_dlq.client.broker import Broker

BODY = {"data": "x" * 89}
BYTES = 100  # bytes of the body as JSON
BATCH = 100  # messages in one call
IDLE = 0.003  # seconds before a message is sent, so that the waiting client blocks
PICK_UPS = 200
LOOK = 0.25  # seconds in which other clients' commands are counted
PATIENCE = 5.0  # seconds for one message to arrive
WAIT = 0.1  # seconds that one call waits

NOTHING = "return 1"
PUSH = "for i = 1, ARGV[2] do redis.call('RPUSH', KEYS[1], ARGV[1]) end return 1"
POP = "local found = {} for i = 1, ARGV[1] do found[i] = redis.call('LPOP', KEYS[1]) end return found"


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server.

    Attributes:
        ping: PINGs a second, one after another.
        script: calls of an empty script a second, one after another.
        push: bodies a second that a bare script appends to a list, 100 in a call.
        pop: bodies a second that a bare script takes from a list, 100 in a call.
        woken: milliseconds (p50, p99) from an RPUSH until a client that waits in BLPOP gets the element.
    """

    ping: float
    script: float
    push: float
    pop: float
    woken: tuple[float, float]


def run(broker: Broker, *parts: bytes | str | float) -> Any:
    """Run one command."""
    return broker._run(broker._step(Command(parts)))


def commands_a_second(broker: Broker) -> int:
    """The commands of other clients per second; the server's own mean is wrong in its first seconds."""

    def processed() -> int:
        text: bytes = run(broker, b"INFO", b"stats")
        lines = dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
        return int(lines.get(b"total_commands_processed", 0))

    before, began = processed(), time.perf_counter()
    time.sleep(LOOK)
    others = processed() - before - 1
    return round(others / (time.perf_counter() - began))


def rate(step: Callable[[], object], each: int, seconds: float) -> float:
    """Messages a second of a step that handles `each` of them. Stops early if the step returns False."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds and step() is not False:
        done += each
    return done / (time.perf_counter() - began)


def pick_ups(take: Callable[[], object], give: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Milliseconds (p50, p99) from the start of `give` until a `take` that waits in another thread returns.

    Args:
        take: waits for a moment; returns whether a message arrived.
    """
    came, over = SimpleQueue[float | Exception](), Event()

    def receive() -> None:
        try:
            while not over.is_set():
                if take():
                    came.put(time.perf_counter())
        except Exception as error:  # noqa: BLE001 - raised below
            came.put(error)

    thread = Thread(target=receive, daemon=True)
    thread.start()
    waited = list[float]()
    try:
        end = time.monotonic() + seconds
        while len(waited) < PICK_UPS and (time.monotonic() < end or len(waited) < 2):  # noqa: PLR2004 - for the quantiles
            time.sleep(IDLE)
            began = time.perf_counter()
            give()
            moment = came.get(timeout=PATIENCE)
            if isinstance(moment, Exception):
                raise moment
            waited.append((moment - began) * 1000)
    finally:
        over.set()
        thread.join()
    return median(waited), quantiles(waited, n=100, method="inclusive")[98]


def loaded(broker: Broker, keys: Sequence[str], script: str) -> Callable[..., Any]:
    """A script as a function; in a cluster it is loaded on the node of the keys."""
    sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    together = Pipeline([Command((b"SCRIPT", b"LOAD", script)), Command((b"EXISTS", keys[0]))])
    broker._run(broker._step(together))
    return lambda *arguments: run(broker, b"EVALSHA", sha, len(keys), *keys, *arguments)


def limits(broker: Broker, seconds: float) -> ServerLimits:
    """Measure the limits, each for this many seconds."""
    key = f"{broker.settings.namespace}:bare"
    nothing, push, pop = (loaded(broker, [key], script) for script in (NOTHING, PUSH, POP))
    body = "x" * BYTES
    return ServerLimits(
        ping=rate(lambda: run(broker, b"PING"), 1, seconds),
        script=rate(nothing, 1, seconds),
        push=rate(lambda: push(body, BATCH), BATCH, seconds / 2),
        pop=rate(lambda: bool(pop(BATCH)), BATCH, seconds),
        woken=pick_ups(
            lambda: run(broker, b"BLPOP", f"{key}:woken", WAIT),
            lambda: run(broker, b"RPUSH", f"{key}:woken", b"1"),
            seconds,
        ),
    )
