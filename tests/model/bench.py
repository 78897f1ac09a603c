"""A queue, its clock, and a few verbs by the names of the ids and tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.errors import BrokerRefused
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.settlement import Settlement
from tests.conftest import Clock
from tests.model.driver import CAUSE, CODEC, Driver
from tests.model.stops import stopping


class Bench:
    """A queue, its clock, and the few verbs that the traces need."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.clock = Clock(raw)
        self._stopped = False  # whether `stopped_at` stopped the last call
        self.queue = Driver(
            raw, RedeliveryPolicy(initial_delay=1, collision_avoidance=0, max_redeliveries=None)
        )
        self.keys = self.queue.keys

    def send(self, *items: tuple[str, int], **options: Any) -> None:
        self.queue.run(self.queue.send_call(*items, **options))

    def send_alike(
        self, *names: str, key: str | None = None, dependency: str | None = None, delay: int = 0
    ) -> None:
        """Messages of these ids, with one key and one dependency."""
        pack = CODEC.packer(4, {}, key=key, dependency=dependency)
        items: list[Any] = [cell for name in names for cell in (name, pack(b"x"))]
        self.queue.run(sending_calls.send(self.queue.sender(), delay=delay, ttl=0, items=items))

    def configure(self, **settings: str) -> None:
        assert self.queue.run(self.queue.configure_call(settings))

    def claim(self, token: str, count: int = 1, **options: Any) -> list[str]:
        return [row.id for row in self.queue.run(self.queue.claim_call(token, count, **options)).rows]

    def settle(self, call: Call[list[Settlement]]) -> None:
        assert self.queue.settle(call)

    def nack(
        self,
        token: str,
        message_id: str,
        delay: int | None = None,
        *,
        charge: bool = True,
        counts: bool = False,
        pauses: bool = False,
    ) -> None:
        call = settling_calls.nack(
            self.keys, [(message_id, token)], delay=delay, charge=charge, cause=CAUSE, consumer='"c"',
            seed=0.5, default_policy=self.queue.wire, counts=counts, pauses=pauses,
        )  # fmt: skip
        self.settle(call)

    def reply_to(self, call: Call[Any]) -> Any:
        """What the script replies."""
        return self.queue.run(replace(call, reader=lambda reply: reply))

    def sweep(self, limit: int) -> int:
        call = upkeep_calls.sweep(self.keys, limit=limit, seed=0.5, default_policy=self.queue.wire)
        return self.queue.run(call)

    def step(self, span: int) -> None:
        self.clock.set(self.clock.now + span)

    def stopped_at(self, call: Call[Any], n: int) -> bool:
        """Run a call that stops at its n-th Redis call; whether it has one."""
        with suppress(BrokerRefused):
            Driver(self.raw, verbs=stopping(self.raw, n)).run(call)  # type: ignore[arg-type]
        self._stopped = bool(self.raw.delete("stopped"))
        return self._stopped

    def each_point(self) -> Iterator[int]:
        """Points to stop a call at, each in an empty queue, and at last the first at which none stopped."""
        for n in itertools.count(1):
            yield n
            self.raw.flushall()
            self.step(0)
            if not self._stopped:
                return
