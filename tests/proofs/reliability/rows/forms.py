"""T34: programs of two forms of the format work on one queue, while a fleet is renewed."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import redis

from rq_dlq import Message, RedeliveryPolicy
from rq_dlq.values import record
from tests import servers
from tests.forked import ForkedProcesses
from tests.format import other
from tests.format.side_by_side import Worlds, check_step
from tests.model.steps import STEPS
from tests.proofs.reliability.actors import Place, note_acked
from tests.proofs.reliability.findings import audited, counters, wrong
from tests.proofs.reliability.journal import Sums, sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server

EACH = 2  # processes of each form
CHUNK = 100  # messages that are sent, and claimed, at once
LEASE = 1_000  # milliseconds
COUNTS = ".counts"
AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=None)
MODULES: dict[str, dict[str, str]] = {
    "present": {},
    "other": {"state": other.changed("state", *other.CHANGES)},
}


def live(place: Place, form: str, messages: int) -> None:
    """Send messages; claim, and settle in every way, for ever; note the counts of each delivery."""
    queue, journal = place.queue(), place.journal()
    name = multiprocessing.current_process().name
    draw = random.Random(name)
    with (
        other.packing() if form == "other" else nullcontext(),
        (place.journals / f"{name}{COUNTS}").open("w") as counts,
    ):
        for start in count(0, CHUNK):
            if start < messages:
                ids = [f"{name}-{n}" for n in range(start, start + CHUNK)]
                journal.note("send", ids)
                queue.send_many([Message(body=0, id=message_id) for message_id in ids])
                journal.note("sent", ids)
            deliveries = queue.claim(CHUNK, wait="100ms")
            for delivery in deliveries:
                check(delivery)
                counts.write(f"{delivery.id} {delivery.delivery_count}\n")
            counts.flush()
            journal.note("got", [delivery.id for delivery in deliveries])
            settle(queue, journal, deliveries, draw)
            queue.dlq.redrive(all=True)


def check(delivery: Any) -> None:
    """Every delivery before this one is counted by what ended it, and the record says who wrote it.

    Raises:
        AssertionError: another form has forgotten something.
    """
    ended = delivery.nacked + delivery.lapsed + delivery.released + delivery.redriven
    assert delivery.delivery_count == ended + 1, f"{delivery.id}: {delivery._row.state!r}"
    fields = record.content_of(delivery._row.record).fields
    assert fields == ({other.FIELD: other.WRITER} if delivery.id.startswith("other") else {}), delivery.id


def settle(queue: Any, journal: Any, deliveries: list[Any], draw: random.Random) -> None:
    """In every way, or not at all: those lapse."""
    chosen: dict[str, list[Any]] = {"ack": [], "nack": [], "release": [], "poison": [], "": []}
    for delivery in deliveries:
        (verb,) = draw.choices([*chosen], weights=[60, 20, 10, 9, 1])
        chosen[verb].append(delivery)
    for verb in ("nack", "release", "poison"):
        if chosen[verb]:
            getattr(queue, verb)(chosen[verb])
    if chosen["ack"]:
        journal.note("ack", [delivery.id for delivery in chosen["ack"]])
        note_acked(journal, queue.ack(chosen["ack"]))


def forgotten(journals: Path) -> int:
    """The messages of which a count is not that of its deliveries."""
    lines = [
        line.split(" ") for file in journals.glob(f"*{COUNTS}") for line in file.read_text().splitlines()
    ]
    told = Counter(name for name, _ in lines)
    most: dict[str, int] = {}
    for name, number in lines:
        most[name] = max(most.get(name, 0), int(number))
    return sum(told[name] != number for name, number in most.items())


def try_verbs(steps: list[str]) -> list[str]:
    """On a server of its own: what was wrong."""
    found, worlds = list[str](), Worlds()
    with servers.running() as path, redis.Redis(unix_socket_path=path) as raw:
        for step in steps:
            try:
                check_step(worlds, raw, step)
            except AssertionError as error:
                found.append(str(error).partition("\n")[0])
    return found


def try_workers(directory: Path, each: int, show: Callable[[float, float], None]) -> tuple[Sums, list[str]]:
    """Processes of both forms on one queue: what they tell, and what was wrong."""
    sent = each * EACH * len(MODULES)
    with Server(directory / "redis") as server, ForkedProcesses() as forked:
        raw, journals = server.client(), directory / "journals"
        journals.mkdir()
        for form, modules in MODULES.items():
            place = Place(server.url, journals, LEASE, AT_ONCE, modules)
            for n in range(EACH):
                forked.start(f"{form}-{n}", live, place, form, each)
        deadline, found = time.monotonic() + 60 + sent / 50, list[str]()
        while (acked := counters(raw, "work").get("acked", 0)) < sent and time.monotonic() < deadline:
            try:
                assert all(forked.alive(name) for name in forked.processes)
            except RuntimeError as error:  # a delivery was not what it has to be
                found.append(str(error))
                break
            show(acked, sent)
            time.sleep(0.05)
        for name in list(forked.processes):
            forked.kill(name)
        there: list[Any] = raw.hkeys("rq:{work}:messages")
        left = [name.decode() for name in there]
        told, totals = sums(journals, left), counters(raw, "work")
        found += wrong({
            "lost": len(told.lost),
            "unexpected": len(told.unexpected),
            "settled twice": len(told.settled_twice),
            "not acked": len(left),
            "sent beside those": abs(totals.get("sent", 0) - sent),
            "with a count that is not that of its deliveries": forgotten(journals),
        }) + audited(raw, "work")  # fmt: skip
    return told, found


def run(run: Run) -> Figures:
    """Every verb both ways, then workers of both on one queue."""
    steps = run.random.sample([*STEPS], 2) if run.scale == "short" else [*STEPS]
    share = len(steps) // 4 + 1
    shares = [(steps[at : at + share],) for at in range(0, len(steps), share)]
    found = [line for lines in run.in_processes(try_verbs, shares) for line in lines]
    each = run.pick(short=100, whole=5_000, soak=50_000)
    told, more = try_workers(run.directory, each, run.done)
    found += more
    note = "; ".join([*found[:3], f"{len(steps)} calls both ways, {len(MODULES) * EACH} processes"])
    return Figures(trials=3 * len(steps), **told.counts, met=not found, note=note)


ROWS = (
    Row(
        "T34",
        "two forms of the format on one queue: every verb both ways, workers of both",
        "0 lost, 0 counts or fields of the other form changed",
        run,
    ),
)
