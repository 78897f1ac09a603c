"""T13: a cluster whose hot slot is moved, and whose shards are killed, under load."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable, Message, RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.cluster import slot_of
from rq_dlq.core.steps import confirm
from rq_dlq.errors import Unconfirmed
from rq_dlq.worker import Worker
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import NotedTally
from tests.proofs.reliability.findings import audited, beyond, counters, over, remaining, wrong
from tests.proofs.reliability.journal import Journal, sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers.clusters import Cluster, Migration, PlainClient

HOT = "orders"
QUEUES = (HOT, "bills", "invoices")  # one on each node
CHUNK = 10
MORE = 2_000  # bytes of a journal
BACK_WITHIN = 5.0  # seconds
PATIENCE, TICK = 30.0, 0.01  # seconds until everybody has done some more, at most; between two looks
POLICY = RedeliveryPolicy(initial_delay="100ms", max_redeliveries=None)


def produce(url: str, directory: Path, name: str) -> None:
    """Send to all queues, for ever; as sent counts what a replica has confirmed."""
    broker = rq_dlq.Broker(url, durability="replicated", confirm_within="200ms")
    queues = [broker.queue(each, redelivery=POLICY) for each in QUEUES]
    journal = Journal(directory / "journals", name)
    for chunk in count():
        queue = queues[chunk % len(queues)]
        ids = [f"{name}-{queue.name}-{number}" for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
        journal.note("send", ids)
        try:
            queue.send_many([Message(body=0, id=each) for each in ids])
        except Unconfirmed:
            journal.note("unconfirmed", ids)
        except (BrokerUnavailable, BrokerRefused) as error:
            with (directory / f"{name}.errors").open("a") as errors:
                errors.write(f"{error}\n")
        else:
            journal.note("sent", ids)


def work(url: str, directory: Path, name: str, colour: str) -> None:
    """Run a worker on all queues, for ever."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    broker = rq_dlq.Broker(url)
    journal = Journal(directory / "journals", name)

    def handle(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        del body
        journal.note("got", [delivery.id])
        journal.note("ack", [delivery.id])

    async def awaiting(body: int, delivery: rq_dlq.Delivery[int]) -> None:
        handle(body, delivery)

    for each in QUEUES:
        queue = broker.queue(each, lease="5s", redelivery=POLICY)
        queue.handler()(handle if colour == "def" else awaiting)
    worker = Worker(broker)
    worker.tally = NotedTally(journal)
    worker.run()


class Shards:
    """The cluster, and who uses it."""

    def __init__(self, cluster: Cluster, forked: ForkedProcesses, directory: Path) -> None:
        self.cluster, self._forked, self._directory = cluster, forked, directory
        self.back: list[float] = []

    def open(self) -> None:
        """Two producers and two workers begin."""
        for number, colour in enumerate(("def", "async def")):
            for act, more in ((produce, ()), (work, (colour,))):
                name = f"{act.__name__}-{number}"
                self._forked.start(name, act, self.cluster.url, self._directory, name, *more)
        self.go_on()

    def go_on(self) -> None:
        """Wait until every producer has sent, and every worker acked, some more."""
        before = self._journals()
        self._wait(
            lambda: (
                len(self._journals()) == len(self._forked.processes)
                and all(size > before.get(path, 0) + MORE for path, size in self._journals().items())
            ),
            "nothing goes on",
        )

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        """While everybody lives, until something has come about."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert all(map(self._forked.alive, self._forked.processes))
            assert time.monotonic() < deadline, f"{otherwise}: {self.errors()[-1:]}"
            time.sleep(TICK)

    def _journals(self) -> dict[Path, int]:
        """Their lengths."""
        return {path: path.stat().st_size for path in (self._directory / "journals").glob("*.journal")}

    def reshard(self) -> None:
        """The hot slot gets another owner."""
        slot, owner = slot_of(QueueKeys("rq", HOT)["ready"]), self.cluster.owner(f"{{{HOT}}}")
        Migration(self.cluster, slot, self.cluster.other(owner)).run()
        self.go_on()

    def kill(self) -> None:
        """The hot slot's owner dies, and comes back as a replica."""
        owner = self.cluster.owner(f"{{{HOT}}}")
        keys = QueueKeys("rq", HOT)
        with rq_dlq.Broker(self.cluster.other(owner).url) as probe:
            probe._run(probe._step(confirm.mark(keys)))
            owner.kill()
            began = time.monotonic()
            while True:
                with suppress(BrokerUnavailable):
                    probe._run(probe._step(confirm.mark(keys)))
                    break
            self.back.append(time.monotonic() - began)
        owner.start()
        self.cluster.wait_well()
        self.go_on()

    def close(self) -> None:
        """The producers end, and the workers when there is nothing left."""
        for number in range(2):
            self._forked.kill(f"produce-{number}")
        raw = PlainClient(self.cluster)
        self._wait(lambda: not remaining(raw, QUEUES), "the queues are not drained")
        for number in range(2):
            assert self._forked.alive(f"work-{number}")
            self._forked.kill(f"work-{number}")

    def errors(self) -> list[str]:
        """What producers were told."""
        return [line for path in self._directory.glob("*.errors") for line in path.read_text().splitlines()]


def reshard(run: Run) -> Figures:
    """Slots move and shards die, in turn."""
    moves, kills = run.pick(short=(1, 1), whole=(10, 5), soak=(200, 100))
    with Cluster(run.directory / "nodes", replicas=1) as cluster, ForkedProcesses() as forked:
        shards = Shards(cluster, forked, run.directory)
        shards.open()
        for number in range(moves):
            run.done(number, moves + kills, f"move {number + 1}")
            shards.reshard()
        told = shards.errors()
        for number in range(kills):
            run.done(moves + number, moves + kills, f"kill {number + 1}")
            shards.kill()
        shards.close()
        raw = PlainClient(cluster)
        left, bad = remaining(raw, QUEUES), audited(raw, *QUEUES)
        sent = counters(raw, *QUEUES)["sent"]
    found, errors, slowest = sums(run.directory / "journals", left), shards.errors(), max(shards.back)
    perhaps = found.entered - found.acknowledged  # what a dead shard took along was sent, too
    bad += wrong(
        {
            "lost": len(found.lost),
            "unexpected": len(found.unexpected),
            "sent that the journals do not explain": beyond(sent, found.acknowledged, perhaps),
            "errors while slots moved": len(told),
            "errors that speak of slots on their way": len(half_moved(errors)),
            "s until all was back": over(slowest, BACK_WITHIN),
        }
    )
    notes = [f"{len(errors)} errors while shards were dead", f"back after {slowest:.1f} s at most"]
    return Figures(trials=moves + kills, **found.counts, met=not bad, note="; ".join(bad + notes))


def half_moved(errors: Sequence[str]) -> list[str]:
    """Those that speak of slots on their way."""
    return [error for error in errors if "is moving to another node" in error]


ROWS = (
    Row(
        "T13",
        "cluster of 3 shards: a hot slot moved x 10, a shard killed x 5; 2 producers, 2 workers: sync, async",
        "0 lost, no TRYAGAIN for the user, back in 5 s",
        reshard,
    ),
)
