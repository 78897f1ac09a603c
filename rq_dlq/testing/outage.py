"""Simulates an outage in virtual time on the real Lua: workers, and a dependency that is down.

No real time passes: each event moves the clock of the Lua to its time. Simulated workers block like
clients, until a token in `wake` or the time in a claim's reply: a missing alarm leaves messages waiting.

A simulation of the breaker in Python would have to be kept equal to the Lua. Only the workers are played; the
proof of row K6 of `docs/reliability.md` looks at the same fleet after each event.
"""

from __future__ import annotations

import heapq
import random
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

import redis

from rq_dlq.client.broker import Broker
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.step import CHUNK, chunks
from rq_dlq.policy.outage import AFTER, CALM, EVERY, WORK, Outage, SimulatedMessage, Spread
from rq_dlq.testing.clock import Clock, moved_clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.core.claiming.calls import Claimed
    from rq_dlq.core.steps.call import Call
    from rq_dlq.policy.outage import OutagePlan
    from rq_dlq.policy.per_key import PerKey
    from rq_dlq.values.settlement import Settlement

R = TypeVar("R")
F = TypeVar("F", bound="Fleet")

DEPENDENCY: Final = "payments"
PATIENCE: Final = 60  # the longest sleep of a worker, seconds
MINUTE: Final = 60.0  # seconds


class Fleet:
    """The workers of a queue, their messages, and the time.

    Attributes:
        now: seconds since the start.
        messages: all sent messages, by their ids.
        raw: a plain client of the server.
    """

    batch = 1  # messages that a worker claims
    lease = 60_000  # milliseconds

    per_key: PerKey | None = None

    def __init__(self, broker: Broker, raw: Any, clock: Clock, plan: OutagePlan, draw: int) -> None:
        self.plan, self.now = plan, 0.0
        self.messages: dict[str, SimulatedMessage] = {}
        self.queue = broker.queue(
            "outage", redelivery=plan.policy, breaker=plan.breaker, per_key=self.per_key
        )
        self.queue.open()
        self.raw, self._core, self._broker, self._clock = raw, self.queue._core, broker, clock
        self._random = random.Random(draw)  # noqa: S311 - a simulation
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order, self._tokens = count(), count()
        self._idle = [f"w{n}" for n in range(plan.workers)]
        self._sleeps: dict[
            str, tuple[float, bool]
        ] = {}  # by worker: the end of the sleep, and whether it holds the alarm
        self._cause = self._core.client.cause(self._core.name, "no answer")
        self._left = 0  # messages without a final outcome

    @property
    def repair(self) -> float:
        """When the outage ends."""
        return CALM + self.plan.outage

    @property
    def is_down(self) -> bool:
        """Whether the dependency is down."""
        return CALM <= self.now < self.repair and not self.plan.at_once

    def answer(self, message: SimulatedMessage) -> tuple[float, bool]:
        """How long a call takes that begins now, seconds, and whether it succeeds."""
        down = message.needs and not message.poison and self.is_down
        return self.plan.hang if down else WORK, not (message.poison or down)

    def moments(self) -> Iterator[None]:
        """Process events until no message is left, or until two hours after the repair."""
        for batch in range(ceil(self.repair / EVERY)):
            self._at(batch * EVERY, self._send)
        yield from self.until(self.repair + AFTER, lambda: self.now >= self.repair and not self._left)

    def until(self, last: float, enough: Callable[[], bool]) -> Iterator[None]:
        """Process the events up to a time, or until that is enough."""
        while self._events and self._events[0][0] <= last:
            time, _, act = heapq.heappop(self._events)
            if time > self.now:
                self._clock.advance(time - self.now)
                self.now = round(time, 3)
            act()
            self._wake()
            yield
            if enough():
                break

    def outcome(self) -> Outage:
        """The result of the simulation."""
        poisons = [one for one in self.messages.values() if one.poison]
        healthy = [one for one in self.messages.values() if not one.poison]
        turn = CALM if self.plan.at_once else self.repair
        late = [one for one in healthy if one.sent <= turn <= (one.acked or one.died or turn)]
        ends = [one.acked or one.died or 0.0 for one in late if one.is_over]
        others = [one for one in healthy if not one.needs]
        return Outage(
            healthy_dead=sum(one.died is not None for one in healthy),
            poisons_dead=sum(one.died is not None for one in poisons),
            poisons=len(poisons),
            wasted=sum(len(one.failed) for one in healthy),
            waiting=len(late),
            late=sum((one.acked or one.died or inf) > turn + MINUTE for one in late),
            drained=None if len(ends) < len(late) else round(max(ends, default=turn) - turn, 3),
            calm=Spread.of([one for one in others if one.sent < CALM]),
            meanwhile=Spread.of([one for one in others if one.sent >= CALM]),
        )

    def _at(self, time: float, act: Callable[[], object]) -> None:
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
        sent = {name: SimulatedMessage(self.now, needs=n < needs) for n, name in enumerate(names)}
        order = sorted(sent, key=lambda name: int(name[1:]))
        poisons = sum(one.poison for one in self.messages.values())
        begins, some = (CALM, self.plan.poisons) if self.plan.at_once else (CALM - EVERY, 1)
        for n in range(poisons, min(poisons + some, self.plan.poisons) if self.now >= begins else 0):
            order.insert(0, f"poison{n}")
            sent[order[0]] = SimulatedMessage(self.now, needs=True, poison=True)
        self.send(sent, order)

    def send(self, sent: Mapping[str, SimulatedMessage], order: Sequence[str]) -> None:
        """Send messages in an order of their ids."""
        self.messages |= sent
        self._left += len(sent)
        for part in chunks(order, CHUNK):
            items = [cell for name in part for cell in (name, self._packed(sent[name]))]
            steps = senders.once(
                self._core.client.senders, self._core.keys, sending_calls.send, delay=0, ttl=0, items=items
            )
            self._broker._run(steps)

    def _due(self, share: float) -> int:
        """How many messages of this batch belong to a share; over all batches the share is exact."""
        each, number = self.plan.messages * EVERY / self.plan.outage * share, self.now / EVERY
        return round((number + 1) * each) - round(number * each)

    def _packed(self, message: SimulatedMessage) -> bytes:
        key, dependency = ("a", DEPENDENCY) if message.needs else ("b", None)
        return self._core.codec.packer(4, {}, key=message.key or key, dependency=dependency)("x")

    # Workers

    def _wake(self) -> None:
        """Pass a token in `wake` to a sleeping worker."""
        wake = self._core.keys["wake"]
        while self._idle and self.raw.lpop(wake):
            self._claim(self._idle.pop(0))

    def _claim(self, worker: str) -> None:
        """Claim messages for a worker, which processes them or sleeps."""
        _, alarmed = self._sleeps.pop(worker, (0.0, False))
        reply, token = self._claimed(alarmed=alarmed)
        while not reply.rows and reply.wait == 0:
            reply, token = self._claimed(alarmed=alarmed)
        if reply.rows:
            answers = {row.id: self.answer(self.messages[row.id]) for row in reply.rows}
            done = {name: succeeds for name, (_, succeeds) in answers.items()}
            takes = max(span for span, _ in answers.values())
            self._at(self.now + takes, lambda: self._finish(worker, done, token))
            return
        self._idle.append(worker)
        alarmed = isinstance(reply.wait, int)
        time = self.now + (reply.wait / 1000 if isinstance(reply.wait, int) else PATIENCE)
        self._sleeps[worker] = (time, alarmed)
        self._at(time, lambda: self._wakes(worker, time))

    def _claimed(self, *, alarmed: bool = False) -> tuple[Claimed, str]:
        """One claim, and its token."""
        token, core = f"t{next(self._tokens)}", self._core
        call = claiming_calls.claim(
            core.keys, part="live", token=token, count=self.batch, lease=self.lease,
            patience=PATIENCE * 1_000, alarmed=alarmed, suspects="alone", consumer=core.consumer,
            seed=self._random.random(), default_policy=core.policy,
        )  # fmt: skip
        return self._run(call), token

    def _wakes(self, worker: str, time: float) -> None:
        """End a worker's sleep, unless it was woken before."""
        if worker in self._idle and self._sleeps[worker][0] == time:
            self._idle.remove(worker)
            self._claim(worker)

    def _finish(self, worker: str, done: Mapping[str, bool], token: str) -> None:
        """End attempts: nack those that failed in one call, then ack the others."""
        core = self._core
        failed = [name for name, succeeds in done.items() if not succeeds]
        acked = [(name, token) for name, succeeds in done.items() if succeeds]
        if failed:
            call = settling_calls.nack(
                core.keys, [(name, token) for name in failed], delay=None, charge=True, cause=self._cause,
                consumer=core.consumer, seed=self._random.random(), default_policy=core.policy, counts=True,
            )  # fmt: skip
            settlements: list[Settlement] = self._run(call)
            for name, settlement in zip(failed, settlements, strict=True):
                self.messages[name].failed.append(self.now)
                if settlement.outcome == "dead":
                    self.messages[name].died = self.now
        if acked:
            acks = self._run(settling_calls.ack(core.keys, acked))
            for settlement in acks:
                self.messages[settlement.id].acked = self.now
        self._left -= sum(self.messages[name].is_over for name in done)
        self._claim(worker)


