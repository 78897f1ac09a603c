"""T36 to T38: what a worker does to its messages while calls block, fail at once, or end as it is killed."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import redis

import rq_dlq
from rq_dlq import RedeliveryPolicy
from rq_dlq.worker import Worker
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.site import Site
from tests.servers import wait_until
from tests.servers.proxy import Commands, Fault

LEASE = 1.0  # seconds
MOST, WITHIN = 50, 0.005  # finished calls that come again, and seconds since their end
TRIES = 4
PATIENCE = 20.0  # seconds until all is done
WARM = 3_000  # messages that are done when a worker is killed: its connections are open
SLACK = 0.03  # seconds that a busy machine may keep a process from what it is about to do
WAYS = (("def", 1), ("def", 8), ("async def", 100))
TAKES = (0.0, 0.001, 0.05)  # seconds of a call
ELSEWHERE = "a queue on one of them, and what a worker has beside it on all"
TELLING, OFTEN = ("async def", 0.001), 10  # most calls end together, but not at each kill


class Notes:
    """A file of lines, each of which is there at once, whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, *words: object) -> None:
        """Add a line."""
        os.write(self._file, f"{' '.join(map(str, words))}\n".encode())


def noted(directory: Path) -> list[list[str]]:
    """All lines of all files, in words."""
    return [line.split() for path in directory.glob("*.notes") for line in path.read_text().splitlines()]


class Calls(NamedTuple):
    """The calls of a worker.

    Attributes:
        abreast: how many of a queue run at a time.
        seconds: that each takes.
    """

    colour: str
    abreast: int
    seconds: float


def work(url: str, notes: Path, calls: Calls, names: Sequence[str] = ("a",)) -> None:
    """Run a worker, for ever; the body "blocks" takes three leases, in an event loop, too."""
    logging.basicConfig(filename=notes.with_suffix(".log"), force=True)
    ran = Notes(notes)

    def plain(body: Any, delivery: Any) -> None:
        ran.add("began", body, delivery.id)
        time.sleep(3 * LEASE if body == "blocks" else calls.seconds)
        ran.add("ended", body, delivery.id, time.monotonic())

    async def awaiting(body: Any, delivery: Any) -> None:
        if body == "blocks":
            plain(body, delivery)
            return
        ran.add("began", body, delivery.id)
        if calls.seconds:
            await asyncio.sleep(calls.seconds)
        ran.add("ended", body, delivery.id, time.monotonic())

    with rq_dlq.Broker(url) as broker:
        handler = plain if calls.colour == "def" else awaiting
        for name in names:
            broker.queue(name, lease=LEASE).handler(concurrency=calls.abreast)(handler)
        broker.run()


def is_named(directory: Path) -> bool:
    """Whether a log says who blocked the event loop, and for how long."""
    said = "".join(path.read_text() for path in directory.glob("*.log"))
    return re.search(r"the event loop was blocked for [34] s by awaiting \(a\d* ", said) is not None


