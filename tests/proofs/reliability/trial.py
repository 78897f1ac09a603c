"""One trial of T5: what sends and works is killed and frozen, at random, until all is sent and acked."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import rq_dlq
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Held
from rq_dlq.core.steps.step import Pipeline
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import (
    BATCH,
    CHUNK,
    FREEZE,
    Place,
    chunk_of,
    consume,
    is_empty,
    note_acked,
    send,
    work,
)  # fmt: skip
from tests.proofs.reliability.journal import Journal, last, lines
from tests.servers import wait_until

SENDERS = ("a", "b")
CONSUMERS = {"consumer": 4, "worker": 1, "awaiting": 1}  # at a time; all but the first run the real worker
ACTS: dict[str, Callable[[Place], None]] = {
    "consumer": consume,
    "worker": work,
    "awaiting": partial(work, concurrency=BATCH, colour="async def"),
}
TOGETHER = 100  # messages that a worker has begun and not acked, at most
MORE = 10  # chunks that a sender sends beyond the plan, again and again, while something planned is not done
MOST = 4  # times what is planned: then what is not done is left
LEFT = 0.25  # of the sends of unknown outcome, which nobody sends again
START = 30.0  # seconds until the first message, at most
ARRIVAL = 0.1  # seconds until an extension that a zombie had sent has reached a busy server, at most
WAKING = 30.0  # seconds until a zombie has heard what came of its ack, at most
TICK = 0.002  # seconds between two looks


@dataclass(frozen=True)
class Plan:
    """How much is done, and to whom.

    Attributes:
        messages: a multiple of the chunks of all senders.
        lease: milliseconds.
        patience: seconds without progress, after which what is left is left.
    """

    messages: int
    kills: int
    zombies: int
    senders_killed: int
    lease: int = 1_000
    patience: float = 30.0


@dataclass(frozen=True)
class Sending:
    """A process that sends for a sender, from its chunk `first` on, up to `end`."""

    name: str
    first: int
    end: int


@dataclass(frozen=True)
class Zombie:
    """A consumer that is frozen with messages in its hands, until its lease is over.

    Attributes:
        held: what it was given last; what a worker has finished before may wait to be acked, too.
        start: the byte of its journal at which it was told to freeze.
    """

    name: str
    held: list[str]
    start: int
    until: float


@dataclass
class Done:
    """What was done to whom.

    Attributes:
        kills: of consumers: how many messages each may have had in its hands.
        frozen: consumers that had messages in their hands.
        contested: messages that a zombie acked while another consumer held them.
    """

    kills: list[int] = field(default_factory=list)
    frozen: list[Zombie] = field(default_factory=list)
    contested: int = 0
    senders_killed: int = 0


class Trial:
    """One run, from the first message until the queue is drained."""

    def __init__(
        self, plan: Plan, place: Place, raw: Any, drawn: random.Random, forked: ForkedProcesses
    ) -> None:
        self.plan, self.place, self.raw, self.random, self.forked = plan, place, raw, drawn, forked
        self.queues = place.open()
        self.done = Done()
        self._journal = Journal(place.journals, "trial")
        self.consumers: list[str] = []
        self.senders: dict[str, Sending] = {}  # as long as they have something to send
        self.zombies: list[Zombie] = []
        self.freezing: dict[str, int] = {}  # who is to be one, since which byte of its journal
        self._started = 0

    def run(self, show: Callable[[float, float, str], None]) -> None:
        """Do all that is planned while messages are sent and acked; on a busy machine some more of them."""
        for queue in self.queues:
            queue.stats()  # loads the library, so that `_take_over` need not
        for sender in SENDERS:
            self._start_sender(sender, 0)
        for kind, number in CONSUMERS.items():
            for _ in range(number):
                self._start_consumer(kind)
        moved, before = time.monotonic() + START, (0, 0)
        while time.monotonic() - moved < self.plan.patience:
            sent, acked = self._totals()
            if (sent, acked) != before:
                moved, before = time.monotonic(), (sent, acked)
                show(acked, self.plan.messages, f"{len(self.done.kills)} kills")
            self._look_after_senders(sent)
            if not self.senders and not self.zombies and self._drained():
                return
            self._look_after_consumers(acked)
            time.sleep(TICK)

    def _totals(self) -> tuple[int, int]:
        found = [self.raw.hmget(queue._core.keys["counters"], "sent", "acked") for queue in self.queues]
        return sum(int(sent or 0) for sent, _ in found), sum(int(acked or 0) for _, acked in found)

    def _drained(self) -> bool:
        return all(map(is_empty, self.queues))

    def _due(self, done: int, planned: int, progress: int) -> bool:
        """Whether it is time for another one of so many, which are all over some time before the end."""
        return done < planned and done < planned * progress / (0.8 * self.plan.messages)

    def _is_done(self) -> bool:
        """Whether all that was planned is done."""
        plan, done = self.plan, self.done
        return (
            len(done.kills) >= plan.kills
            and len(done.frozen) >= plan.zombies
            and done.senders_killed >= plan.senders_killed
        )

    def _start_sender(self, sender: str, first: int) -> None:
        name = self._new(sender)
        planned = self.plan.messages // CHUNK // len(SENDERS)
        end = planned if first < planned else first + MORE
        self.forked.start(name, send, self.place, sender, range(first, end))
        self.senders[sender] = Sending(name, first, end)

    def _start_consumer(self, kind: str) -> None:
        name = self._new(kind)
        self.forked.start(name, ACTS[kind], self.place)
        self.consumers.append(name)

    def _new(self, kind: str) -> str:
        self._started += 1
        return f"{kind}.{self._started}"

    def _look_after_senders(self, sent: int) -> None:
        for sender, sending in list(self.senders.items()):
            if not self.forked.alive(sending.name):
                del self.senders[sender]
                if not self._is_done() and sent < MOST * self.plan.messages:
                    self._start_sender(sender, sending.end)
        if self.senders and self._due(self.done.senders_killed, self.plan.senders_killed, sent):
            sender = self.random.choice(list(self.senders))
            self.forked.kill(self.senders[sender].name)
            self.done.senders_killed += 1
            self._start_sender(sender, self._goes_on_at(self.senders[sender]))

    def _goes_on_at(self, killed: Sending) -> int:
        """The chunk at which its successor goes on.

        What was about to be sent is sent again, under the same ids; now and then it is left as it is.
        """
        said, ids = last(self.place.journals, killed.name)
        if not said:
            return killed.first
        return chunk_of(ids[0]) + (said == "sent" or self.random.random() < LEFT)

    def _look_after_consumers(self, acked: int) -> None:
        now = time.monotonic()
        for zombie in [zombie for zombie in self.zombies if zombie.until < now]:
            self.zombies.remove(zombie)
            self._wake(zombie)
        self._see_who_is_frozen()
        if self._due(len(self.done.frozen) + len(self.freezing), self.plan.zombies, acked):
            self._freeze_one()
        while self._due(len(self.done.kills), self.plan.kills, acked):
            name = self.random.choice(self.consumers)
            self.consumers.remove(name)
            self._kill(name)
            self._start_consumer(kind_of(name))

    def _kill(self, name: str) -> None:
        self.forked.kill(name)
        self.done.kills.append(TOGETHER if is_real(name) else BATCH)

    def _freeze_one(self) -> None:
        """Have one freeze when it is given messages the next time; of each kind in turn."""
        kind = [*CONSUMERS][(len(self.done.frozen) + len(self.freezing)) % len(CONSUMERS)]
        ready = [
            name for name in self.consumers if kind_of(name) == kind and last(self.place.journals, name)[0]
        ]
        if ready:
            name = self.random.choice(ready)
            self.freezing[name] = (self.place.journals / f"{name}.journal").stat().st_size
            self.forked.signal(name, FREEZE)
            self.consumers.remove(name)
            self._start_consumer(kind)

    def _see_who_is_frozen(self) -> None:
        for name in filter(self.forked.stands_still, [*self.freezing]):
            path, start = self.place.journals / f"{name}.journal", self.freezing.pop(name)
            *_, held = (ids for said, ids in lines(path) if said == "got")  # perhaps just before it was told
            until = time.monotonic() + ARRIVAL + self.plan.lease / 1000
            zombie = Zombie(name, held.split(), start, until)
            self.zombies.append(zombie)
            self.done.frozen.append(zombie)

    def _wake(self, zombie: Zombie) -> None:
        """Let it go on once what it held was taken from it; when it knows that, it is killed."""
        queue = self.queues[chunk_of(zombie.held[0]) % len(self.queues)]  # of all that it was given at once
        queue.maintain()
        taken = self._take_over(queue, zombie)
        self.forked.signal(zombie.name, signal.SIGCONT)
        held, journals = set(zombie.held), self.place.journals
        wait_until(lambda: held <= heard(journals, zombie, "acked", "stale"), WAKING)
        if taken:
            self._journal.note("ack", [name for name, _ in taken])
            acked = queue._broker._step(settling_calls.ack(queue._core.keys, taken))
            note_acked(self._journal, queue._run(acked))
        self._kill(zombie.name)

    def _take_over(self, queue: rq_dlq.Queue[int], zombie: Zombie) -> list[Held]:
        """Claim what a zombie held, which waits for its redelivery: it is to ack while somebody holds it."""
        queue.select(ids=zombie.held, places=["scheduled"]).prioritize(9)
        core, token = queue._core, f"instead-of-{zombie.name}"
        now = choosing_calls.deliver_now(core.client.senders.lend(core.keys), ids=zombie.held)
        claim = claiming_calls.claim(
            core.keys, part="live", token=token, count=BATCH, lease=round(2_000 * WAKING), patience=0,
            consumer=core.consumer, seed=0.0, default_policy=core.policy,
        )  # fmt: skip
        claimed: claiming_calls.Claimed
        _, claimed = queue._run(queue._broker._step(Pipeline([now, claim])))  # at once
        taken = [(row.id, token) for row in claimed.rows]
        self._journal.note("got", [name for name, _ in taken])
        self.done.contested += sum(name in zombie.held for name, _ in taken)
        return taken


def heard(journals: Path, zombie: Zombie, *answers: str) -> set[str]:
    """The messages of which a zombie was told this, since it was to freeze."""
    path = journals / f"{zombie.name}.journal"
    return {name for said, ids in lines(path, zombie.start) if said in answers for name in ids.split()}


def kind_of(name: str) -> str:
    """The kind of a consumer."""
    return name.partition(".")[0]


def is_real(name: str) -> bool:
    """Whether a process runs the real worker; else it claims and acks by itself."""
    return kind_of(name) != "consumer"
