"""A gather of two children: every end of each, in every order, with each call repeated as after a lost reply.

A model in plain Python says which children have ended and how, which shares have been carried, and whether
`then` is due. Each world that is reached is compared with it. By default every world is reached in one way;
of the acts that lead to one again a part is tried, drawn anew in each run. `pytest -m slow` tries every act
in every world.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from zlib import crc32

import pytest

from rq_dlq._keys import QueueKeys
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as changing_calls
from rq_dlq.core.gathers import calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from tests.audit import Snapshot, audit_queue
from tests.conftest import Clock
from tests.model.driver import CAUSE, Driver
from tests.model.world import dumped

HOUR, DAY = 3_600_000, 86_400_000
POLICY = RedeliveryPolicy(max_redeliveries=0, initial_delay=1)
G, ONE, TWO = "g", "c1", "c2"
EVERY = 4
"""Of the acts that lead to a world that is known one of so many is tried."""
WAITS, HELD, DEAD, EXPIRED, REMOVED = "ready", "leased", "dead", "expired", ""


@dataclass(frozen=True)
class Model:
    """What is so.

    Attributes:
        queue: of each child.
        place: of each child; empty: it was removed.
        ends: of each child; None: it has none.
        carried: the queues whose shares have come.
    """

    queue: Mapping[str, str]
    place: Mapping[str, str]
    ends: Mapping[str, str | None]
    closed: bool = False
    carried: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The same of what is the same."""
        return f"{self.place} {self.ends} {self.closed} {sorted(self.carried)}"

    def ended(self, queue: str) -> bool:
        """Whether no end of a child of this queue changes any more."""
        return self.closed and all(self.ends[child] for child, at in self.queue.items() if at == queue)

    @property
    def due(self) -> bool:
        """Whether `then` is."""
        return self.closed and self.carried == {*self.queue.values()}

    def after(self, child: str, place: str, end: str | None) -> Model:
        """After a child came to a place, which is an end, or none."""
        changed = replace(self, place={**self.place, child: place})
        if self.ended(self.queue[child]):
            return changed
        return replace(changed, ends={**self.ends, child: end})

    def carry(self, queue: str) -> Model:
        """After a look at a share."""
        return replace(self, carried=self.carried | {queue}) if self.ended(queue) else self


@dataclass
class Bench:
    """Queues, and what happens in them."""

    raw: Any
    clock: Clock
    queues: dict[str, Driver]
    tokens: int = 0

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def run(self, call: Call[Any], twice: bool) -> None:
        """A call; `twice`: its reply is lost, and it is repeated."""
        queue = next(iter(self.queues.values()))
        queue.run(call)
        if twice:
            queue.run(call, repeated=True)

    def held(self, queue: Driver, child: str) -> tuple[str, str]:
        """The child, and the token that holds it."""
        text = self.raw.hget(queue.keys["states"], child).decode()
        return child, text.split(" ")[1].removeprefix("+")


Act = Callable[[Bench, Driver, str, bool], None]


