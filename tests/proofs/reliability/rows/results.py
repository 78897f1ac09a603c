"""T43: callers wait for results; replies and words get lost, all are killed, memory is full for a while.

Before some messages another one with the same id is cancelled, so its end is kept; and what is acked is sent
again under its id.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import (
    Broker,
    BrokerRefused,
    BrokerUnavailable,
    Queue,
    RedeliveryPolicy,
    ResultError,
    ResultUnavailable,
    Sent,
)
from rq_dlq.core.results import results
from rq_dlq.core.results.calls import Meant, ResultEnd
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import Journal
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until
from tests.servers.proxy import PUSHED, Chance, Commands, Fault, Proxy

CALLERS, WORKERS = 3, 2
AT_ONCE = 20  # messages that a caller waits for, one after the other
WAIT = 8.0  # seconds, longer than any outage here
LATE = 3.0  # seconds after its wait that a caller may take
SOON = 5.0  # seconds after the end of its message that a caller may take, whatever was lost
ROUND = (*(["worker", "caller", "memory", "redrive"] * 3), "worker", "caller", "server")
"""What is struck, in turn. The server seldom: a restart mends a connection that hears nothing any more."""
LOST_REPLIES: dict[Fault, float] = {"drop": 0.05, "reset": 0.05}
LOST_WORDS: dict[Fault, float] = {"drop": 0.05, "hole": 0.1}
BAD = 7  # every so many bodies die at first, until somebody has mended what was wrong
REUSED = 5  # every so many bodies are sent under the id of a message that was cancelled
MENDED = "mended"
OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")
LEASE = "2s"


def queue_of(url: str) -> Queue[Any]:
    """As each process uses it; a result is kept for longer than a run takes."""
    policy = RedeliveryPolicy(initial_delay="10ms", max_redeliveries=1)
    return Broker(url).queue("work", lease=LEASE, redelivery=policy, results="1h")


def value_of(body: int) -> str:
    """What the handler returns."""
    return f"{body}:{'x' * (body % 90)}"


def work(url: str) -> None:
    """Run a worker until it is killed."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue = queue_of(url)
    mended = queue._broker.queue(MENDED)

    @queue.handler(concurrency=4)
    def handle(body: int) -> str:
        if body % BAD == 0 and not mended.stats().ready:
            raise ValueError("not mended")
        return value_of(body)

    while True:
        with suppress(Exception):
            queue._broker.run()


