"""A queue with a message in every state, and every step that a script can take on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from rq_dlq import _calls
from rq_dlq._calls import Call
from rq_dlq.failure import Cause
from rq_dlq.message import Settlement
from rq_dlq.policy import RedeliveryPolicy
from tests.conftest import Clock
from tests.model.driver import Driver

CAUSE = Cause("Error", "no", "f00", "the traceback")


class World:
    """A queue with a message in every state; T holds l1 (which failed before), l2 and l3 (with a ttl)."""

    def __init__(self, raw: Any) -> None:
        raw.flushall()
        self.clock = Clock(raw)
        self.raw = raw
        self.queue = queue = Driver(raw, RedeliveryPolicy(initial_delay=1, max_delay=2))
        self.keys = queue.keys
        self.tokens = count()
        self.lease("D", "d1", "x1")
        self.poison("D", "d1", "x1")
        queue.run(queue.send_call(("gone", 4), ttl=500))
        self.pass_time(1)
        self.maintain()
        self.lease("L", "l1")
        queue.run(self.nack("L", "l1", delay=0))
        queue.run(queue.send_call(("l2", 4)))
        queue.run(queue.send_call(("l3", 4), ttl=100_000))
        queue.run(queue.claim_call("T", 3))
        queue.run(queue.send_call(("r1", 4), ("r2", 8)))
        queue.run(queue.send_call(("e1", 4), ttl=100_000))
        queue.run(queue.send_call(("s1", 4), ("s2", 0), delay=1_000))
        self.all = {"d1", "x1", "gone", "l1", "l2", "l3", "r1", "r2", "e1", "s1", "s2"}

    def lease(self, token: str, *ids: str) -> None:
        self.queue.run(self.queue.send_call(*[(message_id, 9) for message_id in ids]))
        self.queue.run(self.queue.claim_call(token, len(ids)))

    def poison(self, token: str, *ids: str) -> None:
        self.queue.run(self.poisoned(token, *ids))

    def poisoned(self, token: str, *ids: str) -> Call[list[Settlement]]:
        held = [(message_id, token) for message_id in ids]
        return _calls.poison(self.keys, held, reason="poison", cause=CAUSE, consumer='"c"')

    def nack(
        self, token: str, *ids: str, delay: int | None = None, policy: RedeliveryPolicy | None = None
    ) -> Call[list[Settlement]]:
        wire = _calls.encode_policy((policy or self.queue.policy).as_wire())
        return _calls.nack(
            self.keys, [(message_id, token) for message_id in ids], delay=delay, charge=True, cause=CAUSE,
            consumer='"c"', seed=0.25, default_policy=wire,
        )  # fmt: skip

    def sweep(self, limit: int = 200) -> Call[int]:
        return _calls.sweep(self.keys, limit=limit, seed=0.25, default_policy=self.queue.wire)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def maintain(self) -> None:
        run = self.queue.run
        found = 1
        while found:
            found = run(self.sweep()) + run(_calls.promote(self.keys, limit=200))
            found += run(_calls.expire(self.keys, limit=200))

    def drain(self) -> Counter[str]:
        """Let every lease lapse, then take and ack everything: how often each message came."""
        seen: Counter[str] = Counter()
        for _ in range(4):
            self.pass_time(3_600)
            self.maintain()
            for part in ("live", "dead", "expired"):
                while True:
                    token = f"drain{next(self.tokens)}"
                    claimed = self.queue.run(self.queue.claim_call(token, 4, part=part))
                    if not claimed.rows:
                        break
                    ids = [row.id for row in claimed.rows]
                    seen.update(ids)
                    self.queue.run(_calls.ack(self.keys, [(i, token) for i in dict.fromkeys(ids)]))
        return seen

    def left(self) -> set[str]:
        """The keys that are left and do not go by themselves."""
        keys = self.keys.by_name
        return {name for name, key in keys.items() if self.raw.exists(key) and self.raw.ttl(key) < 0}


Step = Callable[[World], Call[Any]]
T = ("l1", "l2", "l3")


def held(token: str, *ids: str) -> list[tuple[str, str]]:
    return [(message_id, token) for message_id in ids]


def later(seconds: float, call: Step) -> Step:
    """The call when time has passed."""

    def step(world: World) -> Call[Any]:
        world.pass_time(seconds)
        return call(world)

    return step


def of_the_dead(call: Step) -> Step:
    """The call while D2 holds the dead letters."""

    def step(world: World) -> Call[Any]:
        world.queue.run(world.queue.claim_call("D2", 2, part="dead"))
        return call(world)

    return step


def claim_nothing(world: World) -> Call[Any]:
    """A claim that waits for what is scheduled."""
    world.queue.run(world.queue.claim_call("B", 9))
    return world.queue.claim_call("C", 9, patience=1_000)


def purge(place: Any, *ids: str) -> Step:
    return lambda world: _calls.purge(world.keys, place=place, ids=ids, limit=100)


def redrive(part: Any, *ids: str) -> Step:
    return lambda world: _calls.redrive(world.keys, part=part, by='"op"', ids=ids, limit=100)


NEW = [("n1", 4), ("n2", 9), ("r1", 4)]  # the queue knows r1
NONE: set[str] = set()

# name: the call, and the messages that may be gone (or come) where it was cut off
STEPS: dict[str, tuple[Step, set[str]]] = {
    "send": (lambda w: w.queue.send_call(*NEW), {"n1", "n2"}),
    "send delayed": (lambda w: w.queue.send_call(*NEW, delay=1_000), {"n1", "n2"}),
    "send with ttl": (lambda w: w.queue.send_call(*NEW, ttl=10_000), {"n1", "n2"}),
    "send all": (lambda w: w.queue.send_call(*NEW, delay=1_000, ttl=10_000), {"n1", "n2"}),
    "claim": (lambda w: w.queue.claim_call("C", 3), NONE),
    "claim, waiting": (lambda w: w.queue.claim_call("C", 9, patience=1_000), NONE),
    "claim nothing, waiting": (claim_nothing, NONE),
    "claim with all maintenance": (later(200, lambda w: w.queue.claim_call("C", 3)), NONE),
    "claim again": (lambda w: w.queue.claim_call("T", 3), NONE),
    "claim the dead": (lambda w: w.queue.claim_call("C", 3, part="dead"), NONE),
    "claim the dead, late": (later(200, lambda w: w.queue.claim_call("C", 3, part="dead")), NONE),
    "claim the expired": (lambda w: w.queue.claim_call("C", 3, part="expired"), NONE),
    "ack": (lambda w: _calls.ack(w.keys, held("T", *T)), set(T)),
    "ack some": (lambda w: _calls.ack(w.keys, held("T", "l1", "l3")), set(T)),
    "ack the dead": (of_the_dead(lambda w: _calls.ack(w.keys, held("D2", "d1"))), {"d1"}),
    "nack": (lambda w: w.nack("T", *T), NONE),
    "nack without delay": (lambda w: w.nack("T", *T, delay=0), NONE),
    "nack past the ttl": (lambda w: w.nack("T", *T, delay=200_000), NONE),
    "nack to death": (lambda w: w.nack("T", *T, policy=RedeliveryPolicy(max_redeliveries=0)), NONE),
    "nack the dead": (of_the_dead(lambda w: w.nack("D2", "d1", "x1")), NONE),
    "poison": (lambda w: w.poisoned("T", *T), NONE),
    "poison the dead": (of_the_dead(lambda w: w.poisoned("D2", "d1")), NONE),
    "release": (lambda w: _calls.release(w.keys, held("T", *T)), NONE),
    "release the dead": (of_the_dead(lambda w: _calls.release(w.keys, held("D2", "d1"))), NONE),
    "extend": (lambda w: _calls.extend(w.keys, held("T", *T), lease=60_000), NONE),
    "sweep": (later(40, lambda w: w.sweep()), NONE),
    "sweep in parts": (later(40, lambda w: w.sweep(2)), NONE),
    "sweep the dead": (of_the_dead(later(40, lambda w: w.sweep())), NONE),
    "promote": (later(40, lambda w: _calls.promote(w.keys, limit=10)), NONE),
    "expire": (later(200, lambda w: _calls.expire(w.keys, limit=10)), NONE),
    "redrive": (redrive("dead"), NONE),
    "redrive by id": (redrive("dead", "x1", "r1"), NONE),
    "redrive the expired": (redrive("expired"), NONE),
    "purge ready": (purge("ready"), {"r1", "r2", "e1"}),
    "purge scheduled": (purge("scheduled"), {"s1", "s2"}),
    "purge dead": (purge("dead"), {"d1", "x1"}),
    "purge by id": (purge("dead", "x1"), {"x1"}),
    "purge expired": (purge("expired"), {"gone"}),
    "browse": (lambda w: _calls.browse(w.keys, place="ready", limit=10), NONE),
    "stats": (lambda w: _calls.stats(w.keys, "q"), NONE),
    "declare": (lambda w: _calls.declare(w.keys, w.queue.wire), NONE),
}  # fmt: skip
