"""T47: gathers whose children end in every way; workers, openers and the server are killed."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import (
    Broker,
    BrokerRefused,
    BrokerUnavailable,
    InvalidInput,
    Poison,
    RedeliveryPolicy,
    RqDlqError,
)
from rq_dlq._keys import QueueKeys
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.rows.worker_calls import Notes, noted
from tests.servers import Server, wait_until
from tests.servers.proxy import Chance, Fault, Proxy

QUEUES, THEN, ASIDE = ("a", "b", "c"), "then", "aside"
WORKERS, OPENERS = 3, 3
ROUND = ("worker", "opener", "worker", "server")
"""What is killed, in turn."""
WITHIN, LATE = 15.0, 8.0  # seconds until `then` is delivered in any case, and how much later it may be
SOON, CALM = 1.0, 4.0  # seconds after the last end; and after a kill, of which they are not counted
OTHERWISE = 5  # every so many children end otherwise than by an ack
DRAINED = WITHIN + 45.0  # seconds that it may take until all are delivered
LOST: dict[Fault, float] = {"drop": 0.01, "reset": 0.02}
OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")
ENDS = {"poison": {"dead"}, "fail": {"dead"}, "ttl": {"expired", "acked"}, "plain": {"acked"}}
"""How a child may end by what its body says, unless an operator ended it; one with a ttl may be done."""
BY_HAND = {"purge": "purged", "cancel": "cancelled", "move": "moved", "expire": "expired"}


def queues_of(url: str) -> dict[str, Any]:
    """As each process uses them."""
    broker = Broker(url)
    policy = RedeliveryPolicy(max_redeliveries=2, delays=["50ms"], collision_avoidance=0)
    return {name: broker.queue(name, lease="2s", redelivery=policy) for name in (*QUEUES, THEN, ASIDE)}


def work(url: str, notes: Path, name: str) -> None:
    """Run a worker for children and for what follows on them, until it is killed."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    del name
    queues, said = queues_of(url), Notes(notes)

    def child(body: str, delivery: Any) -> str:
        time.sleep(0.002)
        if body == "poison":
            raise Poison("bad")
        if body == "fail":
            raise ValueError("boom")
        said.add("done", delivery.id, time.time())
        return str(delivery.id)

    def follows(body: str, delivery: Any) -> None:
        began = time.time()
        children = delivery.gathered
        found = [f"{one.id}={one.end}={one.value or '-'}" for one in children.values()]
        said.add("then", body, delivery.id, began, *found)

    for queue in QUEUES:
        queues[queue].handler(concurrency=4)(child)
    queues[THEN].handler(concurrency=2)(follows)
    while True:
        with suppress(Exception):
            queues[THEN]._broker.run()


def open_some(url: str, notes: Path, name: str, most: int, gathers: int) -> None:
    """Open gathers, one after the other; half of them are closed when their children have ended."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queues, said, draw = queues_of(url), Notes(notes), random.Random(name)
    broker = queues[THEN]._broker
    for number in range(gathers):
        gather = f"{name}-{number}"
        try:
            said.add("opening", gather)
            with broker.gather(then=(queues[THEN], gather), within=WITHIN) as opened:
                said.add("opened", gather, opened.id)
                for n in range(draw.randint(1, most)):
                    kind = (
                        draw.choice(["poison", "fail", "ttl"]) if draw.randrange(OTHERWISE) == 0 else "plain"
                    )
                    child = f"{gather}/{n}"
                    said.add("child", gather, child, kind)
                    opened.send(
                        queues[draw.choice(QUEUES)],
                        kind,
                        id=child,
                        delay=draw.choice([None, None, "600ms"]),
                        ttl="200ms" if kind == "ttl" else None,
                    )
                    time.sleep(0.01)
                    said.add("sent", gather, child)
                if number % 2:
                    _await_ends(broker, opened.id)
                said.add("closing", gather, time.time())
            said.add("closed", gather, time.time())
        except (BrokerUnavailable, BrokerRefused, InvalidInput) as error:
            said.add("failed", gather, type(error).__name__)
    said.add("finished", name)


def _await_ends(broker: Any, gather: str) -> None:
    for _ in range(20):
        with suppress(RqDlqError):
            if all(one.open == 0 for one in broker.gathers(queue=THEN) if one.id == gather):
                return
        time.sleep(0.1)


def operate(url: str, notes: Path, name: str) -> None:
    """End children that wait by hand, for ever."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    queues, said, draw = queues_of(url), Notes(notes), random.Random(name)
    for number in count():
        queue, how = queues[draw.choice(QUEUES)], [*BY_HAND][number % len(BY_HAND)]
        with suppress(RqDlqError):
            for message in queue.select(places=["scheduled"]).browse()[:1]:
                said.add("by hand", message.id, BY_HAND[how])
                chosen = queue.select(ids=[message.id])
                if how == "cancel":
                    queue.cancel(message.id)
                elif how == "move":
                    chosen.move(queues[ASIDE], create=True)
                else:
                    getattr(chosen, how)()
                said.add("ended", message.id, time.time())
        time.sleep(0.03)


