"""A queue, its clock, and a few verbs by the names of the ids and tokens."""

from __future__ import annotations

from typing import Any

from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from tests.conftest import Clock
from tests.model.driver import CAUSE, Driver


class Bench:
    """A queue, its clock, and the few verbs that the traces need."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.clock = Clock(raw)
        self.queue = Driver(
            raw, RedeliveryPolicy(initial_delay=1, collision_avoidance=0, max_redeliveries=None)
        )
        self.keys = self.queue.keys

    def send(self, *items: tuple[str, int], **options: Any) -> None:
        self.queue.run(self.queue.send_call(*items, **options))

    def claim(self, token: str, count: int = 1, **options: Any) -> list[str]:
        return [row.id for row in self.queue.run(self.queue.claim_call(token, count, **options)).rows]

    def nack(self, token: str, message_id: str, delay: int | None = None, *, counts: bool = False) -> None:
        call = settling_calls.nack(
            self.keys, [(message_id, token)], delay=delay, charge=True, cause=CAUSE, consumer='"c"', seed=0.5,
            default_policy=self.queue.wire, counts=counts,
        )  # fmt: skip
        assert self.queue.settle(call)

    def sweep(self, limit: int) -> int:
        call = upkeep_calls.sweep(self.keys, limit=limit, seed=0.5, default_policy=self.queue.wire)
        return self.queue.run(call)

    def step(self, span: int) -> None:
        self.clock.set(self.clock.now + span)
