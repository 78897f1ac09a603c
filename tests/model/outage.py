"""An outage in virtual time on the real scripts: a fleet, a dependency that is down, tenants, poisons.

Nothing sleeps: the next event moves the clock of Redis. Workers sleep as clients do, until a token in `wake`
or the time that a claim has replied, so an alarm that is missing shows as messages that wait for ever.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from statistics import quantiles
from typing import Any

from rq_dlq.core.claiming.calls import Claimed
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.policy import Breaker, RedeliveryPolicy
from rq_dlq.values.key import lane_of
from tests.conftest import Clock
from tests.model.driver import CAUSE, CODEC, Driver

DEPENDENCY = "payments"
LANE = str(lane_of(DEPENDENCY, "dependency"))
PATIENCE = 60  # seconds that a worker sleeps at most
FLOOD = 32  # that are let in and not yet acked, at most


@dataclass(frozen=True)
class Plan:
    """What happens; times in seconds.

    Attributes:
        calm, down, after: before the outage, of it, and since the repair.
        slots: messages that the fleet works on at once.
        work: of one message, whether it succeeds or fails.
        every: between two batches of messages.
        payments: messages of a batch that need what goes down.
        others: messages of a batch of a tenant that does not.
        poisons: messages that fail always; the first comes before the outage, one is the first of it.
    """

    breaker: Breaker | None = field(default_factory=Breaker)
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    calm: float = 300
    down: float = 1_800
    after: float = 3_600
    slots: int = 8
    work: float = 0.2
    every: float = 30
    payments: int = 20
    others: int = 30
    poisons: int = 5


@dataclass
class Message:
    """What became of a message."""

    sent: float
    needs: bool
    poison: bool
    acked: float | None = None
    failures: int = 0


@dataclass(frozen=True)
class Outage:
    """What became of all.

    Attributes:
        dead: healthy messages that died.
        poisons_dead, poisons: messages that fail always: those that died, and how many there were.
        wasted: attempts of healthy messages that failed.
        waiting: how many waited when all was well again.
        drained: seconds from then until all of those were done; None: they never were.
        calm, meanwhile: the other tenant's latencies, median and 99th percentile: before, and since then.
        wrong: rules that did not hold.
    """

    dead: int
    poisons_dead: int
    poisons: int
    wasted: int
    waiting: int
    drained: float | None
    calm: tuple[float, float]
    meanwhile: tuple[float, float]
    wrong: tuple[str, ...]


class Fleet:
    """The simulation."""

    def __init__(self, raw: Any, plan: Plan, draw: int) -> None:
        raw.flushall()
        self.raw, self.plan, self.random = raw, plan, random.Random(draw)
        self.clock, self.now = Clock(raw), 0.0
        self.queue = Driver(raw, plan.policy)
        settings = {"redelivery": self.queue.wire.decode()}
        settings |= {"breaker": str(plan.breaker)} if plan.breaker else {}
        assert self.queue.run(self.queue.configure_call(settings))
        self.messages: dict[str, Message] = {}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.idle = [f"w{n}" for n in range(plan.slots)]
        self.sleeps: dict[str, tuple[float, bool]] = {}  # until when, and whether it holds the alarm
        self.wrong: dict[str, None] = {}
        self.tokens = count()

    # What happens when

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self.events, (time, next(self.order), act))

    @property
    def is_down(self) -> bool:
        """Whether the dependency is."""
        return self.plan.calm <= self.now < self.plan.calm + self.plan.down

    def run(self) -> Outage:
        """All of it."""
        plan = self.plan
        repair, end = plan.calm + plan.down, plan.calm + plan.down + plan.after
        for start in self._batches(repair):
            self.at(start, self.send)
        waiting: list[str] = []
        self.at(repair, lambda: waiting.extend(self._blocked()))
        while self.events and self.events[0][0] <= end:
            time, _, act = heapq.heappop(self.events)
            if time > self.now:
                self.clock.advance(time - self.now)
                self.now = time
            act()
            self.wake()
            self.look()
        return self._account(waiting, repair)

    def _batches(self, until: float) -> Iterator[float]:
        time = 0.0
        while time < until:
            yield time
            time += self.plan.every

    def send(self) -> None:
        """A batch."""
        plan, items = self.plan, list[str | bytes]()
        number = len(self.messages)
        sent = [(f"m{number + n}", True, False) for n in range(plan.payments)]
        sent += [(f"m{number + plan.payments + n}", False, False) for n in range(plan.others)]
        self.random.shuffle(sent)
        poisons = sum(one.poison for one in self.messages.values())
        if poisons < plan.poisons and self.now >= plan.calm - plan.every:
            sent.insert(0, (f"poison{number}", True, True))
        for name, needs, poison in sent:
            self.messages[name] = Message(self.now, needs, poison)
            pack = CODEC.packer(4, {}, key="a" if needs else "b", dependency=DEPENDENCY if needs else None)
            items += [name, pack(b"x")]
        self.queue.run(sending_calls.send(self.queue.sender(), delay=0, ttl=0, items=items))

    # What workers do

    def wake(self) -> None:
        """Who sleeps on `wake` gets its token."""
        while self.idle and self.raw.llen(self.queue.keys["wake"]):
            self.raw.lpop(self.queue.keys["wake"])
            self.claim(self.idle.pop(0))

    def claim(self, worker: str) -> None:
        """A worker asks for a message; it works on it, or sleeps."""
        _, alarmed = self.sleeps.pop(worker, (0.0, False))
        reply, token = self.claimed(alarmed=alarmed)
        while not reply.rows and reply.wait == 0:
            reply, token = self.claimed()
        if reply.rows:
            name = reply.rows[0].id
            self.at(self.now + self.plan.work, lambda: self.finish(worker, name, token))
            return
        self.idle.append(worker)
        time = self.now + (reply.wait / 1000 if reply.wait > 0 else PATIENCE)
        self.sleeps[worker] = (time, reply.wait > 0)
        self.at(time, lambda: self.wakes(worker, time))

    def claimed(self, *, alarmed: bool = False) -> tuple[Claimed, str]:
        """One claim, and its token."""
        token, seed = f"t{next(self.tokens)}", self.random.random()
        call = self.queue.claim_call(
            token, 1, lease=60_000, patience=PATIENCE * 1_000, alarmed=alarmed, suspects="alone", seed=seed
        )
        return self.queue.run(call), token

    def wakes(self, worker: str, time: float) -> None:
        """The time has come until which a worker sleeps, unless it was woken before."""
        if worker in self.idle and self.sleeps[worker][0] == time:
            self.idle.remove(worker)
            self.claim(worker)

    def finish(self, worker: str, name: str, token: str) -> None:
        """The end of an attempt."""
        message = self.messages[name]
        if message.poison or (message.needs and self.is_down):
            message.failures += 1
            self.queue.run(
                settling_calls.nack(
                    self.queue.keys, [(name, token)], delay=None, charge=True, cause=CAUSE, consumer='"c"',
                    seed=self.random.random(), default_policy=self.queue.wire, counts=True,
                )
            )  # fmt: skip
        else:
            message.acked = self.now
            self.queue.run(settling_calls.ack(self.queue.keys, [(name, token)]))
        self.claim(worker)

    # What is seen

    def look(self) -> None:
        """What must hold after each event."""
        text = self.raw.hget(self.queue.keys["lanes"], LANE)
        lane = json.loads(text) if text else {}
        if "open" in lane and not self.is_down and self.now < self.plan.calm:
            self.wrong["it opened while all was well"] = None
        passes = self.raw.zcount(self.queue.keys["seats"], LANE, LANE)
        if ("drains" in lane and passes > FLOOD) or ("open" in lane and passes > 1):
            self.wrong["a flood: too many are let in at once"] = None

    def _blocked(self) -> list[str]:
        """What waits for the dependency; nobody is charged for that."""
        score = (1 << 43) + int(LANE)
        rows = self.raw.zrangebyscore(self.queue.keys["scheduled"], score, score)
        names = [row[8:].decode() for row in rows]
        states = self.raw.hmget(self.queue.keys["states"], names) if names else []
        for name, state in zip(names, states, strict=True):
            if state is not None and state.split(b" ")[4] != b"0" and not self.messages[name].poison:
                self.wrong["a message that waits was charged"] = None
        return names

    def _account(self, waiting: list[str], repair: float) -> Outage:
        dead = {row[8:].decode() for row in self.raw.zrange(self.queue.keys["dead"], 0, -1)}
        poisons = {name for name, one in self.messages.items() if one.poison}
        healthy = [self.messages[name] for name in waiting if name not in poisons]
        ends = [one.acked for one in healthy if one.acked is not None]
        others = [one for one in self.messages.values() if not one.needs]
        if any(one.acked is None for one in others):
            self.wrong["a message of the other tenant was never done"] = None
        return Outage(
            dead=len(dead - poisons),
            poisons_dead=len(dead & poisons),
            poisons=len(poisons),
            wasted=sum(one.failures for one in self.messages.values() if not one.poison),
            waiting=len(healthy),
            drained=max(ends, default=repair) - repair if len(ends) == len(healthy) else None,
            calm=spread([one for one in others if one.sent < self.plan.calm]),
            meanwhile=spread([one for one in others if one.sent >= self.plan.calm]),
            wrong=tuple(self.wrong),
        )


def spread(messages: list[Message]) -> tuple[float, float]:
    """Median and 99th percentile of the times until they were done."""
    times = sorted(one.acked - one.sent for one in messages if one.acked is not None)
    cuts = quantiles(times, n=100)
    return cuts[49], cuts[98]


def simulate(raw: Any, plan: Plan, draw: int) -> Outage:
    """One outage."""
    return Fleet(raw, plan, draw).run()