@contextmanager
def staged(
    url: str, plan: OutagePlan, draw: int, make: Callable[[Broker, Any, Clock, OutagePlan, int], F]
) -> Generator[F]:
    """A fleet that `make` makes, on a single server, in its own namespace, which is removed afterwards.

    Args:
        draw: the seed of the random numbers; the same seed gives the same result.
    """
    namespace = f"rq-dlq-outage-{secrets.token_hex(4)}"
    key = f"{namespace}:now"
    with (
        redis.Redis.from_url(url) as raw,
        Broker(url, namespace=namespace, verbs=moved_clock(key)) as broker,
    ):
        try:
            yield make(broker, raw, Clock(raw, key=key), plan, draw)
        finally:
            left: list[Any] = [*raw.scan_iter(match=f"{namespace}:*", count=1_000)]
            raw.delete(*left, key)


@contextmanager
def fleet(url: str, plan: OutagePlan, draw: int = 0) -> Generator[Fleet]:
    """The workers of a simulation; the arguments are those of `staged`."""
    with staged(url, plan, draw, Fleet) as played:
        yield played


def play(url: str, plan: OutagePlan, draw: int = 0) -> Outage:
    """Simulate an outage to its end; the arguments are those of `fleet`."""
    with fleet(url, plan, draw) as played:
        for _ in played.moments():
            pass
        return played.outcome()
