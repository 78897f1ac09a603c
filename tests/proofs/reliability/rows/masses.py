"""T28: a million leases and times to live end in the same moment."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import rq_dlq
from rq_dlq import RedeliveryPolicy
from rq_dlq.core.batches import batches
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.testing.clock import CLOCK, MOVED_CLOCK
from tests.proofs.reliability.findings import audited, over, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server
from tests.servers.counts import verb_of

BEGIN = 1_790_000_000_000  # milliseconds
LASTS = 60_000  # of each lease and each time to live
BY_HAND = ((8, 0.1), (1_000, 0.1))  # claims of so many messages, for so many of all; batches claim the others
ROUND_TRIPS = 5  # of maintenance, between two claims of a consumer
COUNT = 100  # messages of such a claim
BLOCKED, BLOCKED_ANYWHERE = 5.0, 15.0  # milliseconds, on a quiet machine, and on a slow or busy one
HEAVY, FULL, MOST = (
    100_000,
    31,
    1_000,
)  # bytes of a large body; failures of a full history; messages of a claim
AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=None)


@dataclass
class Meter:
    """How long each round trip keeps the server's thread busy: its own time, not that of others on its core.

    Attributes:
        spent: milliseconds, by the verbs of the round trip.
    """

    pid: int
    spent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def attach(self, connections: Any) -> None:
        """Measure what goes over these connections."""
        talk = connections._talk

        def measured(commands: list[tuple[Any, ...]]) -> list[Any]:
            before = self.now()
            replies: list[Any] = talk(commands)
            run = sorted({verb_of(command) for command in commands} - {""})
            if run:
                self.spent["+".join(run)].append(self.now() - before)
            return replies

        connections._talk = measured

    def now(self) -> float:
        """What the server has used so far, milliseconds."""
        return time.clock_gettime_ns(~self.pid << 3 | 2) / 1e6  # how Linux names the clock of a process

    def p99(self) -> dict[str, float]:
        """What only a hundredth exceed, of each script."""
        return {name: sorted(spent)[int(len(spent) * 0.99)] for name, spent in self.spent.items()}


class Mass:
    """A queue, half of it leased, and the other half with a time to live."""

    def __init__(self, url: str, raw: Any, messages: int) -> None:
        self.half, self._raw = messages // 2, raw
        self._pass(BEGIN)
        self.queue = rq_dlq.Broker(url, verbs=MOVED_CLOCK).queue("mass", lease=LASTS / 1000)
        self.queue.send_many({"number": number} for number in range(self.half))
        for size, part in BY_HAND:
            for _ in range(round(self.half * part / size)):
                self.queue.claim(size)
        rest = self.queue.stats().ready
        self.queue._run(batches.claim_batch(self.queue._core, "mass", limit=rest, lease=LASTS))
        self.queue.send_many(({"number": number} for number in range(self.half)), ttl=LASTS / 1000)

    def work_off(self) -> None:
        """Let all that is under way fall due, and maintain the queue, while a consumer claims and acks."""
        self._pass(2 * LASTS)
        watched = MaintainedQueue(self.queue._core.keys)
        work = deque((watched, name) for name in ("swept", "expired", "promoted"))
        while work:
            self.queue._run(rounds.work_off(work, Counter(), enough=ROUND_TRIPS))
            self.queue.ack(self.queue.claim(COUNT))

    def _pass(self, milliseconds: int) -> None:
        self._raw.incrby(CLOCK, milliseconds)


class Heavy:
    """A queue of large messages with full histories, for every verb that works on many."""

    def __init__(self, url: str, messages: int) -> None:
        self.messages = messages
        self.broker = rq_dlq.Broker(url, verbs=MOVED_CLOCK)
        self.queue = self.broker.queue("heavy", redelivery=AT_ONCE)
        self.broker.queue("other").send("x")

    def claimed(self) -> list[Any]:
        """Claim all, as much as fits at a time."""
        held: list[Any] = []
        while part := self.queue.claim(MOST):
            held += part
        return held

    def work(self) -> int:
        """Use each verb on all of them; how many messages are there in the end."""
        queue = self.queue
        queue.send_many(bytes(HEAVY) for _ in range(self.messages))
        for _ in range(FULL):
            queue.nack(self.claimed(), "e" * 500)
        queue.release(self.claimed())
        queue.poison(self.claimed(), "e" * 500)
        queue.dlq.groups()
        queue.dlq.browse(limit=None)
        queue.dlq.redrive(all=True).undo()
        queue.dlq.redrive(all=True, to="third", create=True)
        self.broker.queue("third").select(all=True).move("heavy")
        queue.select(all=True).prioritize(7)
        queue.select(all=True).dead_letter()
        queue.dlq.select("delivery_count > 0").redrive()
        queue.select(all=True).expire()
        queue.expired.redrive(all=True)
        queue.select(all=True).move("other")
        moved = self.broker.queue("other").select("priority = 7").count()
        self.broker.queue("other").select(all=True).purge()
        with queue.session() as session:
            for number in range(min(MOST, self.messages)):
                session.send(queue, bytes(HEAVY), id=f"of a session {number}")
        return moved if queue.stats().ready == min(MOST, self.messages) else 0


def run(run: Run) -> Figures:
    """Let them end, and see how long the server is busy at a time."""
    messages = run.pick(short=40_000, whole=1_000_000)
    with Server(run.directory / "redis") as server, server.client() as raw:
        mass = Mass(server.url, raw, messages)
        assert server.process is not None
        meter = Meter(server.process.pid)
        meter.attach(mass.queue._broker._connected())
        mass.work_off()
        between = mass.queue.stats()
        mass.work_off()
        after = mass.queue.stats()
        heavy = Heavy(server.url, run.pick(short=60, whole=1_000))
        meter.attach(heavy.broker._connected())
        worked = heavy.work()
        worst, longest = max((spent, name) for name, spent in meter.p99().items())
        found = wrong(
            {
                "not lapsed": mass.half - after.totals.get("lapsed", 0),
                "not expired": mass.half - after.expired,
                "still leased": between.leased,
                "not due again": after.scheduled,
                "large ones lost": heavy.messages - worked,
                f"ms of {longest} (p99)": over(worst, run.pick(short=BLOCKED_ANYWHERE, whole=BLOCKED)),
            }
        )
        if run.scale == "short":  # it reads all keys
            found += audited(raw, mass.queue._core.keys.family)
    calls = sum(map(len, meter.spent.values()))
    most = ", ".join(f"{name} {spent:.1f}" for name, spent in sorted(meter.p99().items()))
    counted = f"{calls:,} round trips; Redis busy, p99 in ms: {most}"
    return Figures(
        trials=messages,
        acknowledged=messages,
        lost=messages - after.waiting - after.expired - after.totals.get("acked", 0),
        met=not found,
        note="; ".join([*found, counted]),
    )


ROWS = (
    Row(
        "T28",
        "mass: half of the leases, half of the times to live end in the same moment, then all is due again; "
        "large messages with full histories, every verb",
        f"Redis busy <= {BLOCKED:g} ms at a time with each script (p99); all lapsed, all expired",
        run,
        missing=lambda: "" if sys.platform == "linux" else "the clock of another process is Linux's to tell",
    ),
)