def call(url: str, directory: Path, name: str) -> None:
    """Send, and wait for what was sent; note what came of it."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queue, journal = queue_of(url), Journal(directory, name)
    for first in count(0, AT_ONCE):
        bodies = {f"{name}-{n}": n for n in range(first, first + AT_ONCE)}
        sent = [one for message, body in bodies.items() if (one := _sent(queue, journal, message, body))]
        for one in sent:
            answer = _answer(queue, one, bodies[one])
            if answer == "right" and _is_new(queue, one, bodies[one]):
                answer = "again"
            journal.note("got", [one, answer])


def _sent(queue: Queue[Any], journal: Journal, message: str, body: int) -> Sent | None:
    try:
        if body % REUSED == 0:
            queue.cancel(queue.send(body + 1, id=message))
        sent = queue.send(body, id=message)
    except (BrokerUnavailable, BrokerRefused):
        time.sleep(0.1)
        return None
    if not sent.new:  # a worker was faster than the cancel
        return None
    journal.note("sent", [message, str(body)])
    return sent


def _is_new(queue: Queue[Any], message: str, body: int) -> bool:
    """Whether the id of a message that is done is sent once more."""
    with suppress(BrokerUnavailable, BrokerRefused):
        return queue.send(body, id=str(message)).new is True
    return False


def _answer(queue: Queue[Any], message: Sent, body: int) -> str:
    """What became of the wait: right, WRONG, none, an end; late or endless, if it took too long."""
    began = time.time()
    try:
        found = "right" if message.result(wait=WAIT) == value_of(body) else "WRONG"
    except ResultError as error:
        found = error.end
    except (ResultUnavailable, BrokerUnavailable, BrokerRefused):
        found = "none"
    took = time.time() - began
    if took > WAIT + LATE:
        return "endless"
    return "late" if took > SOON and _ended(queue, message) < began + took - SOON else found


def _ended(queue: Queue[Any], message: str) -> float:
    """When a message ended, seconds; for ever from now, if that cannot be read."""
    with suppress(BrokerUnavailable, BrokerRefused):
        end = queue._run(results.find(queue._core, Meant(message)))
        if isinstance(end, ResultEnd):
            return end.at / 1000
    return float("inf")


def run(run: Run) -> Figures:
    """Strike at one after the other, mend what was wrong, redrive, and ask for every result."""
    kills = run.pick(short=15, whole=120)
    journals, lossy = run.directory / "journals", Lossy(run.random.getrandbits(32))
    with (
        Server(run.directory / "redis", *OPTIONS) as server,
        Proxy(server.socket, run.directory, lossy) as proxy,
        ForkedProcesses() as forked,
    ):
        url = f"unix://{proxy.socket}"
        for number in range(WORKERS):
            forked.start(f"worker-{number}", work, url)
        for number in range(CALLERS):
            forked.start(f"c{number}x0", call, url, journals, f"c{number}x0")
        for kill in range(kills):
            run.done(kill, kills + 1, f"kills: {kill}")
            time.sleep(run.random.uniform(0.3, 1.5))
            _strike(run, server, url, forked, kill)
        time.sleep(WAIT + 1)  # each wait that has begun ends
        for name in [name for name in forked.processes if name.startswith("c")]:
            forked.kill(name)
        return _count(server, journals, kills, lossy)


class Lossy:
    """A rule of the network: it loses replies, and what is published."""

    def __init__(self, seed: int) -> None:
        self.replies, self.words = Chance(seed, LOST_REPLIES), Chance(seed + 1, LOST_WORDS)

    def __call__(self, commands: Commands) -> Fault | None:
        return (self.words if commands is PUSHED else self.replies)(commands)


def _strike(run: Run, server: Server, url: str, forked: ForkedProcesses, kill: int) -> None:
    """Kill a worker, a caller or the server; fill its memory for a moment; or redrive what is dead."""
    what = ROUND[kill % len(ROUND)]
    if what == "worker":
        name = f"worker-{run.random.randrange(WORKERS)}"
        forked.kill(name)
        forked.start(name, work, url)
    elif what == "caller":
        name = run.random.choice([name for name in forked.processes if name.startswith("c")])
        forked.kill(name)
        again = f"{name.partition('x')[0]}x{kill}"
        forked.start(again, call, url, run.directory / "journals", again)
    elif what == "redrive":  # they die again, so the newest outcome is an error again
        queue_of(server.url).dlq.redrive(all=True)
    elif what == "server":
        server.kill()
        server.start()
    else:
        with server.client() as raw:
            raw.config_set("maxmemory", "1mb")
            time.sleep(0.3)
            raw.config_set("maxmemory", "0")


def _count(server: Server, journals: Path, kills: int, lossy: Lossy) -> Figures:
    """Drain the queue, redrive what died, and compare every result with what it has to be."""
    queue = queue_of(server.url)
    _drain(queue)
    queue._broker.queue(MENDED).send("now")
    before = {one.id: one for one in queue.dlq.select(all=True).browse()}
    dead = {one for one in before if _end(queue, one) == "dead"}
    queue.dlq.redrive(all=True).wait()
    _drain(queue)
    noted = [line.split() for file in journals.glob("*.journal") for line in file.read_text().splitlines()]
    sent = {one: int(body) for what, one, body in noted if what == "sent"}
    answers = [answer for what, _, answer in noted if what == "got"]
    with server.client() as raw:
        found = audited(raw, "work")
    dropped = queue.stats().totals.get("results_dropped", 0)
    lacking = [one for one, body in sent.items() if _end(queue, one) != value_of(body)]
    found += wrong(
        {
            "answers that are another's": answers.count("WRONG"),
            "waits that did not end": answers.count("endless"),
            "ends of an earlier message": answers.count("cancelled"),
            "done, and sent again": answers.count("again"),
            "answers that came late": answers.count("late"),
            "dead letters without an end": len(before) - len(dead),
            "done, and without their result": max(0, len(lacking) - dropped),
        }
    )
    right, died = answers.count("right"), answers.count("dead")
    replies, words = (rule.seen.total() - rule.seen["passed"] for rule in (lossy.replies, lossy.words))
    return Figures(
        trials=kills,
        acknowledged=len(sent),
        lost=len(lacking),
        met=not found and right > kills and died > 0,
        note="; ".join(found)
        or f"{right:,} answers, {died:,} of dead ones, {answers.count('none'):,} waits in vain; "
        f"{replies:,} replies and {words:,} words lost",
    )


def _drain(queue: Queue[Any]) -> None:
    def is_empty() -> bool:
        queue.maintain()
        stats = queue.stats()
        return not (stats.ready or stats.scheduled or stats.leased)

    wait_until(is_empty, 60.0)


def _end(queue: Queue[Any], message: str) -> str:
    """The result of a message, or how it ended without one."""
    try:
        return str(queue.result(message))
    except ResultError as error:
        return error.end
    except ResultUnavailable:
        return ""


ROWS = [
    Row(
        "T43",
        "3 callers wait for results; they, 2 workers and the server are killed, memory is full for a while; "
        "replies and words get lost; what died is redriven; ids are used again",
        "120 strikes: no answer is another's or of an earlier message, no acked id is sent again, none comes "
        "5 s after its message's end, what is done has its "
        "result",
        run,
    )
]
