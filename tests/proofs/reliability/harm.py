"""What handlers do to the worker that runs them, and workers to which it is done."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import rq_dlq
from rq_dlq import RedeliveryPolicy, RqDlqError

MOST = 3  # redeliveries
BUDGET = RedeliveryPolicy(delays=[0], max_redeliveries=MOST)
ABREAST = {"brief": {"def": 8, "async def": 100}, "long": {"def": 1, "async def": 1}}
"""Calls side by side. What takes too long has none beside it: a call that keeps the interpreter or the event
loop from running uses up the time of its neighbours, too."""
SHORT, SLOW, EACH = 0.001, 1.0, 40  # seconds that the innocent take; one in so many is slow
LEASES = {"brief": 3.0, "long": 1.0}  # seconds, of the queues: for what ends at once, and for what does not
TIMEOUT = 0.3  # seconds that a call in the long queue may take
BEYOND = 2.5  # seconds, longer than its lease
LAPSED, LATE = "Lapsed", "rq_dlq.worker.stopping.HandlerTimeout"
BROKEN_OFF = 4  # how a worker ends whose consumer broke off; no handler ends it like that


@dataclass(frozen=True, slots=True)
class Harm:
    """One kind.

    Attributes:
        do: what the handler does.
        causes: what the message may be dead of, as `Cause.type`.
        ends: how the process may end by it, an exit code or minus a signal; None: it lives.
    """

    do: Callable[[], object]
    causes: tuple[str, ...]
    ends: int | None = None


def raising(error: type[BaseException]) -> Callable[[], NoReturn]:
    """A handler that raises this."""

    def do() -> NoReturn:
        raise error

    return do


def use_up_memory() -> object:
    """More than any machine has."""
    return bytearray(1 << 62)


def recurse() -> int:
    """For ever."""
    return recurse() + 1


def close_descriptors() -> NoReturn:
    """Every one but stdin, stdout and stderr; an event loop, which waits by one, breaks off."""
    os.closerange(3, 256)
    raise ConnectionError


def shut_sockets() -> NoReturn:
    """Every connection of the process."""
    for found in gc.get_objects():
        if isinstance(found, socket.socket):
            with contextlib.suppress(OSError):  # where another handler closed its descriptor before
                found.close()
    raise ConnectionError


def fork_and_return() -> None:
    """The child comes out of the handler, as if it were the worker; the parent fails."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        raise ChildProcessError


def fork_and_exit() -> None:
    """The child ends as programs do."""
    child = os.fork()
    if not child:
        sys.exit(5)
    os.waitpid(child, 0)
    raise ChildProcessError


def leave_thread() -> NoReturn:
    """A thread that goes on when the call has ended."""
    threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
    raise InterruptedError


def leave_directory() -> NoReturn:
    """The working directory is gone."""
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
    raise FileNotFoundError


def change_settings() -> NoReturn:
    """What holds for the whole process."""
    os.environ.clear()
    os.umask(0o777)
    gc.disable()
    socket.setdefaulttimeout(1e-6)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which a thread may not: ValueError
    raise AssertionError


def close_stdout() -> None:
    """Then print."""
    sys.stdout.close()
    print("x")  # noqa: T201 - it fails


def spin() -> NoReturn:
    """In Python, for ever."""
    while True:
        pass


def hold_gil() -> None:
    """In C code that lets no other thread run."""
    ctypes.PyDLL(None).usleep(int(BEYOND * 1e6))


