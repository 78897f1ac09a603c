"""A queue with a message in every state, and another queue beside it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rq_dlq._keys import QueueKeys
from rq_dlq._scripts import Joined
from rq_dlq.core.gathers import calls as gather_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.queues import queue as queues_queue
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call, Part
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.settlement import Settlement
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.driver import CAUSE, Driver

PARTS: tuple[Part, ...] = ("live", "dead", "expired")


class World:
    """A queue with a message in every state, and one that knows r2, too.

    T holds l1 (which failed before), l2 (which need not outlive its failure) and l3 (with a ttl).

    Args:
        beginning: how such a world was at first, on a server of the same kind: it is put back here.
    """

    key_of: ClassVar[Mapping[str, str]] = {}  # of its messages, by their ids
    lost_keys = False  # a step deleted keys of the queue: maintenance puts back what they led to

    def __init__(self, raw: Any, verbs: Joined = MOVED_CLOCK, beginning: Beginning | None = None) -> None:
        raw.flushall()
        self.clock = Clock(raw)
        self.raw = raw
        policy = RedeliveryPolicy(initial_delay=1, max_delay=2)
        self.queue = queue = Driver(raw, policy, verbs, key_of=self.key_of)
        self.keys = queue.keys
        self.other = Driver(raw, queue.policy, verbs, QueueKeys("rq", "to"))
        self.tokens = itertools.count()
        self.all = {"d1", "x1", "gone", "l1", "l2", "l3", "r1", "r2", "e1", "s1", "s2", "to/r2"}
        if beginning is None:
            self._begin()
        else:
            beginning.put_back(self)

    def _begin(self) -> None:
        queue = self.queue
        self.lease("D", "d1", "x1")
        self.poison("D", "d1", "x1")
        queue.run(queue.send_call(("gone", 4), ttl=500))
        self.pass_time(1)
        self.maintain()
        self.lease("L", "l1")
        queue.run(self.nack("L", "l1", delay=0))
        queue.run(queue.send_call(("l2", 4), persistent=False))
        queue.run(queue.send_call(("l3", 4), ttl=100_000))
        queue.run(queue.claim_call("T", 3))
        queue.run(queue.send_call(("r1", 4), ("r2", 8)))
        queue.run(queue.send_call(("e1", 4), ttl=100_000))
        queue.run(queue.send_call(("s1", 4), ("s2", 0), delay=1_000))
        self.other.run(self.other.send_call(("r2", 4)))

    def lease(self, token: str, *ids: str) -> None:
        self.queue.run(self.queue.send_call(*[(message_id, 9) for message_id in ids]))
        self.queue.run(self.queue.claim_call(token, len(ids)))

    def poison(self, token: str, *ids: str) -> None:
        self.queue.run(self.poisoned(token, *ids))

    def poisoned(self, token: str, *ids: str) -> Call[list[Settlement]]:
        return self.queue.poison_call([(message_id, token) for message_id in ids])

    def nack(
        self, token: str, *ids: str, delay: int | None = None, policy: RedeliveryPolicy | None = None
    ) -> Call[list[Settlement]]:
        wire = queues_queue.encode_policy((policy or self.queue.policy).as_wire())
        return settling_calls.nack(
            self.keys, [(message_id, token) for message_id in ids], delay=delay, charge=True, cause=CAUSE,
            consumer='"c"', seed=0.25, default_policy=wire,
        )  # fmt: skip

    def sweep(self, limit: int = 200, policy: RedeliveryPolicy | None = None) -> Call[int]:
        wire = queues_queue.encode_policy((policy or self.queue.policy).as_wire())
        return upkeep_calls.sweep(self.keys, limit=limit, seed=0.25, default_policy=wire)

    def configure(self, **settings: str) -> None:
        assert self.queue.run(self.queue.configure_call(settings))

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def maintain(self, queue: Driver | None = None) -> None:
        queue = queue or self.queue
        found = 1
        while found:
            sweep = upkeep_calls.sweep(queue.keys, limit=200, seed=0.25, default_policy=queue.wire)
            promote = upkeep_calls.promote(queue.keys, limit=200)
            expire = upkeep_calls.expire(queue.keys, limit=200)
            found = sum(queue.run_all(sweep, promote, expire)) + self.roll_forward(queue)
            found += self.carry(queue)

    def roll_forward(self, queue: Driver) -> int:
        """Move what a job has committed."""
        moved = 0
        for member in self.raw.zrange(queue.keys["committed"], 0, -1):
            job, attempt = member.decode().split("\n")
            call = job_calls.move_staged(queue.keys, job, attempt, limit=200, early=False)
            moved += queue.run(call).messages
        return moved

    def carry(self, queue: Driver) -> int:
        """Look at the shares of gathers for which it is time; how many."""
        looked = 0
        for gather in queue.run(gather_calls.due(queue.keys)):
            target = (self.queue, self.other)[gather.endswith("/to")].keys
            more: bool | None = True
            while more:
                more = queue.run(gather_calls.carry_gather(queue.keys, target, gather, limit=2, seed=0.5))
            looked += more is not None
        return looked

    def drain(self) -> Counter[str]:
        """Let every lease lapse, then take and ack everything: how often each message came.

        Those of the other queue as "to/…". What the settings drop is theirs, so they are lifted.
        """
        self.raw.delete(self.keys["settings"])
        while self.lost_keys and self.queue.run(upkeep_calls.reindex(self.keys, limit=200)):
            pass
        seen: Counter[str] = Counter()
        for _ in range(3):
            self.pass_time(3_600)
            seen.update(self.take_all(self.queue))
            if not self.raw.exists(self.keys["messages"]):
                break
        seen.update(f"to/{message_id}" for message_id in self.take_all(self.other))
        return seen

    def take_all(self, queue: Driver) -> list[str]:
        """What a queue hands out now, acked."""
        self.maintain(queue)
        seen: list[str] = []
        while True:
            tokens = {part: f"drain{next(self.tokens)}" for part in PARTS}
            claims = [queue.claim_call(token, 20, part=part) for part, token in tokens.items()]
            claimed = [[row.id for row in reply.rows] for reply in queue.run_all(*claims)]
            if not any(claimed):
                self.carry(queue)
                return seen
            seen += itertools.chain(*claimed)
            acks = [
                settling_calls.ack(queue.keys, [(i, token) for i in dict.fromkeys(ids)])
                for token, ids in zip(tokens.values(), claimed, strict=True)
                if ids
            ]
            queue.run_all(*acks)

    def left(self) -> set[str]:
        """The keys that are left and do not go by themselves."""
        names = {key: name for keys in (self.keys, self.other.keys) for name, key in keys.by_name.items()}
        present, pipeline = [key.decode() for key in self.raw.keys("*")], self.raw.pipeline(transaction=False)
        for key in present:
            pipeline.ttl(key)
        stays = [key for key, ttl in zip(present, pipeline.execute(), strict=True) if ttl == -1]
        return {names[key] for key in stays if key in names}


@dataclass(frozen=True)
class Beginning:
    """A world as it is at first, to be put back: to make it again takes longer.

    Attributes:
        now: the time, milliseconds.
        senders: how many senders both queues had.
        keys: what is stored, as DUMP gives it, and how long it is kept, milliseconds.
    """

    now: int
    senders: tuple[int, int]
    keys: dict[bytes, tuple[int, bytes]]

    @classmethod
    def of(cls, world: World) -> Self:
        """Of a world to which nothing was done yet."""
        return cls(world.clock.now, (world.queue.senders, world.other.senders), dumped(world.raw))

    def put_back(self, world: World) -> None:
        """Make this world what that one was."""
        pipeline = world.raw.pipeline(transaction=False)
        pipeline.flushall()
        for key, (ttl, value) in self.keys.items():
            pipeline.restore(key, ttl, value)
        pipeline.execute()
        world.clock.now = self.now
        world.queue.senders, world.other.senders = self.senders


def dumped(raw: Any) -> dict[bytes, tuple[int, bytes]]:
    """All keys: how long each is kept, milliseconds, 0: for ever; and its value, as DUMP gives it."""
    keys, pipeline = sorted(raw.keys()), raw.pipeline(transaction=False)
    for key in keys:
        pipeline.pttl(key).dump(key)
    found = pipeline.execute()
    return {key: (max(ttl, 0), value) for key, ttl, value in zip(keys, found[::2], found[1::2], strict=True)}