@dataclass
class Story:
    """What the journals tell of a gather.

    Attributes:
        ids: of its `then`, as the opener and the workers tell it.
        children: by id what its body says; sent: those of which the opener was told.
        closing: when its block ended, or began to; 0: it did not.
        calls: of its `then`: when each began, and the ends that it saw.
    """

    ids: set[str] = field(default_factory=set)
    children: dict[str, str] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    opened: bool = False
    closing: float = 0.0
    failed: bool = False
    calls: list[tuple[float, dict[str, tuple[str, str]]]] = field(default_factory=list)


@dataclass
class History:
    """What all journals tell."""

    stories: dict[str, Story] = field(default_factory=lambda: defaultdict(Story))
    done: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_hand: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ended: dict[str, float] = field(default_factory=dict)


def history_of(notes: Path) -> History:
    """Read them."""
    found = History()
    for what, name, *rest in noted(notes):
        if what == "done":
            found.done[name].append(float(rest[0]))
        elif what == "by":  # by hand
            found.by_hand[rest[0]].add(rest[1])
        elif what == "ended":
            found.ended[name] = float(rest[0])
        elif what in {"opened", "child", "sent", "closing", "failed", "then"}:
            _tell(found.stories[name], what, rest)
    return found


def _tell(story: Story, what: str, rest: list[str]) -> None:
    if what == "opened":
        story.opened, story.ids = True, story.ids | {rest[0]}
    elif what == "child":
        story.children[rest[0]] = rest[1]
    elif what == "sent":
        story.sent.add(rest[0])
    elif what == "closing":
        story.closing = float(rest[0])
    elif what == "failed":
        story.failed = True
    else:
        cells = [one.split("=") for one in rest[2:]]
        story.ids.add(rest[0])
        story.calls.append((float(rest[1]), {child: (end, value) for child, end, value in cells}))


