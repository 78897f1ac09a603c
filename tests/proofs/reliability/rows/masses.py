"""T28: a million leases and times to live end in the same moment."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rq_dlq
from rq_dlq import RedeliveryPolicy
from rq_dlq.core.batches import batches
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.testing.clock import moved_clock
from tests.proofs.reliability.findings import audited, over, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.site import Talk, measure
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
MASS = "mass"
HEAVY_ONES, THIRD, OTHER = (f"{{{MASS}}}.{name}" for name in ("heavy", "third", "other"))  # beside it
NOW = f"{{{MASS}}}:now"
VERBS = moved_clock(NOW)
AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=None)


@dataclass
class Meter:
    """How long each round trip keeps a server's thread busy: its own time, not that of others on its core.

    Of several servers the times are added up: those that a round trip is not for have next to nothing to do.

    Attributes:
        spent: milliseconds, by the verbs of the round trip.
    """

    servers: Sequence[Server]
    spent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def attach(self, connections: Any) -> None:
        """Measure what goes over these connections."""

        def measured(talk: Talk) -> Talk:
            def told(commands: list[tuple[Any, ...]]) -> list[Any]:
                before = self.now()
                replies = talk(commands)
                run = sorted({verb_of(command) for command in commands} - {""})
                if run:
                    self.spent["+".join(run)].append(self.now() - before)
                return replies

            return told

        measure(connections, measured)

    def now(self) -> float:
        """What the servers have used so far, milliseconds."""
        pids = (server.process.pid for server in self.servers if server.process)
        return sum(time.clock_gettime_ns(~pid << 3 | 2) for pid in pids) / 1e6  # Linux's clock of a process

    def p99(self) -> dict[str, float]:
        """What only a hundredth exceed, of each script."""
        return {name: sorted(spent)[int(len(spent) * 0.99)] for name, spent in self.spent.items()}


class Mass:
    """A queue, half of it leased, and the other half with a time to live."""

    def __init__(self, url: str, raw: Any, messages: int) -> None:
        self.half, self._raw = messages // 2, raw
        self._pass(BEGIN)
        self.queue = rq_dlq.Broker(url, verbs=VERBS).queue(MASS, lease=LASTS / 1000)
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
        self._raw.incrby(NOW, milliseconds)


class Heavy:
    """A queue of large messages with full histories, for every verb that works on many."""

    def __init__(self, url: str, messages: int) -> None:
        self.messages = messages
        self.broker = rq_dlq.Broker(url, verbs=VERBS)
        self.queue = self.broker.queue(HEAVY_ONES, redelivery=AT_ONCE)
        self.broker.queue(OTHER).send("x")

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
        queue.dlq.redrive(all=True, to=THIRD, create=True)
        self.broker.queue(THIRD).select(all=True).move(HEAVY_ONES)
        queue.select(all=True).prioritize(7)
        queue.select(all=True).dead_letter()
        queue.dlq.select("delivery_count > 0").redrive()
        queue.select(all=True).expire()
        queue.expired.redrive(all=True)
        queue.select(all=True).move(OTHER)
        moved = self.broker.queue(OTHER).select("priority = 7").count()
        self.broker.queue(OTHER).select(all=True).purge()
        with queue.session() as session:
            for number in range(min(MOST, self.messages)):
                session.send(queue, bytes(HEAVY), id=f"of a session {number}")
        return moved if queue.stats().ready == min(MOST, self.messages) else 0


def run(run: Run) -> Figures:
    """Let them end, and see how long the server is busy at a time."""
    messages = run.pick(short=40_000, whole=1_000_000)
    with run.site() as site:
        raw = site.client()
        mass = Mass(site.url, raw, messages)
        meter = Meter(site.servers)
        meter.attach(mass.queue._broker._connected())
        mass.work_off()
        between = mass.queue.stats()
        mass.work_off()
        after = mass.queue.stats()
        heavy = Heavy(site.url, run.pick(short=60, whole=1_000))
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
        on_nodes="all queues are on one, as moves between them need",
        missing=lambda: "" if sys.platform == "linux" else "the clock of another process is Linux's to tell",
    ),
)
