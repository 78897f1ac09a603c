"""The protocol of the adapters: a program for each peer, which answers the benchmark line by line.

A line of stdin is JSON, [verb, argument, ...]; the answer is a line of JSON on stdout. The verbs:

    about                    → what `Peer.about` says
    prepare                  → null; creates what has to be there before a message is sent
    send_one COUNT SECONDS   → [messages, seconds]: so many sends of one message, or what the time allows
    send_many COUNT SECONDS  → the same with the peer's own call for many messages
    one_by_one SECONDS       → [messages, seconds]: takes one message and acks it, again and again
    pick_up COUNT SECONDS    → milliseconds from before a send until the handler of an idle worker has it

It runs with the peer's own Python, so it needs nothing but the standard library. The peer's worker is a
process of its own, with the variables BENCH_URL, BENCH_WAY, BENCH_AT_ONCE (messages at once) and
BENCH_PICK_UPS (a FIFO).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import json
import os
import random
import select
import sys
import time
from collections.abc import Callable
from typing import Any

BODY = {"data": "x" * 89}  # 100 bytes of JSON
URL = os.environ.get("BENCH_URL", "redis://127.0.0.1:6379")
AT_ONCE = int(os.environ.get("BENCH_AT_ONCE", "1"))
CHUNK = 1_000  # messages in one call of send_many
PATIENCE = 5.0  # seconds, at least, for one message to be picked up

AS_IT_COMES, FOR_SPEED, THREADS = "as it comes", "set for speed", "8 threads"
ASYNC_10, ASYNC_100 = "10 async", "100 async"
WAYS = {AS_IT_COMES: 1, FOR_SPEED: 1, THREADS: 8, ASYNC_10: 10, ASYNC_100: 100}  # messages at once


class Peer:
    """One queue library. The methods may be `def` or `async def`.

    Attributes:
        packages: whose versions are printed.
        setting: what was chosen, in a few words.
        workers: the command of the worker for each way; {python} and {bin} are of the peer's environment.
        left: Redis commands whose numbers add up to the messages that are not done; XINFO GROUPS counts
            what its groups have not acked. Empty: the server knows.
        crash: what becomes of the messages of a worker that is killed.
        fence: whether the ack of a worker that lost its message is refused.
        leaves: what stays in the server when all is done.
    """

    packages: tuple[str, ...] = ()
    setting = ""
    workers: dict[str, str] = {}
    left: list[list[str]] = []
    crash = fence = leaves = ""

    def about(self) -> dict[str, Any]:
        """What the benchmark has to know."""
        versions = {name: importlib.metadata.version(name) for name in self.packages}
        names = ("setting", "workers", "left", "crash", "fence", "leaves")
        verbs = [verb for verb in ("send_chunk", "take_one") if hasattr(self, verb)]
        return {"versions": versions, "verbs": verbs} | {name: getattr(self, name) for name in names}

    def prepare(self) -> Any:
        """Create what has to be there before a message is sent."""

    def send(self, body: Any) -> Any:
        """Send one message."""
        raise NotImplementedError

    # send_chunk(bodies): the peer's own call for many messages. take_one(): claim one message, and ack it.


class Session:
    """Answers the verbs."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._runner = asyncio.Runner(loop_factory=fast_loop())

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the peer, and await it where that is needed."""
        found = function(*arguments)
        return self._runner.run(_awaited(found)) if inspect.isawaitable(found) else found

    def about(self) -> Any:
        """See `Peer`."""
        return self._peer.about()

    def prepare(self) -> None:
        """Create what has to be there, and open a connection."""
        self.call(self._peer.prepare)

    def send_one(self, count: int, seconds: float) -> list[float]:
        """Send one by one; the first, which connects, does not count."""
        self.call(self._peer.send, BODY)
        return self._timed(lambda: self._peer.send(BODY), 1, count, seconds)

    def send_many(self, count: int, seconds: float) -> list[float]:
        """Send by the peer's own call for many messages; where it has none, one by one."""
        if not hasattr(self._peer, "send_chunk"):
            return self.send_one(count, seconds)
        self.call(self._peer.send, BODY)
        bodies = [BODY] * min(count, CHUNK)
        return self._timed(lambda: self._peer.send_chunk(bodies), len(bodies), count, seconds)

    def one_by_one(self, seconds: float) -> list[float]:
        """Take one message after the other."""
        return self._timed(self._peer.take_one, 1, sys.maxsize, seconds)

    def _timed(self, step: Callable[[], Any], each: int, count: int, seconds: float) -> list[float]:
        """Repeat a step, which returns False when there is nothing left."""
        is_async = inspect.iscoroutinefunction(self._peer.send)

        async def repeat() -> list[float]:
            done, began = 0, time.perf_counter()
            while done < count and time.perf_counter() < began + seconds:
                if (await step() if is_async else step()) is False:
                    break
                done += each
            return [done, time.perf_counter() - began]

        return self._runner.run(repeat())

    def pick_up(self, count: int, seconds: float) -> list[float]:
        """Send to an idle worker, and wait for what its handler notes."""
        waited = list[float]()
        end = time.monotonic() + seconds
        fifo = os.open(os.environ["BENCH_PICK_UPS"], os.O_RDWR)
        try:
            while len(waited) < count and (time.monotonic() < end or not waited):
                self.call(self._peer.send, {"sent": time.monotonic()})
                if not select.select([fifo], [], [], max(seconds, PATIENCE))[0]:
                    raise TimeoutError("the worker has not noted a message: is it running?")
                waited.append(float(os.read(fifo, 100).split()[0]))
                time.sleep(random.uniform(0.005, 0.015))
        finally:
            os.close(fifo)
        return waited


def work(body: Any) -> None:
    """The handler: it does nothing, except with a message that says when it was sent."""
    if "sent" in body:
        fifo = os.open(os.environ["BENCH_PICK_UPS"], os.O_WRONLY)
        os.write(fifo, b"%.4f\n" % ((time.monotonic() - body["sent"]) * 1000))
        os.close(fifo)


def serve(peer: Peer) -> None:
    """Answer until stdin ends."""
    session = Session(peer)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        answers.write(json.dumps(getattr(session, verb)(*arguments)) + "\n")
        answers.flush()


async def _awaited(found: Any) -> Any:
    return await found


def fast_loop() -> Any:
    """What makes an event loop: uvloop where the peer's environment has it."""
    try:
        import uvloop  # noqa: PLC0415 - where the peer has it
    except ImportError:
        return None
    return uvloop.new_event_loop
