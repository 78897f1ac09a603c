"""Simulates an outage in virtual time on the real scripts: workers, and a dependency that is down.

No real time passes: each event moves the clock of the scripts to its time. Simulated workers block like
clients, until a token in `wake` or the time in a claim's reply: a missing alarm leaves messages waiting.
"""

from __future__ import annotations

import heapq
import random
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeVar

import redis

from rq_dlq.client.broker import Broker
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.step import CHUNK, chunks
from rq_dlq.policy.outage import AFTER, CALM, EVERY, WORK, Message, Outage, Spread
from rq_dlq.testing.clock import Clock, moved_clock

if TYPE_CHECKING:
    from rq_dlq.core.claiming.calls import Claimed
    from rq_dlq.core.steps.call import Call
    from rq_dlq.policy.outage import Plan

R = TypeVar("R")

DEPENDENCY: Final = "payments"
PATIENCE: Final = 60  # the longest sleep of a worker, seconds
LEASE: Final = 60_000  # milliseconds


class Fleet:
    """The workers of a queue, their messages, and the time.

    Attributes:
        now: seconds since the start.
        messages: all sent messages, by their ids.
        raw: a plain client of the server.
    """

    def __init__(self, broker: Broker, raw: Any, clock: Clock, plan: Plan, draw: int) -> None:
        self.plan, self.now = plan, 0.0
        self.messages: dict[str, Message] = {}
        self.queue = broker.queue("outage", redelivery=plan.policy, breaker=plan.breaker)
        self.queue.open()
        self.raw, self._core, self._broker, self._clock = raw, self.queue._core, broker, clock
        self._random = random.Random(draw)  # noqa: S311 - a simulation
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._tokens = count(), count()
        self._idle = [f"w{n}" for n in range(plan.workers)]
        self._sleeps: dict[
            str, tuple[float, bool]
        ] = {}  # by worker: the end of the sleep, and whether it holds the alarm
        self._cause = self._core.cause("no answer")
        self._left = 0  # messages without a final outcome

    @property
    def repair(self) -> float:
        """When the outage ends."""
        return CALM + self.plan.outage

    @property
    def is_down(self) -> bool:
        """Whether the dependency is down."""
        return CALM <= self.now < self.repair

    def moments(self) -> Iterator[None]:
        """Process events until no message is left, or until two hours after the repair."""
        for batch in range(ceil(self.repair / EVERY)):
            self._at(batch * EVERY, self._send)
        while self._events and self._events[0][0] <= self.repair + AFTER:
            time, _, act = heapq.heappop(self._events)
            if time > self.now:
                self._clock.advance(time - self.now)
                self.now = round(time, 3)
            act()
            self._wake()
            yield
            if self.now >= self.repair and not self._left:
                break

    def outcome(self) -> Outage:
        """The result of the simulation."""
        poisons = [one for one in self.messages.values() if one.poison]
        healthy = [one for one in self.messages.values() if not one.poison]
        late = [one for one in healthy if (one.acked or one.died or self.repair) >= self.repair]
        ends = [one.acked or one.died or 0.0 for one in late if one.is_over]
        others = [one for one in healthy if not one.needs]
        return Outage(
            healthy_dead=sum(one.died is not None for one in healthy),
            poisons_dead=sum(one.died is not None for one in poisons),
            poisons=len(poisons),
            wasted=sum(len(one.failed) for one in healthy),
            waiting=len(late),
            drained=None if len(ends) < len(late) else round(max(ends, default=self.repair) - self.repair, 3),
            calm=Spread.of([one for one in others if one.sent < CALM]),
            meanwhile=Spread.of([one for one in others if one.sent >= CALM]),
        )

    def _at(self, time: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), act))

    def _run(self, call: Call[R]) -> R:
        result: R = self._broker._run(self._broker._step(call))
        return result

    # Sending

    def _send(self) -> None:
        """Send a batch: first a poison message if one is due, then the others in random order."""
        names = [f"m{len(self.messages) + n}" for n in range(self._due(1.0))]
        needs = self._due(self.plan.share)
        self._random.shuffle(names)
        sent = {name: Message(self.now, needs=n < needs) for n, name in enumerate(names)}
        order = sorted(sent, key=lambda name: int(name[1:]))
        poisons = sum(one.poison for one in self.messages.values())
        if poisons < self.plan.poisons and self.now >= CALM - EVERY:
            order.insert(0, f"poison{poisons}")
            sent[order[0]] = Message(self.now, needs=True, poison=True)
        self.messages |= sent
        self._left += len(sent)
        for part in chunks(order, CHUNK):
            items = [cell for name in part for cell in (name, self._packed(sent[name]))]
            steps = senders.once(
                self._core.senders, self._core.keys, sending_calls.send, delay=0, ttl=0, items=items
            )
            self._broker._run(steps)

    def _due(self, share: float) -> int:
        """How many messages of this batch belong to a share; over all batches the share is exact."""
        each, number = self.plan.messages * EVERY / self.plan.outage * share, self.now / EVERY
        return round((number + 1) * each) - round(number * each)

    def _packed(self, message: Message) -> bytes:
        key, dependency = ("a", DEPENDENCY) if message.needs else ("b", None)
        return self._core.codec.packer(4, {}, key=key, dependency=dependency)("x")

    # Workers

    def _wake(self) -> None:
        """Pass a token in `wake` to a sleeping worker."""
        wake = self._core.keys["wake"]
        while self._idle and self.raw.lpop(wake):
            self._claim(self._idle.pop(0))

    def _claim(self, worker: str) -> None:
        """Claim a message for a worker, which processes it or sleeps."""
        _, alarmed = self._sleeps.pop(worker, (0.0, False))
        reply, token = self._claimed(alarmed=alarmed)
        while not reply.rows and reply.wait == 0:
            reply, token = self._claimed()
        if reply.rows:
            name = reply.rows[0].id
            self._at(self.now + WORK, lambda: self._finish(worker, name, token))
            return
        self._idle.append(worker)
        time = self.now + (reply.wait / 1000 if reply.wait > 0 else PATIENCE)
        self._sleeps[worker] = (time, reply.wait > 0)
        self._at(time, lambda: self._wakes(worker, time))

    def _claimed(self, *, alarmed: bool = False) -> tuple[Claimed, str]:
        """One claim, and its token."""
        token, core = f"t{next(self._tokens)}", self._core
        call = claiming_calls.claim(
            core.keys, part="live", token=token, count=1, lease=LEASE, patience=PATIENCE * 1_000,
            alarmed=alarmed, suspects="alone", consumer=core.consumer, seed=self._random.random(),
            default_policy=core.policy,
        )  # fmt: skip
        return self._run(call), token

    def _wakes(self, worker: str, time: float) -> None:
        """End a worker's sleep, unless it was woken before."""
        if worker in self._idle and self._sleeps[worker][0] == time:
            self._idle.remove(worker)
            self._claim(worker)

    def _finish(self, worker: str, name: str, token: str) -> None:
        """End an attempt."""
        message, core, held = self.messages[name], self._core, [(name, token)]
        if message.poison or (message.needs and self.is_down):
            message.failed.append(self.now)
            call = settling_calls.nack(
                core.keys, held, delay=None, charge=True, cause=self._cause, consumer=core.consumer,
                seed=self._random.random(), default_policy=core.policy, counts=True,
            )  # fmt: skip
            if self._run(call)[0].outcome == "dead":
                message.died = self.now
        else:
            self._run(settling_calls.ack(core.keys, held))
            message.acked = self.now
        self._left -= message.is_over
        self._claim(worker)


@contextmanager
def fleet(url: str, plan: Plan, draw: int = 0) -> Generator[Fleet]:
    """A fleet on a single server, in its own namespace, which is removed afterwards.

    Args:
        draw: the seed of the random numbers; the same seed gives the same result.
    """
    namespace = f"rq-dlq-outage-{secrets.token_hex(4)}"
    key = f"{namespace}:now"
    with (
        redis.Redis.from_url(url) as raw,
        Broker(url, namespace=namespace, scripts=moved_clock(key)) as broker,
    ):
        try:
            yield Fleet(broker, raw, Clock(raw, key=key), plan, draw)
        finally:
            left: list[Any] = [*raw.scan_iter(match=f"{namespace}:*", count=1_000)]
            raw.delete(*left, key)


def play(url: str, plan: Plan, draw: int = 0) -> Outage:
    """Simulate an outage to its end; the arguments are those of `fleet`."""
    with fleet(url, plan, draw) as played:
        for _ in played.moments():
            pass
        return played.outcome()