def claim(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    """Until this child is held; others are given back."""
    token = bench.token()
    bench.run(queue.claim_call(token, 9), twice)
    rest = [
        one
        for one in (ONE, TWO)
        if one != child and f"+{token} ".encode() in (bench.raw.hget(queue.keys["states"], one) or b"")
    ]
    if rest:
        queue.run(settling_calls.release(queue.keys, [(one, token) for one in rest]))


def ack(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.run(settling_calls.ack(queue.keys, [bench.held(queue, child)]), twice)


def poison(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.run(queue.poison_call([bench.held(queue, child)]), twice)


def nack(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    call = settling_calls.nack(
        queue.keys, [bench.held(queue, child)], delay=None, charge=True, cause=CAUSE, consumer='"c"',
        seed=0.5, default_policy=queue.wire,
    )  # fmt: skip
    bench.run(call, twice)


def lapse(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.raw.zadd(queue.keys["leases"], {bench.held(queue, child)[1]: 1})
    call = upkeep_calls.sweep(queue.keys, limit=9, seed=0.5, default_policy=queue.wire)
    bench.run(call, twice)


def release(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.run(settling_calls.release(queue.keys, [bench.held(queue, child)]), twice)


def cancel(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.run(cancelling_calls.cancel(queue.sender(), id=child), twice)


def purge(place: Any) -> Act:
    return lambda bench, queue, child, twice: bench.run(
        changing_calls.purge(queue.sender(), place=place, ids=[child]), twice
    )


def move(place: Any) -> Act:
    return lambda bench, queue, child, twice: bench.run(
        changing_calls.transfer(
            queue.sender(),
            bench.queues["away"].keys,
            place=place,
            ids=[child],
            keep=False,
            by='"op"',
            cause=CAUSE,
        ),
        twice,
    )


def redrive(place: Any) -> Act:
    return lambda bench, queue, child, twice: bench.run(
        changing_calls.redrive(queue.sender(), place=place, by='"op"', ids=[child]), twice
    )


def expire(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    bench.run(changing_calls.expire_now(queue.sender(), place="ready", ids=[child]), twice)


def lay_out(place: Any) -> Act:
    """To the dead letters, by an operator."""
    return lambda bench, queue, child, twice: bench.run(
        changing_calls.dead_letter(queue.sender(), place=place, ids=[child], by='"op"', cause=CAUSE), twice
    )


def retire(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    """The end of the retention, of this child only."""
    for index in ("dead", "expired"):
        for row in bench.raw.zrange(queue.keys[index], 0, -1):
            if row.endswith(child.encode()):
                bench.raw.zadd(queue.keys[index], {row: 1})
    bench.raw.hset(queue.keys["settings"], "dead_letter", f'{{"dead_for": {DAY}, "expired_for": {DAY}}}')
    bench.run(upkeep_calls.retire(queue.keys, limit=9), twice)
    bench.raw.hdel(queue.keys["settings"], "dead_letter")


def discard(bench: Bench, queue: Driver, child: str, twice: bool) -> None:
    """A death, where the settings discard dead letters."""
    bench.raw.hset(queue.keys["settings"], "dead_letter", '{"dead": "discard"}')
    bench.run(queue.poison_call([bench.held(queue, child)]), twice)
    bench.raw.hdel(queue.keys["settings"], "dead_letter")


ACTS: dict[str, tuple[str, Act, str, str | None]] = {
    # name: where the child is, the act, where it is then, its end
    "claim": (WAITS, claim, HELD, None),
    "release": (HELD, release, WAITS, None),
    "ack": (HELD, ack, REMOVED, "acked"),
    "poison": (HELD, poison, DEAD, "dead"),
    "nack": (HELD, nack, DEAD, "dead"),
    "lapse": (HELD, lapse, DEAD, "dead"),
    "discard": (HELD, discard, REMOVED, "discarded"),
    "cancel": (WAITS, cancel, REMOVED, "cancelled"),
    "cancel in work": (HELD, cancel, REMOVED, "cancelled"),
    "purge": (WAITS, purge("ready"), REMOVED, "purged"),
    "purge the dead": (DEAD, purge("dead"), REMOVED, "purged"),
    "purge the expired": (EXPIRED, purge("expired"), REMOVED, "purged"),
    "move": (WAITS, move("ready"), REMOVED, "moved"),
    "move the dead": (DEAD, move("dead"), REMOVED, "moved"),
    "expire": (WAITS, expire, EXPIRED, "expired"),
    "dead-letter": (WAITS, lay_out("ready"), DEAD, "dead"),
    "dead-letter the expired": (EXPIRED, lay_out("expired"), DEAD, "dead"),
    "retire": (DEAD, retire, REMOVED, "discarded"),
    "retire the expired": (EXPIRED, retire, REMOVED, "discarded"),
    "redrive": (DEAD, redrive("dead"), WAITS, None),
    "redrive the expired": (EXPIRED, redrive("expired"), WAITS, None),
}


@dataclass
class Worlds:
    """The worlds that are reached, one for each model: what is stored there."""

    bench: Bench
    known: dict[str, tuple[Model, dict[bytes, tuple[int, bytes]], int]] = field(default_factory=dict)
    tried: int = 0

    def put_back(self, stored: dict[bytes, tuple[int, bytes]], senders: int) -> None:
        pipeline = self.bench.raw.pipeline(transaction=False)
        pipeline.flushall()
        for key, (ttl, value) in stored.items():
            pipeline.restore(key, ttl, value)
        pipeline.execute()
        for queue in self.bench.queues.values():
            queue.senders = senders

    def see(self, model: Model, how: str) -> bool:
        """Compare a world with the model; whether it is new."""
        check(self.bench, model, how)
        self.tried += 1
        if model.name in self.known:
            return False
        senders = max(queue.senders for queue in self.bench.queues.values())
        self.known[model.name] = model, dumped(self.bench.raw), senders
        return True


def check(bench: Bench, model: Model, how: str) -> None:
    """Rows, ends and `then` are as the model says."""
    target = bench.queues["then"]
    number = target.run(calls.number_of(target.keys, f"#{G}"))
    assert number is not None, how
    there = {row.name: row.end for row in target.run(calls.rows(target.keys, f"#{G}", number))}
    expected: dict[str, str | None] = {}
    for child, name in model.queue.items():
        if name in model.carried:
            expected[f"{name} {child}"] = model.ends[child]
        else:
            expected[name] = None
    assert there == expected, f"{how}: the rows at `then`: {there}, not {expected}"
    for name in {*model.queue.values()}:
        queue, gather = bench.queues[name], f"{G}/then"
        share = queue.run(calls.number_of(queue.keys, gather))
        if name in model.carried:
            assert share is None, f"{how}: the share of {name} is still there"
            continue
        rows = {row.name: row.end for row in queue.run(calls.rows(queue.keys, gather, share or 0))}
        assert rows == {c: e for c, e in model.ends.items() if model.queue[c] == name}, f"{how}: {rows}"
        assert bool((share or 0) % 1) == model.closed, f"{how}: closed, or not"
        assert (queue.run(calls.ended(queue.keys)) == [gather]) == model.ended(name), f"{how}: to be carried"
    places = {
        place: [one.id for one in target.browse(cast("Any", place))] for place in ("ready", "scheduled")
    }
    assert places == {"ready": [G] * model.due, "scheduled": [G] * (not model.due)}, f"{how}: {places}"
    snapshot = Snapshot(bench.raw, [queue.keys for queue in bench.queues.values()])
    for queue in bench.queues.values():
        audit_queue(snapshot, queue.keys)


def explore(raw: Any, where: Mapping[str, str], every: int = 1) -> Worlds:
    """Try every act in every world; of those that lead to a known world one of so many (`every`)."""
    raw.flushall()
    names = ("then", "first", "second", "away")
    queues = {name: Driver(raw, POLICY, keys=QueueKeys("rq", name)) for name in names}
    bench = Bench(raw, Clock(raw), queues)
    target = queues["then"]
    target.run(calls.open_gather(target.sender(), within=HOUR, items=target.packed((G, 4))))
    for child, name in where.items():
        queue = queues[name]
        queue.run(queue.configure_call())
        call = calls.send_children(
            queue.sender(), target.keys, id=G, delay=0, ttl=0, items=queue.packed((child, 4))
        )
        queue.run(call)
        queue.run(call, repeated=True)
    model = Model(where, dict.fromkeys(where, WAITS), dict.fromkeys(where))
    worlds = Worlds(bench)
    worlds.see(model, "at first")
    left = [model]
    while left:
        model = left.pop()
        for how, act, then in steps(bench, model):
            if then.name in worlds.known and random.randrange(every):
                continue
            twice = bool(
                crc32(f"{how} {model.name}".encode()) % 2
            )  # about half of all, and each act in some world
            _, stored, senders = worlds.known[model.name]
            worlds.put_back(stored, senders)
            act(twice)
            if worlds.see(then, f"{how}{' twice' * twice} after {model}"):
                left.append(then)
    return worlds


def steps(bench: Bench, model: Model) -> list[tuple[str, Callable[[bool], None], Model]]:
    """What can happen, and what the model says of it."""
    found: list[tuple[str, Callable[[bool], None], Model]] = []
    for child, name in model.queue.items():
        queue = bench.queues[name]
        for how, (place, act, then, end) in ACTS.items():
            if model.place[child] == place:

                def do(twice: bool, act: Act = act, queue: Driver = queue, child: str = child) -> None:
                    act(bench, queue, child, twice)

                found.append((f"{how} {child}", do, model.after(child, then, end)))
    target = bench.queues["then"].keys
    queues = [bench.queues[name].keys for name in sorted({*model.queue.values()})]
    if not model.closed:
        call = calls.close_gather(target, queues, id=G)
        closed = replace(model, closed=True)
        found.append(("close", lambda twice: bench.run(call, twice), closed))
    for keys in queues:
        carry = calls.carry_gather(keys, target, f"{G}/then", limit=1, seed=0.5)

        def go(twice: bool, carry: Call[Any] = carry) -> None:
            while bench.queues["then"].run(carry):
                bench.run(carry, twice)

        found.append((f"carry {keys.family}", go, model.carry(keys.family)))
    return found


WORLDS = {"first": 563, "second": 1_105}
"""By the queue of the second child."""
pytestmark = pytest.mark.form("functions")  # as in test_stops.py
REAL = pytest.mark.parametrize("backend", ["real"], indirect=True)
QUEUE = pytest.mark.parametrize("second", ["first", "second"])


@REAL
@QUEUE
def test_two_children_end_in_every_way_and_order(raw: Any, second: str) -> None:
    worlds = explore(raw, {ONE: "first", TWO: second}, EVERY)
    assert len(worlds.known) == WORLDS[second]
    assert any(model.due for model, *_ in worlds.known.values())


@pytest.mark.slow
@REAL
@QUEUE
def test_every_act_in_every_world(raw: Any, second: str) -> None:
    worlds = explore(raw, {ONE: "first", TWO: second})
    assert len(worlds.known) == WORLDS[second]
    assert worlds.tried > 6 * len(worlds.known)
