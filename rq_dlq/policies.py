"""The map of policies in Redis: what holds for which queues, changed at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from rq_dlq import _work
from rq_dlq._keys import QueueKeys
from rq_dlq.durations import shown
from rq_dlq.errors import PolicyError
from rq_dlq.policy import Entry, RedeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.broker import Broker
    from rq_dlq.policy import DeadLetterStrategy, ExpiryPolicy, PolicyMap, QueueSettings


class Policies:
    """`broker.policies`: entries for patterns of queues, merged field by field, the most specific first.

    A pattern's words are split by dots: `*` is one word, `#` (or `>`) at the end any number. What a program
    declares in code (`broker.queue(…, redelivery=…)`) counts more than an entry, a pinned one more than that.
    A change takes effect at once, also for messages that are queued.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def set(
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
        """Set the entry of a pattern, in place of the one that stood there.

        Args:
            redelivery: a policy says all its fields, a mapping just those that it has.
            dead_letter: a strategy or a mapping; None: dead letters are discarded, and counted.
            expiry: a policy or a mapping.
            max_in_flight: deliveries at a time, of all consumers together; None: no limit.
            outcomes: how many events the queue's outcome history keeps, about; None or 0: it is not written.
            pinned: it beats what programs declare.

        Returns:
            How many queues it matches now.

        Raises:
            PolicyError: it makes no sense, or contradicts itself; nothing was changed.
        """
        check_fatal(redelivery)
        entry = Entry.of(
            redelivery=redelivery,
            dead_letter=dead_letter,
            expiry=expiry,
            max_in_flight=max_in_flight,
            outcomes=outcomes,
            pinned=pinned,
        )
        return self.put(pattern, entry)

    def put(self, pattern: str, entry: Entry) -> int:
        """Set the entry of a pattern, ready made; otherwise as `set`."""
        check_entry(entry)
        settings = self._broker.settings
        return self._broker.run_steps(_work.set_policy(settings.namespace, settings.naming, pattern, entry))

    def remove(self, pattern: str) -> int:
        """Remove the entry of a pattern; how many queues it matched."""
        settings = self._broker.settings
        return self._broker.run_steps(_work.set_policy(settings.namespace, settings.naming, pattern, None))

    def undeclare(self, queue: str) -> bool:
        """Withdraw what programs declared for a queue in code; whether there was anything.

        From then on the entries hold alone, also the ones that are not pinned. A program that still declares
        something does so again when it starts next.
        """
        settings = self._broker.settings
        keys = QueueKeys(settings.namespace, settings.naming.resolve(queue).home)
        return self._broker.run_steps(_work.undeclare(keys, settings.naming))

    def read(self) -> PolicyMap:
        """All entries, as a value."""
        settings = self._broker.settings
        return self._broker.run_steps(_work.read_policies(settings.namespace, settings.naming))

    def explain(self, queue: str) -> QueueSettings:
        """What holds for a queue, used or not, and which entry each field comes from."""
        settings = self._broker.settings
        keys = QueueKeys(settings.namespace, settings.naming.resolve(queue).home)
        return self._broker.run_steps(_work.explain_policy(keys, settings.naming))


def check_entry(entry: object) -> None:
    """Refuse what is no entry; None would remove the one that stands."""
    if not isinstance(entry, Entry):
        message = f"an entry is made by Entry.of(…), or pass its parts to set(); this is {shown(entry)}"
        raise PolicyError(message)


def check_fatal(redelivery: object) -> None:
    """Refuse a policy for the map that names errors: classes stay in the program that knows them."""
    if isinstance(redelivery, RedeliveryPolicy) and redelivery.fatal:
        message = "fatal: classes do not go to Redis. Say them in code, broker.queue(…, redelivery=…)"
        raise PolicyError(message)
