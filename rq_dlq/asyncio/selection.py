"""Messages chosen by a condition, and the operators' verbs for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rq_dlq.asyncio.plan import Plan, plan_of
from rq_dlq.client.arguments import work_of
from rq_dlq.core.changing import changing, plans
from rq_dlq.core.choosing import counting, reading
from rq_dlq.core.choosing.counting import groups
from rq_dlq.core.groups.index import NEW_WITHIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.changed import CarriedOut, Changed
    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.message import Received

T = TypeVar("T")


def target_of(to: Queue[Any] | str, broker: Broker) -> QueueState[Any]:
    """The target queue of messages, from a queue or its name.

    Raises:
        InvalidInput: it is not a queue of this broker.
    """
    return work_of(broker.queue(to) if isinstance(to, str) else to, broker)


class Selection(Generic[T]):
    """`queue.select(…)`: the chosen messages, and the verbs for them.

    A verb that changes messages works in chunks, can be interrupted and repeated, and returns how many
    messages it changed. Leased messages can be read and counted, but not changed: `leased` of the result
    says how many of the chosen messages those are (`Changed`). It raises `InvalidInput` if the selection
    has no condition, places, limit or `all=True`. The audit records the change and `by`, the operator's
    name; None: the user and host of this process.

    With `dry_run=True` a verb changes nothing, and returns a `Plan`, which is shown first and carried out
    later.

    Messages are read page by page, and only until the limit is reached. A message that does not move during
    the call is seen exactly once, whatever happens to the others.

    Examples:
        >>> await orders.select("body.total > 5").count()
        1
        >>> await orders.select(limit=10).prioritize(9)
        1
    """

    def __init__(self, core: QueueState[T], broker: Broker, chosen: Choice) -> None:
        self._core = core
        self._broker = broker
        self._choice = chosen

    def __repr__(self) -> str:
        places = ", ".join(self._choice.places or ())
        return f"<Selection of {self._core.name!r}{places and f' ({places})'}: {self._choice.in_words}>"

    async def browse(self) -> list[Received[T]]:
        """Read the messages into memory: set a limit if there may be many.

        Returns:
            The messages, in order; each is a `DeadLetter` if it is dead or expired.

        Examples:
            >>> for message in await orders.select("body.total > 5", limit=10).browse():
            ...     print(message.id, message.body)
            order-41 {'total': 9.5}
        """
        return await self._broker._run(reading.chosen(self._core, self._choice))

    async def count(self) -> int:
        """Count the messages.

        Returns:
            How many there are.

        Examples:
            >>> await orders.select(places=["ready", "scheduled"]).count()
            1
        """
        return await self._broker._run(counting.count(self._core, self._choice))

    async def count_by(self, header: str) -> dict[str | None, int]:
        """Count the messages by the value of a header.

        Args:
            header: the header's name.

        Returns:
            The counts, the largest first; the key None counts messages without the header.

        Examples:
            >>> sent = await orders.send({"total": 1.0}, headers={"tenant": "a"})
            >>> await orders.select().count_by("tenant")
            {None: 1, 'a': 1}
        """
        return await self._broker._run(counting.count_by(self._core, self._choice, header))

    async def groups(self, *, new_within: Duration = NEW_WITHIN) -> list[ErrorGroup]:
        """Group the dead letters by kind of failure, the largest group first. No bodies are read.

        Without a condition, a limit or ids, only the groups are read, not their dead letters.

        Args:
            new_within: a group is new if its first dead letter died within this time: seconds, a timedelta or
                "24h".

        Returns:
            The groups, the largest first.

        Raises:
            InvalidDuration: `new_within` is not valid.

        Examples:
            >>> (group,) = await mails.select(places=["dead"]).groups()
            >>> group.count, group.error
            (1, 'no address')
        """
        return await self._broker._run(groups(self._core, self._choice, new_within))

    @overload
    async def redrive(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    async def redrive(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    async def redrive(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Move dead or expired messages back to their queue, with ids and histories, and a fresh budget.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were redriven.

        Examples:
            >>> await mails.dlq.select("body.to = 'bob'").redrive(by="anna")
            1
        """
        return await self._change("redrive", changing.redrive, by, dry_run=dry_run)

    @overload
    async def dead_letter(
        self, reason: str = ..., *, by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    async def dead_letter(
        self, reason: str = ..., *, by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    async def dead_letter(
        self,
        reason: str = "sent to the dead-letter queue by an operator",
        *,
        by: str | None = None,
        dry_run: bool = False,
    ) -> Changed | Plan[CarriedOut]:
        """Move waiting or expired messages to the dead-letter queue, or discard them if that is the strategy.

        Args:
            reason: recorded in the messages' history.
            by: the operator's name, for the audit.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many died.

        Examples:
            >>> await orders.select("body.total > 5").dead_letter("a test order")
            1
        """
        return await self._change("dead_letter", changing.dead_letter, by, dry_run=dry_run, reason=reason)

    @overload
    async def expire(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    async def expire(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    async def expire(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Expire waiting messages now, whatever their time to live.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many expired.

        Examples:
            >>> await orders.select("age >= '0s'").expire()
            1
        """
        return await self._change("expire", changing.expire_now, by, dry_run=dry_run)

    @overload
    async def deliver_now(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    async def deliver_now(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    async def deliver_now(
        self, *, by: str | None = None, dry_run: bool = False
    ) -> Changed | Plan[CarriedOut]:
        """Make scheduled messages ready, in the order in which they were sent: before later ones.

        A message that waits for others of its key does not change.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many are ready now.

        Raises:
            InvalidInput: such a message was chosen by its id; nothing was changed. The error names the
                message in front.

        Examples:
            >>> sent = await orders.send({"total": 1.0}, delay="1h")
            >>> await orders.select(places=["scheduled"]).deliver_now()
            1
        """
        return await self._change("deliver_now", changing.deliver_now, by, dry_run=dry_run)

    @overload
    async def prioritize(
        self, priority: int, *, by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    async def prioritize(
        self, priority: int, *, by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    async def prioritize(
        self, priority: int, *, by: str | None = None, dry_run: bool = False
    ) -> Changed | Plan[CarriedOut]:
        """Change the priority of waiting messages.

        Args:
            priority: 9 (first) to 0 (last).
            by: the operator's name, for the audit.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many messages changed their priority.

        Raises:
            InvalidMessage: the priority is not valid.

        Examples:
            >>> await orders.select("body.total > 5").prioritize(9)
            1
        """
        return await self._change("prioritize", changing.prioritize, by, dry_run=dry_run, priority=priority)

    @overload
    async def move(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    async def move(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    async def move(
        self, to: Queue[T] | str, *, create: bool = False, by: str | None = None, dry_run: bool = False
    ) -> Changed | Plan[CarriedOut]:
        """Move the messages to another queue, with their ids and histories; each chunk is one step.

        A message whose id the other queue already has stays where it is.

        Args:
            to: the queue, or its name.
            create: create that queue if it does not exist; by default a missing queue is an error.
            by: the operator's name, for the audit.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were moved.

        Raises:
            InvalidInput: it is the same queue, or it does not exist; nothing was moved.
            CrossSlot: the queues are on different nodes of the cluster; nothing was moved.

        Examples:
            >>> await orders.select("body.total > 5").move("large", create=True)
            1
        """
        return await self._change(
            "move", changing.transfer, by, dry_run=dry_run, target=self._target(to), keep=False, create=create
        )

    @overload
    async def copy(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    async def copy(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    async def copy(
        self, to: Queue[T] | str, *, create: bool = False, by: str | None = None, dry_run: bool = False
    ) -> Changed | Plan[CarriedOut]:
        """Copy the messages to another queue, under the same ids but with new counts; otherwise like `move`.

        Args:
            to: the queue, or its name.
            create: create that queue if it does not exist; by default a missing queue is an error.
            by: the operator's name, for the audit.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were copied.

        Raises:
            InvalidInput, CrossSlot: as for `move`.

        Examples:
            >>> await orders.select(all=True).copy("trial", create=True)
            1
        """
        return await self._change(
            "copy", changing.transfer, by, dry_run=dry_run, target=self._target(to), keep=True, create=create
        )

    @overload
    async def purge(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    async def purge(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    async def purge(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Remove the messages permanently.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were removed.

        Examples:
            >>> await orders.select("body.total > 5").purge(by="anna")
            1
            >>> plan = await orders.select(all=True).purge(dry_run=True)
            >>> print(plan)
            0 messages of orders will be removed
        """
        return await self._change("purge", changing.purge, by, dry_run=dry_run)

    async def _change(
        self, verb: str, change: Callable[..., Any], by: str | None, *, dry_run: bool, **given: Any
    ) -> Changed | Plan[CarriedOut]:
        """Run a verb of `changing`, or plan it."""
        choice, core, run = self._for(verb), self._core, self._broker._run
        if not dry_run:
            changed: Changed = await run(change(core, choice, by=by, **given))
            return changed
        places = changing.TAKES["transfer" if verb in {"move", "copy"} else verb]
        planned = await run(plans.plan(core, choice, verb, places, given.get("priority")))

        async def carry_out(by: str | None) -> CarriedOut:
            doing = partial(change, core, by=by, **given)
            return await run(plans.carry_out(core, planned, doing, places))

        return plan_of(core.name, planned, carry_out)

    def _for(self, verb: str) -> Choice:
        self._choice.check_bulk(verb)
        return self._choice

    def _target(self, to: Queue[T] | str) -> QueueState[T]:
        return target_of(to, self._broker)