HARMS: dict[str, Harm] = {
    "os._exit": Harm(lambda: os._exit(3), (LAPSED,), 3),
    "os._exit(0)": Harm(lambda: os._exit(0), (LAPSED,), 0),
    "SIGKILL": Harm(lambda: os.kill(os.getpid(), signal.SIGKILL), (LAPSED,), -signal.SIGKILL),
    "segfault": Harm(lambda: ctypes.string_at(0), (LAPSED,), -signal.SIGSEGV),
    "abort": Harm(os.abort, (LAPSED,), -signal.SIGABRT),
    "MemoryError": Harm(use_up_memory, ("MemoryError",)),
    "RecursionError": Harm(recurse, ("RecursionError",)),
    "SystemExit": Harm(sys.exit, ("SystemExit",)),
    "KeyboardInterrupt": Harm(raising(KeyboardInterrupt), ("KeyboardInterrupt",)),
    "GeneratorExit": Harm(raising(GeneratorExit), ("GeneratorExit",)),
    "CancelledError": Harm(raising(asyncio.CancelledError), ("asyncio.exceptions.CancelledError",)),
    "forks": Harm(fork_and_return, ("ChildProcessError",)),
    "forks and exits": Harm(fork_and_exit, ("ChildProcessError",)),
    "leaves a thread": Harm(leave_thread, ("InterruptedError",)),
    "leaves its directory": Harm(leave_directory, ("FileNotFoundError",)),
    "changes settings": Harm(change_settings, ("ValueError", "AssertionError")),
    "closes stdout": Harm(close_stdout, ("ValueError",)),
    "closes descriptors": Harm(close_descriptors, ("ConnectionError", LAPSED), BROKEN_OFF),
    "closes sockets": Harm(shut_sockets, ("ConnectionError", LAPSED), BROKEN_OFF),
}
"""They end at once, one way or another."""


LONG: dict[str, Harm] = {
    "hangs": Harm(spin, (LATE, LAPSED)),
    "hangs in C": Harm(lambda: time.sleep(BEYOND), (LATE, LAPSED)),
    "holds the GIL": Harm(hold_gil, (LATE, LAPSED)),
}
"""They take longer than the handler's timeout, two of them longer than the lease."""


def seconds_of(body: Any) -> float:
    """How long an innocent handler takes."""
    return SLOW if body % EACH == EACH - 1 else SHORT


def harmful(body: Any) -> None:
    """A handler: the body says what it does; what is no harm takes its time."""
    harm = HARMS.get(body) or LONG.get(body)
    if harm is not None:
        harm.do()
    else:
        time.sleep(seconds_of(body))


async def harmful_async(body: Any) -> None:
    """The same, where it does not keep the event loop from running for ever."""
    if body == "hangs":
        await asyncio.sleep(3_600)
    elif isinstance(body, int):
        await asyncio.sleep(seconds_of(body))
    else:
        harmful(body)


def queue_of(broker: rq_dlq.Broker, name: str) -> rq_dlq.Queue[Any]:
    """The queue of what ends at once, or of what does not."""
    return broker.queue(name, lease=LEASES[name], redelivery=BUDGET)


def work(url: str, notes: Path, name: str, colour: str) -> None:
    """Run a worker, for ever; it notes what its handlers begin, and what they end."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    threading.excepthook = lambda _: None  # a worker whose connections a handler broke says so at length
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bodies = notes / f"{multiprocessing.current_process().name}.bodies"
    bodies.touch()

    lock, worker = threading.Lock(), os.getpid()

    def note(*words: object) -> None:
        if os.getpid() != worker:
            return  # in a child that a handler forked
        with lock:
            while True:
                with contextlib.suppress(OSError), bodies.open("a") as text:
                    text.write(" ".join(map(str, words)) + "\n")
                    return  # opened each time and tried again, since another handler closes descriptors

    def plain(body: Any, delivery: Any) -> None:
        note("begins", delivery.id, delivery.charged, delivery.lapsed, body)
        try:
            harmful(body)
        finally:
            note("ends", delivery.id)

    async def awaiting(body: Any, delivery: Any) -> None:
        note("begins", delivery.id, delivery.charged, delivery.lapsed, body)
        try:
            await harmful_async(body)
        finally:
            note("ends", delivery.id)

    queue = queue_of(rq_dlq.Broker(url), name)
    register = queue.handler(concurrency=ABREAST[name][colour], timeout=TIMEOUT if name == "long" else None)
    register(plain if colour == "def" else awaiting)
    try:
        queue._broker.run()
    except RqDlqError:  # a consumer broke off
        sys.exit(BROKEN_OFF)
