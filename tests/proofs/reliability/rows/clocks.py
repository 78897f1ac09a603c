"""T15: the server's clock steps, a failover leads to a node with another clock, clients' clocks are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import chain, cycle

import redis

import rq_dlq
from rq_dlq import RedeliveryPolicy
from tests.forked import ForkedProcesses
from tests.proofs.reliability import shims
from tests.proofs.reliability.actors import CHUNK, Place, is_empty, server_time
from tests.proofs.reliability.findings import audited, counters, unexplained, wrong
from tests.proofs.reliability.journal import Sums, sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.skewed import SkewedServer, consume, in_another_time, send
from tests.servers import free_port, wait_until

LEASE = 1_000  # milliseconds
HOUR = 3_600_000
MARGIN = 10_000  # milliseconds: much, beside the time that a few calls take
STEPS = (HOUR, 0, -HOUR, 0, 100, -100, HOUR, -HOUR)  # from the right time, milliseconds
PARTS = 20  # a step after each part of the messages
SENDERS = {"a": timedelta(days=1), "b": timedelta(days=-1)}
CONSUMERS = (timedelta(), timedelta(days=1), timedelta(days=-1), timedelta())
PATIENCE = 10.0  # seconds: a blocking command that the step froze ends by the client's own timeout of five


@dataclass
class Stepping:
    """Messages sent and consumed while the server's clock steps.

    Attributes:
        found: what was not as it should be, beside the sums.
    """

    run: Run
    messages: int
    steps: int = 0
    killed: int = 0
    found: list[str] = field(default_factory=list)

    def make(self) -> Sums:
        """Step until all are through."""
        server = SkewedServer(self.run.directory / "server")
        place = Place(server.url, self.run.directory / "journals", LEASE)
        with server, server.client() as raw:
            queue = place.queue()
            queue.stats()
            with ForkedProcesses() as forked:
                for sender, wrong_by in SENDERS.items():
                    chunks = self.messages // CHUNK // len(SENDERS)
                    forked.start(f"sender-{sender}", send, place, server.clock, wrong_by, sender, chunks)
                for number, wrong_by in enumerate(CONSUMERS):
                    forked.start(f"consumer-{number}", consume, place, server.clock, wrong_by)
                self._step(server, place, queue, forked)
                wait_until(lambda: is_empty(queue), 3 * PATIENCE)
                assert all(map(forked.alive, [name for name in forked.processes if "consumer" in name]))
            remaining = [name.decode() for name in raw.hkeys("rq:{work}:messages")]
            told = sums(place.journals, remaining)
            self._look(raw, told)
            queue._broker.close()
        return told

    def _step(
        self, server: SkewedServer, place: Place, queue: rq_dlq.Queue[int], forked: ForkedProcesses
    ) -> None:
        with server.client() as raw:
            for skew in cycle(STEPS):
                acked = _acked(raw)
                if self.steps >= len(STEPS) and acked >= self.messages - CHUNK:
                    break
                server.clock.step(skew)
                self.steps += 1
                self.run.done(acked, self.messages, f"clock {skew / 1000:+,.1f} s")
                wait_until(partial(self._moves, queue, raw, forked, acked), PATIENCE)
                if self.steps % 5 == 0:  # one dies with what it holds, and its leases are frozen or long over
                    number = self.killed % len(CONSUMERS)
                    forked.kill(f"consumer-{number}")
                    forked.start(f"consumer-{number}", consume, place, server.clock, CONSUMERS[number])
                    self.killed += 1
        server.clock.step(3 * HOUR)  # what was delayed in what is now the future falls due

    def _moves(
        self, queue: rq_dlq.Queue[int], raw: redis.Redis, forked: ForkedProcesses, before: int
    ) -> bool:
        """Whether a part was acked since, or all are sent and nothing is due, or soon will be."""
        if _acked(raw) >= before + self.messages // PARTS:
            return True
        if any(forked.alive(f"sender-{sender}") for sender in SENDERS):
            return False
        soon = server_time(queue) + 2 * LEASE  # later leases began before a step back
        coming = (raw.zcount(f"rq:{{work}}:{index}", 0, soon) for index in ("scheduled", "leases"))
        return queue.stats().ready + sum(coming) == 0

    def _look(self, raw: redis.Redis, told: Sums) -> None:
        """The keys, and the totals of the queue beside what the journals say."""
        self.found += wrong(
            {
                **told.faults,
                "not sent": self.messages - told.acknowledged,
            }
            | unexplained(counters(raw, "work"), told)
        ) + audited(raw, "work")


def _acked(raw: redis.Redis) -> int:
    return int(raw.hget("rq:{work}:counters", "acked") or 0)


def _nack(queue: rq_dlq.Queue[int]) -> None:
    queue.send(0)
    queue.nack(queue.claim(), "boom")


def _hold(queue: rq_dlq.Queue[int]) -> None:
    queue.send(0)
    assert queue.claim(lease="1h")


IN_AN_HOUR: dict[str, Callable[[rq_dlq.Queue[int]], object]] = {
    "delayed": lambda queue: queue.send(0, delay="1h"),
    "nacked": _nack,
    "leased": _hold,
}
"""After each of these a message is due in an hour: by its delay, its policy, or the lease of who holds it."""


def by_another_clock(broker: rq_dlq.Broker) -> bool:
    """Whether a consumer is told another end of its lease than the server's clock has."""
    queue = broker.queue("told")
    queue.send(0)
    (held,) = queue.claim(lease="1h")
    held.ack()
    return abs(held._lease.ends - HOUR - server_time(queue)) > MARGIN