def run(run: Run) -> Figures:
    """Kill one after the other while gathers are opened, wait until all are delivered, and compare."""
    gathers, most = run.pick(short=(60, 8), whole=(1_000, 50))
    notes, kills = run.directory / "notes", list[float]()
    notes.mkdir()
    chance = Chance(run.random.getrandbits(32), LOST)
    with (
        Server(run.directory / "redis", *OPTIONS) as server,
        Proxy(server.socket, run.directory, chance) as proxy,
        ForkedProcesses() as forked,
    ):
        url, number = f"unix://{proxy.socket}", count()

        def start(kind: str, left: int = 0) -> None:
            name = f"{kind}{next(number)}"
            if kind == "opener":
                forked.start(name, open_some, url, notes / f"{name}.notes", name, most, left)
            else:
                forked.start(name, work if kind == "worker" else operate, url, notes / f"{name}.notes", name)

        for _ in range(WORKERS):
            start("worker")
        for _ in range(OPENERS):
            start("opener", gathers // OPENERS)
        start("hand")
        while (opened := _opened(notes)) < gathers:
            run.done(opened, gathers + 1, f"gathers: {opened:,}, kills: {len(kills)}")
            time.sleep(run.random.uniform(1.5, 3.0) if run.scale == "short" else run.random.uniform(4.0, 9.0))
            if opened < gathers // 3:  # at first nothing is killed, so that the time after an end is seen
                continue
            what = ROUND[len(kills) % len(ROUND)]
            _strike(run, server, forked, what)
            if what != "server":
                start(what, max(1, (gathers - opened) // OPENERS))
            kills.append(time.time())
        for name in [one for one in forked.processes if one.startswith("hand")]:
            forked.kill(name)
        with server.client() as raw:
            with suppress(BaseException):  # pytest's: what is left is counted
                wait_until(lambda: _is_drained(server.url) and not _rows_left(raw), DRAINED)
            for name in list(forked.processes):
                forked.kill(name)
            lost = chance.seen.total() - chance.seen["passed"]
            return compared(history_of(notes), server.url, raw, kills, lost)


def _strike(run: Run, server: Server, forked: ForkedProcesses, what: str) -> None:
    """Kill the server, or a process of a kind."""
    if what == "server":
        server.kill()
        server.start()
    else:
        forked.kill(run.random.choice([one for one in forked.processes if one.startswith(what)]))


def _rows_left(raw: Any) -> list[str]:
    """The queues where rows of gathers are left."""
    return [name for name in (*QUEUES, THEN) if raw.exists(QueueKeys("rq", name)["gathers"])]


def _opened(notes: Path) -> int:
    return sum(line[0] == "opening" for line in noted(notes))


def _is_drained(url: str) -> bool:
    queues = queues_of(url)
    counts = [queues[name].stats() for name in (*QUEUES, THEN)]
    return not any(one.ready or one.scheduled or one.leased for one in counts)


def compared(history: History, url: str, raw: Any, kills: list[float], lost: int) -> Figures:
    """The history beside what the handlers of `then` saw."""
    stories = {name: one for name, one in history.stories.items() if one.opened or one.calls}
    waits = [wait for one in stories.values() if (wait := _wait(one, history, kills)) is not None]
    late = [wait for wait in waits if wait > SOON]
    found = wrong(
        {
            "gathers without their `then`": sum(not one.calls and not one.failed for one in stories.values()),
            "gathers with two": sum(len(one.ids) > 1 for one in stories.values()),
            f"times later than {SOON:g} s after the last end": len(late),
            "times later than `within`": sum(_is_too_late(one) for one in stories.values()),
            "children that it did not see": sum(_unseen(one) for one in stories.values()),
            "children that it saw and that were not sent": sum(_unsent(one) for one in stories.values()),
            "ends that did not happen": sum(_untrue(one, history) for one in stories.values()),
            "open children, though it was closed in time": sum(_open(one) for one in stories.values()),
            "queues that were not drained": int(not _is_drained(url)),
            "queues where rows of gathers are left": len(_rows_left(raw)),
        }
    )
    found += [text for name in (*QUEUES, THEN) for text in audited(raw, name)]
    seen = [call[1] for one in stories.values() for call in one.calls[-1:]]
    ends = Counter(end for call in seen for end, _ in call.values())
    waits.sort()
    told = ", ".join(f"{number:,} {end}" for end, number in ends.most_common())
    half, most = (waits[len(waits) // 2], waits[-1]) if waits else (0.0, 0.0)
    return Figures(
        trials=len(kills),
        acknowledged=sum(len(one.sent) for one in stories.values()),
        lost=sum(not one.calls and not one.failed for one in stories.values()),
        duplicated=sum(len(one.calls) - 1 for one in stories.values() if one.calls),
        met=not found and len(ends) > 2 and len(waits) > 5,
        note="; ".join(found)
        or f"{len(stories):,} gathers, their children {told}; after the last end ({len(waits):,} seen) half "
        f"within {half * 1000:.0f} ms, all within {most * 1000:.0f} ms; {lost:,} replies lost",
    )


def _wait(story: Story, history: History, kills: list[float]) -> float | None:
    """How long after its last end a `then` was first called; None: something was killed, or it is unknown."""
    if not story.calls or not story.closing or story.failed:
        return None
    began, seen = min(story.calls, key=lambda call: call[0])
    ends = [story.closing]
    for child, (end, _) in seen.items():
        if end == "acked" and history.done[child]:
            ends.append(max(history.done[child]))
        elif child in history.ended:
            ends.append(history.ended[child])
        else:
            return None  # nobody noted when it died
    last = max(ends)
    if any(last - CALM < kill < last + SOON for kill in kills):
        return None
    return max(0.0, began - last)


def _is_too_late(story: Story) -> bool:
    return bool(story.calls and story.closing and min(story.calls)[0] > story.closing + WITHIN + LATE)


def _unseen(story: Story) -> int:
    return sum(len(story.sent - seen.keys()) for _, seen in story.calls)


def _unsent(story: Story) -> int:
    return sum(len(seen.keys() - story.children.keys()) for _, seen in story.calls)


def _untrue(story: Story, history: History) -> int:
    """How many ends, or values, are not what the journals tell."""
    count = 0
    for _, seen in story.calls:
        for child, (end, value) in seen.items():
            may = (
                ENDS[story.children.get(child, "plain")]
                | history.by_hand.get(child, set())
                | {"None", "dead"}
            )
            count += end not in may
            count += end == "acked" and (not history.done[child] or value not in {child, "-"})
    return count


def _open(story: Story) -> int:
    """How many children were open at a call that was not the one at the end of `within`."""
    if not story.closing or story.failed:
        return 0
    return sum(
        sum(end == "None" for end, _ in seen.values())
        for began, seen in story.calls
        if began < story.closing + WITHIN - LATE
    )


ROWS = (
    Row(
        "T47",
        "gathers of 1 to 50 children in three queues, a fifth of which end otherwise than by an ack, and "
        "more by hand; half are closed after the last end; 3 workers, 3 openers and the server are killed, "
        "3 % of the replies get lost",
        "each `then` once, within a second of the last end where nothing was killed, none later than "
        "`within`; what it gathered is what happened; no row of a gather is left",
        run,
    ),
)
