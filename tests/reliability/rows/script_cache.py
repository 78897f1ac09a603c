"""T14: a server that forgets its scripts over and over, and starts anew; nobody who calls notices."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import rq_dlq
import rq_dlq.asyncio
from rq_dlq._redis import Retries
from tests.reliability.lossy import Work, live
from tests.reliability.row import Figures, Row, Run
from tests.reliability.ways import Address, Colour, Direct
from tests.servers import Server, free_port

FLUSH_EVERY = 0.1  # seconds
FOREIGN = 600  # scripts of others, which push ours out of the cache of Redis 7.4
AT_ONCE = 50  # of them, between two flushes
SIDE_BY_SIDE = 3  # brokers
AS_WORKERS = Retries(attempts=None, seconds=20)
"""A worker waits for the server for ever; a producer would be told after a second."""


def connected(broker: Any, at: Address) -> Any:
    """A broker of a worker's patience."""
    return broker(at.url, retries=AS_WORKERS)


@contextmanager
def forgetting(server: Server, restarts: int) -> Iterator[Counter[str]]:
    """Meanwhile scripts are flushed, those of others come, and the server is killed so many times."""
    done: Counter[str] = Counter()
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(FLUSH_EVERY):
            with server.client() as client:
                client.script_flush()
                done["flushes"] += 1
                for n in range(AT_ONCE):
                    client.eval(f"return {(done['foreign scripts'] + n) % FOREIGN}", 0)
            done["foreign scripts"] += AT_ONCE
            if done["restarts"] < restarts and done["flushes"] % 2:
                server.kill()
                server.start()
                done["restarts"] += 1

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def run(run: Run) -> Figures:
    """Have messages live on such a server, by calls of either colour."""
    lives, restarts = run.pick(short=(60, 1), whole=(1_000, 10), soak=(20_000, 200))
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    kinds: tuple[tuple[Colour, type], ...] = (
        ("blocking", rq_dlq.Broker),
        ("awaiting", rq_dlq.asyncio.Broker),
    )
    calls: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    unknown, wrong = 0, list[str]()
    with Server(run.directory, *kept, port=free_port()) as server:
        address = Direct(server)
        for number, (colour, broker) in enumerate(kinds):
            with forgetting(server, restarts // len(kinds) or 1) as done:
                works = [
                    Work(partial(connected, broker), f"{colour}{n}", lives // len(kinds) // SIDE_BY_SIDE)
                    for n in range(SIDE_BY_SIDE)
                ]
                lived = live(works, address, colour)
            faults += done
            for life in chain.from_iterable(lived):
                life.look(server.client())
                calls += life.calls
                unknown += life.unknown
                wrong += life.wrong
            run.done(number + 1, len(kinds))
    enough = calls.total() >= run.pick(short=1_200, whole=20_000)
    told = ", ".join(f"{count:,} {what}" for what, count in faults.items())
    return Figures(
        trials=faults["flushes"] + faults["restarts"],
        acknowledged=8 * lives,
        lost=len(wrong),
        met=enough and not wrong and not unknown and faults["restarts"] >= restarts > 0,
        note="; ".join(wrong[:5]) or f"{calls.total():,} calls, {unknown} of them with an error; {told}",
    )


ROWS = (
    Row(
        "T14",
        "SCRIPT FLUSH each 100 ms, restarts, 600 scripts of others",
        "20,000 calls, 0 errors for the user",
        run,
    ),
)