def wait_or_go_on(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for ever: what came is judged."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def has_acked(queues: Sequence[rq_dlq.Queue[Any]], messages: int) -> bool:
    """Whether so many are done."""
    return sum(queue.stats().totals.get("acked", 0) for queue in queues) >= messages


def has_workers(broker: rq_dlq.Broker, workers: int) -> bool:
    """Whether so many have reported."""
    return len(broker.workers()) >= workers


def blocked(run: Run) -> Figures:
    """One call of 40 blocks for three leases, in an event loop or a thread, beside 19 others."""
    found, lapsed = list[str](), 0
    for colour in ("def", "async def"):
        where = colour.replace(" ", "")
        directory = run.directory / where
        directory.mkdir()
        with (
            run.site(name=f"{where}/redis") as site,
            ForkedProcesses() as forked,
            rq_dlq.Broker(site.url) as broker,
        ):
            names = site.names("a")
            queues = [broker.queue(name, lease=LEASE) for name in names]
            calls = Calls(colour, -(-20 // len(names)), 0.5)
            for n in range(2):
                forked.start(str(n), work, site.url, directory / f"{n}.notes", calls, names)
            wait_until(partial(has_workers, broker, 2))
            for queue, body in zip(cycle(queues), [*range(19), "blocks", *range(19, 39)], strict=False):
                queue.send(body)
            wait_or_go_on(partial(has_acked, queues, 40))
            ran = Counter(words[1] for words in noted(directory) if words[0] == "began")
            lapses = sum(queue.stats().totals.get("lapsed", 0) for queue in queues)
            lapsed += lapses
            found += wrong(
                {
                    f"runs of 40 messages beyond their first ({colour})": ran.total() - len(ran),
                    f"messages that never ran ({colour})": 40 - len(ran),
                    f"leases that lapsed ({colour})": lapses,
                }
            )
            if colour == "async def":
                wait_or_go_on(partial(is_named, directory))
                if not is_named(directory):
                    found.append("the log does not say who blocked the event loop")
            found += audited(site.client(), *names)
    return Figures(trials=2, acknowledged=80, duplicated=lapsed, met=not found, note="; ".join(found))


def delayed(_: Commands) -> Fault:
    """A rule: every reply is late."""
    return "delay"


def churn(run: Run) -> Figures:
    """Calls that fail at once, until all are dead; near Redis, and far from it."""
    messages = run.pick(short=500, whole=10_000)
    found, released = list[str](), 0
    for far in (False, True):
        for colour, concurrency in (("def", 8), ("async def", 100)):
            where = f"{colour}, {'far' if far else 'near'}"
            with ExitStack() as stack:
                site = stack.enter_context(run.site(name=where.replace(" ", "")))
                url = stack.enter_context(site.behind(delayed)).url if far else site.url
                broker = stack.enter_context(rq_dlq.Broker(url))
                policy = RedeliveryPolicy(delays=[0], max_redeliveries=TRIES - 1)
                queue = broker.queue("a", redelivery=policy)
                queue.send_many(range(messages))
                queue.handler(concurrency=concurrency)(refuses if colour == "def" else refuses_awaiting)
                Worker(broker, until="drained").run()
                counts = Counter(letter.delivery_count for letter in queue.dlq.browse(limit=None))
                back = queue.stats().totals.get("released", 0)
                released += back
                found += wrong(
                    {
                        f"claims given back ({where})": back,
                        f"messages that are not dead ({where})": messages - counts.total(),
                        f"not handed out {TRIES} times ({where})": counts.total() - counts[TRIES],
                    }
                )
                found += audited(site.client(), "a")
            run.done(len(found))
    return Figures(
        trials=4 * messages * TRIES, acknowledged=4 * messages, duplicated=released, met=not found,
        note="; ".join(found),
    )  # fmt: skip


def refuses(_: Any) -> None:
    """Fail at once."""
    message = "refused"
    raise ConnectionError(message)


async def refuses_awaiting(body: Any) -> None:
    """Fail at once."""
    refuses(body)


def kills(run: Run) -> Figures:
    """Kill a worker while it drains, again and again; which calls that had ended come again?"""
    times = run.pick(short=2, whole=20)
    found, again, most, oldest = list[str](), 0, 0, 0.0
    kinds = [
        Calls(colour, abreast, seconds)
        for colour, abreast in WAYS
        for seconds in TAKES
        for _ in range(max(times, OFTEN) if (colour, seconds) == TELLING else times)
    ]
    with run.site() as site:
        for trials, calls in enumerate(kinds, 1):
            directory = run.directory / str(trials)
            directory.mkdir()
            ages = killed(run, site, directory, calls)
            again, most = again + len(ages), max(most, len(ages))
            oldest = max([oldest, *ages])
            found += wrong(
                {
                    f"finished calls beyond {MOST} that came again ({calls.colour} x {calls.abreast}, "
                    f"{calls.seconds} s)": max(0, len(ages) - MOST),
                    "of them, that ended long before": sum(age > WITHIN + SLACK for age in ages),
                }
            )
    told = f"{again:,} finished calls came again, at most {most} of a kill, the oldest {1000 * oldest:.0f} ms"
    return Figures(trials=len(kinds), duplicated=again, met=not found, note="; ".join([*found, told]))


def killed(run: Run, site: Site, directory: Path, calls: Calls) -> list[float]:
    """The ages (seconds before the kill) of the finished calls whose messages are still leased after it."""
    with ForkedProcesses() as forked, rq_dlq.Broker(site.url) as broker:
        raw = site.client()
        raw.flushall()
        queue = broker.queue("a", lease=LEASE)
        queue.send_many(range(20_000 if calls.seconds < 0.01 else 2_000))
        servers = site.clients()
        ours = connections(servers)
        forked.start("w", work, site.url, directory / "w.notes", calls)
        wait_until(partial(has_acked, [queue], WARM if calls.seconds < TAKES[-1] else 3 * calls.abreast))
        time.sleep(run.random.uniform(0, 0.05))
        forked.kill("w")
        at = time.monotonic()
        wait_until(lambda: connections(servers) <= ours)  # what it has sent is done before Redis sees its end
        left = {message_id.decode() for message_id in raw.hkeys(queue._core.keys["messages"])}
        ended = {words[2]: float(words[3]) for words in noted(directory) if words[0] == "ended"}
        newest = max(ended.values(), default=at)  # the last thing that it did
        return [newest - end for message_id, end in ended.items() if message_id in left]


def connections(servers: Sequence[redis.Redis]) -> set[tuple[int, str]]:
    """Those that the servers have."""
    return {(n, client["id"]) for n, server in enumerate(servers) for client in server.client_list()}


ROWS = (
    Row(
        "T36",
        "one call of 40 blocks for three leases: in the event loop beside 19 others, in a thread likewise",
        "each runs once, 0 leases lapse, the log names the handler",
        blocked,
        on_nodes="the calls are of a queue on each",
    ),
    Row(
        "T37",
        "calls fail at once, near Redis and 20 ms away, in 8 threads and 100 async calls",
        "nothing claimed ahead is given back, each message is handed out as often as its policy says",
        churn,
        on_nodes=ELSEWHERE,
    ),
    Row(
        "T38",
        "a worker is killed while it drains calls of 0, 1, 50 ms: 1 and 8 threads, 100 async calls",
        f"of calls that had ended at most {MOST} come again, none that ended more than 5 ms before",
        kills,
        on_nodes=ELSEWHERE,
    ),
)
