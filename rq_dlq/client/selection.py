# Generated from rq_dlq/asyncio/selection.py by `python -m tests.colours_twin --write`.
"""Messages chosen by a condition, and the operators' verbs for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rq_dlq.client.arguments import work_of
from rq_dlq.client.plan import Plan, plan_of
from rq_dlq.core.changing import changing, plans
from rq_dlq.core.choosing import counting, reading
from rq_dlq.core.choosing.counting import groups
from rq_dlq.core.groups.index import NEW_WITHIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.client.broker import Broker
    from rq_dlq.client.queue import Queue
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
        >>> orders.select("body.total > 5").count()
        1
        >>> orders.select(limit=10).prioritize(9)
        1
    """

    def __init__(self, core: QueueState[T], broker: Broker, chosen: Choice) -> None:
        self._core = core
        self._broker = broker
        self._choice = chosen

    def __repr__(self) -> str:
        places = ", ".join(self._choice.places or ())
        return f"<Selection of {self._core.name!r}{places and f' ({places})'}: {self._choice.in_words}>"

    def browse(self) -> list[Received[T]]:
        """Read the messages into memory: set a limit if there may be many.

        Returns:
            The messages, in order; each is a `DeadLetter` if it is dead or expired.

        Examples:
            >>> for message in orders.select("body.total > 5", limit=10).browse():
            ...     print(message.id, message.body)
            order-41 {'total': 9.5}
        """
        return self._broker._run(reading.chosen(self._core, self._choice))

    def count(self) -> int:
        """Count the messages.

        Returns:
            How many there are.

        Examples:
            >>> orders.select(places=["ready", "scheduled"]).count()
            1
        """
        return self._broker._run(counting.count(self._core, self._choice))

    def count_by(self, header: str) -> dict[str | None, int]:
        """Count the messages by the value of a header.

        Args:
            header: the header's name.

        Returns:
            The counts, the largest first; the key None counts messages without the header.

        Examples:
            >>> sent = orders.send({"total": 1.0}, headers={"tenant": "a"})
            >>> orders.select().count_by("tenant")
            {None: 1, 'a': 1}
        """
        return self._broker._run(counting.count_by(self._core, self._choice, header))

    def groups(self, *, new_within: Duration = NEW_WITHIN) -> list[ErrorGroup]:
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
            >>> (group,) = mails.select(places=["dead"]).groups()
            >>> group.count, group.error
            (1, 'no address')
        """
        return self._broker._run(groups(self._core, self._choice, new_within))

    @overload
    def redrive(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    def redrive(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    def redrive(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Move dead or expired messages back to their queue, with ids and histories, and a fresh budget.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were redriven.

        Examples:
            >>> mails.dlq.select("body.to = 'bob'").redrive(by="anna")
            1
        """
        return self._change("redrive", changing.redrive, by, dry_run=dry_run)

    @overload
    def dead_letter(
        self, reason: str = ..., *, by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    def dead_letter(
        self, reason: str = ..., *, by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    def dead_letter(
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
            >>> orders.select("body.total > 5").dead_letter("a test order")
            1
        """
        return self._change("dead_letter", changing.dead_letter, by, dry_run=dry_run, reason=reason)

    @overload
    def expire(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    def expire(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    def expire(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Expire waiting messages now, whatever their time to live.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many expired.

        Examples:
            >>> orders.select("age >= '0s'").expire()
            1
        """
        return self._change("expire", changing.expire_now, by, dry_run=dry_run)

    @overload
    def deliver_now(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    def deliver_now(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    def deliver_now(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
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
            >>> sent = orders.send({"total": 1.0}, delay="1h")
            >>> orders.select(places=["scheduled"]).deliver_now()
            1
        """
        return self._change("deliver_now", changing.deliver_now, by, dry_run=dry_run)

    @overload
    def prioritize(
        self, priority: int, *, by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    def prioritize(
        self, priority: int, *, by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    def prioritize(
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
            >>> orders.select("body.total > 5").prioritize(9)
            1
        """
        return self._change("prioritize", changing.prioritize, by, dry_run=dry_run, priority=priority)

    @overload
    def move(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    def move(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    def move(
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
            >>> orders.select("body.total > 5").move("large", create=True)
            1
        """
        return self._change(
            "move", changing.transfer, by, dry_run=dry_run, target=self._target(to), keep=False, create=create
        )

    @overload
    def copy(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    def copy(
        self, to: Queue[T] | str, *, create: bool = ..., by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    def copy(
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
            >>> orders.select(all=True).copy("trial", create=True)
            1
        """
        return self._change(
            "copy", changing.transfer, by, dry_run=dry_run, target=self._target(to), keep=True, create=create
        )

    @overload
    def purge(self, *, by: str | None = ..., dry_run: Literal[False] = ...) -> Changed: ...
    @overload
    def purge(self, *, by: str | None = ..., dry_run: Literal[True]) -> Plan[CarriedOut]: ...
    def purge(self, *, by: str | None = None, dry_run: bool = False) -> Changed | Plan[CarriedOut]:
        """Remove the messages permanently.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            How many were removed.

        Examples:
            >>> orders.select("body.total > 5").purge(by="anna")
            1
            >>> plan = orders.select(all=True).purge(dry_run=True)
            >>> print(plan)
            0 messages of orders will be removed
        """
        return self._change("purge", changing.purge, by, dry_run=dry_run)

    def _change(
        self, verb: str, change: Callable[..., Any], by: str | None, *, dry_run: bool, **given: Any
    ) -> Changed | Plan[CarriedOut]:
        """Run a verb of `changing`, or plan it."""
        choice, core, run = self._for(verb), self._core, self._broker._run
        if not dry_run:
            changed: Changed = run(change(core, choice, by=by, **given))
            return changed
        places = changing.TAKES["transfer" if verb in {"move", "copy"} else verb]
        planned = run(plans.plan(core, choice, verb, places, given.get("priority")))

        def carry_out(by: str | None) -> CarriedOut:
            doing = partial(change, core, by=by, **given)
            return run(plans.carry_out(core, planned, doing, places))

        return plan_of(core.name, planned, carry_out)

    def _for(self, verb: str) -> Choice:
        self._choice.check_bulk(verb)
        return self._choice

    def _target(self, to: Queue[T] | str) -> QueueState[T]:
        return target_of(to, self._broker)
