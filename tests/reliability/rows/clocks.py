"""T15: the server's clock steps, a failover leads to a node with another clock, clients' clocks are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path

import redis
import time_machine

import rq_dlq
from tests.reliability import shims
from tests.reliability.actors import CHUNK, Place, consume, is_empty, send, server_time
from tests.reliability.crowd import Crowd
from tests.reliability.journal import Sums, sums
from tests.reliability.row import Figures, Row, Run
from tests.servers import Server, free_port, wait_until

LEASE = 1_000  # milliseconds
HOUR = 3_600_000
STEPS = (HOUR, 0, -HOUR, 0, 100, -100, HOUR, -HOUR)  # from the right time, milliseconds
CLIENTS = (timedelta(), timedelta(days=1), timedelta(days=-1), timedelta())
PATIENCE = 10.0  # seconds: a blocking command that the step froze ends by the client's own timeout of five


class SkewedServer(Server):
    """A server whose clock is wrong by as much as one says."""

    def __init__(self, directory: Path, *options: str, port: int = 0) -> None:
        directory.mkdir()
        self._skew = directory / "skew"
        preload = {"LD_PRELOAD": shims.built("clock", directory), "SKEW": str(self._skew)}
        super().__init__(directory, *options, port=port, environment=preload)
        self.step(0)

    def step(self, milliseconds: int) -> None:
        """Have the clock wrong by this from now on."""
        fresh = self._skew.with_suffix(".new")
        fresh.write_text(str(milliseconds))
        fresh.rename(self._skew)


def consume_in_another_time(place: Place, wrong_by: timedelta) -> None:
    """Consume in a process whose clock is wrong."""
    with time_machine.travel(datetime.now(UTC) + wrong_by, tick=True):
        consume(place)


@dataclass
class Stepping:
    """Messages sent and consumed while the server's clock steps."""

    run: Run
    messages: int

    def make(self) -> tuple[int, Sums]:
        """Step until all are through; how often, and the sums."""
        server = SkewedServer(self.run.directory / "server")
        place = Place(server.url, self.run.directory / "journals", LEASE)
        steps = 0
        with server, server.client() as raw, Crowd() as crowd:
            queue = place.queue()
            queue.stats()
            halves = range(self.messages // CHUNK // 2)
            for sender in "ab":
                crowd.start(f"sender-{sender}", send, place, sender, halves)
            for number, wrong_by in enumerate(CLIENTS):
                crowd.start(f"consumer-{number}", consume_in_another_time, place, wrong_by)
            for skew in cycle(STEPS):
                acked = _acked(raw)
                if steps >= len(STEPS) and acked >= self.messages - CHUNK:
                    break
                server.step(skew)
                steps += 1
                self.run.done(acked, self.messages, f"clock {skew / 1000:+,.1f} s")
                wait_until(partial(_moves, queue, raw, acked), PATIENCE)
                if steps % 5 == 0:  # one dies with what it holds, and its leases are frozen or long over
                    crowd.kill(f"consumer-{steps // 5 % 4}")
                    crowd.start(f"consumer-{steps // 5 % 4}", consume, place)
            server.step(3 * HOUR)  # what was delayed in what is now the future falls due
            wait_until(lambda: is_empty(queue), 3 * PATIENCE)
            remaining = raw.hkeys("rq:{work}:messages")
            queue.broker.close()
        return steps, sums(place.journals, [name.decode() for name in remaining])


def _acked(raw: redis.Redis) -> int:
    return int(raw.hget("rq:{work}:counters", "acked") or 0)


def _moves(queue: rq_dlq.Queue[int], raw: redis.Redis, before: int) -> bool:
    """Whether something was acked since, or there is nothing that this clock says is due, or soon will be."""
    soon = server_time(queue) + 2 * LEASE  # later leases began before a step back
    return _acked(raw) > before or queue.stats().ready + raw.zcount("rq:{work}:leases", 0, soon) == 0


def failover(run: Run, skew: int) -> bool:
    """Promote a replica with another clock; whether all comes through and no stale ack is accepted."""
    directory = run.directory / f"failover{skew}"
    directory.mkdir()
    at_once = rq_dlq.RedeliveryPolicy(delays=[0], max_redeliveries=None)
    master = SkewedServer(directory / "master", port=free_port())
    replica = SkewedServer(directory / "replica", "--replicaof", "127.0.0.1", str(master.port))
    with master, replica, master.client() as raw, replica.client() as other:
        queue = rq_dlq.Broker(master.url).queue("work", lease=LEASE / 1000, redelivery=at_once)
        sent = set(queue.send_many(range(100)))
        held = queue.claim(50)
        wait_until(lambda: int(raw.wait(1, 100)) == 1)
        replica.step(skew)
        other.replicaof("NO", "ONE")
        master.kill()
        promoted = rq_dlq.Broker(replica.url).queue("work", lease=LEASE / 1000)
        acked = (
            [said.id for said in promoted.ack(held) if said] if skew < 0 else []
        )  # their leases still hold
        taken: list[str] = []
        wait_until(lambda: _take(promoted, taken) == len(sent) - len(acked), PATIENCE)
        late = [said.id for said in promoted.ack(held) if said]
        well = {*acked, *taken} == sent and not late and is_empty(promoted)
        queue.broker.close()
        promoted.broker.close()
        return well


def _take(queue: rq_dlq.Queue[int], taken: list[str]) -> int:
    """Claim and ack some more; how many that makes."""
    claimed = queue.claim(10)
    taken += [said.id for said in queue.ack(claimed) if said]
    return len(taken)


def clocks(run: Run) -> Figures:
    """Steps under load, then failovers."""
    steps, found = Stepping(run, run.pick(short=1_000, whole=10_000, soak=1_000_000)).make()
    skews = (HOUR, -HOUR) if run.scale != "short" else (HOUR,)
    well = [failover(run, skew) for skew in skews]
    met = all(well) and not (found.lost or found.unexpected or found.settled_twice)
    return Figures(
        trials=steps + len(skews),
        **found.counts,
        met=met,
        note=f"{found.stale} stale acks refused; {sum(well)} of {len(well)} failovers to a skewed clock well",
    )


ROWS = (
    Row(
        "T15",
        "server clock +1 h, -1 h, +-100 ms, failover to a skewed node; client clocks +-1 day",
        "0 lost, 0 stale acks accepted, no hang over 10 s",
        clocks,
        missing=shims.missing,
    ),
)
