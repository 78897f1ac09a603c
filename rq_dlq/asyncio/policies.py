"""The map of policies in Redis, awaiting. Arguments, results and errors are those of `rq_dlq.policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from rq_dlq import _work
from rq_dlq._keys import QueueKeys
from rq_dlq.policies import check_entry, check_fatal
from rq_dlq.policy import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.policy import DeadLetterStrategy, ExpiryPolicy, PolicyMap, QueueSettings, RedeliveryPolicy


class Policies:
    """`broker.policies`: entries for patterns of queues, merged field by field, the most specific first."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def set(
        self,
        pattern: str,
        *,
        redelivery: RedeliveryPolicy | Mapping[str, object] | UnsetType = UNSET,
        dead_letter: DeadLetterStrategy | Mapping[str, object] | UnsetType | None = UNSET,
        expiry: ExpiryPolicy | Mapping[str, object] | UnsetType = UNSET,
        max_in_flight: int | UnsetType | None = UNSET,
        outcomes: int | UnsetType | None = UNSET,
        pinned: bool = False,
    ) -> int:
        """Set the entry of a pattern, in place of the one that stood; how many queues it matches now."""
        check_fatal(redelivery)
        entry = Entry.of(
            redelivery=redelivery,
            dead_letter=dead_letter,
            expiry=expiry,
            max_in_flight=max_in_flight,
            outcomes=outcomes,
            pinned=pinned,
        )
        return await self.put(pattern, entry)

    async def put(self, pattern: str, entry: Entry) -> int:
        """Set the entry of a pattern, ready made; otherwise as `set`."""
        check_entry(entry)
        settings = self._broker.settings
        return await self._broker.run_steps(
            _work.set_policy(settings.namespace, settings.naming, pattern, entry)
        )

    async def remove(self, pattern: str) -> int:
        """Remove the entry of a pattern; how many queues it matched."""
        settings = self._broker.settings
        return await self._broker.run_steps(
            _work.set_policy(settings.namespace, settings.naming, pattern, None)
        )

    async def undeclare(self, queue: str) -> bool:
        """Withdraw what programs declared for a queue in code; whether there was anything."""
        settings = self._broker.settings
        keys = QueueKeys(settings.namespace, settings.naming.resolve(queue).home)
        return await self._broker.run_steps(_work.undeclare(keys, settings.naming))

    async def read(self) -> PolicyMap:
        """All entries, as a value."""
        settings = self._broker.settings
        return await self._broker.run_steps(_work.read_policies(settings.namespace, settings.naming))

    async def explain(self, queue: str) -> QueueSettings:
        """What holds for a queue, used or not, and which entry each field comes from."""
        settings = self._broker.settings
        keys = QueueKeys(settings.namespace, settings.naming.resolve(queue).home)
        return await self._broker.run_steps(_work.explain_policy(keys, settings.naming))