def an_hour_each(run: Run) -> dict[str, int]:
    """Clients of the wrong day each wait an hour of the server's; how often one got it early, or did not."""
    early = late = told = 0
    with SkewedServer(run.directory / "one") as server:
        for wrong_by in SENDERS.values():
            with in_another_time(wrong_by), rq_dlq.Broker(server.url) as broker:
                told += by_another_clock(broker)
                for name, begin in IN_AN_HOUR.items():
                    delays = ["0s" if name == "leased" else "1h"]
                    policy = RedeliveryPolicy(delays=delays, collision_avoidance=0, max_redeliveries=None)
                    queue: rq_dlq.Queue[int] = broker.queue(name, redelivery=policy)
                    begin(queue)
                    for skew in (0, -HOUR, HOUR - MARGIN):
                        server.clock.step(skew)
                        early += len(queue.claim())
                    server.clock.step(HOUR + MARGIN)
                    late += sum(map(bool, queue.ack(queue.claim(wait="1s")))) != 1
                    server.clock.step(0)
    return {"an hour early": early, "not there after the hour": late, "leases by another clock": told}


def failover(run: Run, skew: int) -> list[str]:
    """Promote a replica with another clock: what did not come through, and which late acks were accepted."""
    directory = run.directory / f"failover{skew}"
    directory.mkdir()
    at_once = RedeliveryPolicy(delays=[0], max_redeliveries=None)
    master = SkewedServer(directory / "master", port=free_port())
    replica = SkewedServer(directory / "replica", "--replicaof", "127.0.0.1", str(master.port))
    with master, replica, master.client() as raw, replica.client() as other:
        queue = rq_dlq.Broker(master.url).queue("work", lease=LEASE / 1000, redelivery=at_once)
        sent = set(queue.send_many(range(100)))
        held = queue.claim(50)
        wait_until(lambda: int(raw.wait(1, 100)) == 1)
        replica.clock.step(skew)
        other.replicaof("NO", "ONE")
        master.kill()
        promoted = rq_dlq.Broker(replica.url).queue("work", lease=LEASE / 1000)
        acked = (
            [said.id for said in promoted.ack(held) if said] if skew < 0 else []
        )  # their leases still hold
        promoted.maintain()  # takes back what is over by this clock: an ack before that is in time
        taken: list[str] = []
        late: list[str] = []
        wait_until(lambda: _take(promoted, taken, held, late) == len(sent) - len(acked), PATIENCE)
        found = wrong(
            {
                "lost in a failover": len(sent.difference(acked, taken, late)),
                "late acks accepted after a failover": len(late),
                "left after a failover": not is_empty(promoted),
            }
        ) + audited(other, "work")
        queue._broker.close()
        promoted._broker.close()
        return found


def _take(
    queue: rq_dlq.Queue[int], taken: list[str], held: list[rq_dlq.Delivery[int]], late: list[str]
) -> int:
    """Claim and ack some more; how many that makes. Whoever held them before acks in vain, meanwhile too."""
    claimed = queue.claim(10)
    late += [said.id for said in queue.ack(held) if said]
    taken += [said.id for said in queue.ack(claimed) if said]
    return len({*taken, *late})


def clocks(run: Run) -> Figures:
    """Steps under load, then one message at a time, then failovers."""
    stepping = Stepping(run, run.pick(short=1_000, whole=10_000, soak=1_000_000))
    told = stepping.make()
    hours = an_hour_each(run)
    skews = (HOUR, -HOUR) if run.scale != "short" else (HOUR,)
    failed = [failover(run, skew) for skew in skews]
    found = stepping.found + wrong(hours)
    found += chain.from_iterable(failed)
    counted = [
        f"{told.stale} stale acks refused",
        f"{stepping.killed} consumers killed",
        f"{failed.count([])} of {len(failed)} failovers to a skewed clock well",
    ]
    return Figures(
        trials=stepping.steps + len(skews),
        **told.counts,
        early=told.early + hours["an hour early"],
        met=not found,
        note="; ".join(found + counted),
    )


ROWS = (
    Row(
        "T15",
        "server clock +1 h, -1 h, +-100 ms, failover to a skewed node; clocks of clients +-1 day",
        "0 lost, 0 early by the server's clock, 0 stale acks accepted, no hang over 10 s",
        clocks,
        missing=shims.missing,
    ),
)
