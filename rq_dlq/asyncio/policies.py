"""The map of policies in Redis, which can be changed at run time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rq_dlq._keys import QueueKeys
from rq_dlq.client.arguments import check_entry
from rq_dlq.core.policies import policies
from rq_dlq.core.queues.who import act_by
from rq_dlq.errors import PolicyError
from rq_dlq.policy import Entry, Pattern, RedeliveryPolicy

if TYPE_CHECKING:
    from typing import Unpack

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.policy import EntryFields, PolicyMap, QueueSettings

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of queues done, and the number of all."""


class Policies:
    """`broker.policies`: entries for patterns of queue names.

    Dots separate the words of a pattern: `*` matches one word, `#` (or `>`) at the end any number. For each
    field of a queue's settings the most specific entry that sets it wins. Settings declared in code
    (`broker.queue(…, redelivery=…)`) override entries, and pinned entries override both. A change takes
    effect immediately, including for messages already in the queue.

    Examples:
        >>> await broker.policies.set("mail.#", redelivery={"max_redeliveries": 3})
        0
        >>> settings = await broker.policies.explain("mail.eu")
        >>> settings.redelivery.max_redeliveries
        3
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def set(
        self,
        pattern: str,
        *,
        pinned: bool | None = None,
        progress: Progress | None = None,
        by: str | None = None,
        **fields: Unpack[EntryFields],
    ) -> int:
        """Set fields of the entry of a pattern; its other fields stay. `put` replaces the whole entry.

        None turns a field off: the queues then have none, even if a wider pattern sets one. If two clients
        set fields of one entry at the same time, both count.

        With many queues this takes some seconds. If it is interrupted, only some of the queues have it, and a
        note on the error says how many. It is safe to repeat the call.

        Args:
            pattern: a pattern of queue names.
            pinned: the entry overrides settings declared in code; None: as before, for a new entry False.
            progress: called periodically with the number of queues that have the entry, and the number that
                it matches.
            by: the operator's name, for the audit; None: the user and host of this process.
            fields: `redelivery`, `dead_letter`, `expiry` and limits; see `rq_dlq.policy.EntryFields`. A
                policy or strategy replaces its whole part, a mapping only the fields it contains.

        Returns:
            How many queues the pattern matches now.

        Raises:
            PolicyError: an argument is not valid, or contradicts another one or a field that stays; nothing
                was changed.

        Examples:
            >>> await broker.policies.set("orders.#", redelivery={"max_redeliveries": 3}, rate="100/s")
            1
            >>> await broker.policies.set("orders.#", rate=None)  # the limit on redeliveries stays
            1
        """
        redelivery = fields.get("redelivery")
        if isinstance(redelivery, RedeliveryPolicy) and redelivery.fatal:
            message = "fatal: Redis cannot store classes. Set them in code, broker.queue(…, redelivery=…)"
            raise PolicyError(message)
        return await self._put(pattern, partial(Entry.over, pinned=pinned, **fields), progress, by)

    async def put(
        self, pattern: str, entry: Entry, *, progress: Progress | None = None, by: str | None = None
    ) -> int:
        """Replace the entry of a pattern by an `Entry`: fields that it does not have are inherited.

        Args:
            pattern: a pattern of queue names.
            entry: from `Entry.of` or a file of policies.
            progress, by: as for `set`.

        Returns:
            How many queues the pattern matches now.

        Raises:
            PolicyError: it is not an entry, or it contradicts itself; nothing was changed.

        Examples:
            >>> from rq_dlq.policy import Entry
            >>> await broker.policies.put("mails", Entry.of(redelivery={"max_redeliveries": 3}))
            1
        """
        check_entry(entry)
        return await self._put(pattern, entry, progress, by)

    async def remove(self, pattern: str, *, progress: Progress | None = None, by: str | None = None) -> int:
        """Remove the entry of a pattern. If this is interrupted, repeat it, as for `set`.

        Args:
            pattern: the pattern, as it was set.
            progress, by: as for `set`.

        Returns:
            How many queues the pattern matched.

        Raises:
            PolicyError: this is not a valid pattern.

        Examples:
            >>> matched = await broker.policies.set("mails", rate="100/s")
            >>> await broker.policies.remove("mails")
            1
        """
        return await self._put(pattern, None, progress, by)

    async def undeclare(self, queue: str, *, by: str | None = None) -> bool:
        """Withdraw the settings that programs declared for a queue in code.

        After that only the entries apply. A program that declares settings declares them again at its next
        start.

        Args:
            queue: the queue's name.
            by: as for `set`.

        Returns:
            Whether the queue had declared settings.

        Raises:
            InvalidName: this is not a valid queue name.

        Examples:
            >>> await broker.queue("orders", rate="100/s").open()
            >>> await broker.policies.undeclare("orders")
            True
        """
        naming = self._broker.settings.naming
        return await self._broker._run(policies.undeclare(self._keys_of(queue), naming, by))

    async def read(self) -> PolicyMap:
        """Read all entries.

        Returns:
            The map of entries.

        Examples:
            >>> matched = await broker.policies.set("mail.#", rate="100/s")
            >>> policies = await broker.policies.read()
            >>> [*policies.entries]
            ['mail.#']
        """
        settings = self._broker.settings
        return await self._broker._run(policies.read_policies(settings.namespace, settings.naming))

    async def explain(self, queue: str) -> QueueSettings:
        """The settings in force for a queue, and the source of each field.

        Args:
            queue: the queue's name; the queue need not exist yet.

        Returns:
            The settings, with their sources.

        Raises:
            InvalidName: this is not a valid queue name.

        Examples:
            >>> matched = await broker.policies.set("mail.#", rate="100/s")
            >>> settings = await broker.policies.explain("mail.eu")
            >>> [(one.field, one.value, one.source) for one in settings.sources if one.source != "default"]
            [('rate', '100/s', 'mail.#')]
        """
        naming = self._broker.settings.naming
        return await self._broker._run(policies.explain_policy(self._keys_of(queue), naming))

    async def _put(
        self,
        pattern: str,
        entry: Entry | Callable[[Entry | None], Entry] | None,
        progress: Progress | None,
        by: str | None,
    ) -> int:
        settings, did = self._broker.settings, "removed a policy" if entry is None else "set a policy"
        chosen = f"policy {Pattern.parse(pattern).text}"
        act = partial(act_by, did=did, by=by, chosen=chosen)
        steps = policies.set_policy(
            settings.namespace, settings.naming, pattern, entry, progress=progress, act=act
        )
        return await self._broker._run(steps)

    def _keys_of(self, queue: str) -> QueueKeys:
        settings = self._broker.settings
        return QueueKeys(settings.namespace, settings.naming.resolve(queue).family)
