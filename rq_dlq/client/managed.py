# Generated from rq_dlq/asyncio/managed.py by `python -m tests.colours_twin --write`.
"""Reading and managing a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar, overload

from rq_dlq.client.dependency import Dependency
from rq_dlq.client.key import Key
from rq_dlq.client.own import OwnQueue
from rq_dlq.client.selection import Selection
from rq_dlq.core.cancelling import cancel
from rq_dlq.core.choosing import reading
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.keyed import keyed
from rq_dlq.core.looking import explain, outcomes
from rq_dlq.core.managing import deleting, pausing
from rq_dlq.core.policies import policies
from rq_dlq.core.queues import counts
from rq_dlq.core.upkeep import maintain
from rq_dlq.errors.guesses import part_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rq_dlq.client.plan import Plan
    from rq_dlq.core.choosing.choice import Order
    from rq_dlq.core.looking.explain import Explanation
    from rq_dlq.core.steps.call import Place
    from rq_dlq.policy import QueueSettings
    from rq_dlq.values.cancelled import Cancelled
    from rq_dlq.values.changed import CarriedOut, Changed
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import KeyStats
    from rq_dlq.values.message import Received
    from rq_dlq.values.outcome import Outcome

T = TypeVar("T")


@part_of("Queue")
class Managed(OwnQueue[T]):
    """The verbs of a queue for operators."""

    def peek(self, limit: int = 20) -> list[Received[T]]:
        """Read the next messages, in order, without claiming them.

        Args:
            limit: the most messages to read.

        Returns:
            The ready messages, at most `limit`.

        Raises:
            InvalidInput: the limit is not valid.

        Examples:
            >>> [message.id for message in orders.peek(5)]
            ['order-41']
        """
        return self._broker._run(reading.peek(self._core, limit))

    @overload
    def purge(
        self, *, where: str | None = ..., all: bool = ..., by: str | None = ..., dry_run: Literal[False] = ...
    ) -> Changed: ...
    @overload
    def purge(
        self, *, where: str | None = ..., all: bool = ..., by: str | None = ..., dry_run: Literal[True]
    ) -> Plan[CarriedOut]: ...
    def purge(
        self, *, where: str | None = None, all: bool = False, by: str | None = None, dry_run: bool = False
    ) -> Changed | Plan[CarriedOut]:
        """Remove ready and scheduled messages permanently. Leased messages stay.

        Args:
            where: a condition.
            all: remove all of them. This or a condition is required.
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.

        Returns:
            The number of removed messages; its `leased` is the number that are being processed.

        Raises:
            InvalidInput: there is neither a condition nor `all`, or both; nothing was done.

        Examples:
            >>> orders.purge(where="body.total > 5")
            1
        """
        selection = self.select(where, all=all)
        return selection.purge(by=by, dry_run=True) if dry_run else selection.purge(by=by)

    def select(
        self,
        where: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        key: str | None = None,
        places: Sequence[Place] | None = None,
        limit: int | None = None,
        order: Order = "oldest",
        all: bool = False,
    ) -> Selection[T]:
        """Choose messages, to count, read, move, remove or otherwise manage them.

        Args:
            where: a condition, such as "tenant = 'a' and delivery_count > 2" (`rq_dlq.filters`).
            ids: only messages with these ids.
            key: only messages that were sent with this key.
            places: any of ready, scheduled, leased, dead, expired; None: the messages waiting for delivery.
            limit: the most messages to choose; None: all.
            order: within a place, "oldest" first, in order of delivery or death, or "newest" first.
            all: choose all. Verbs that change messages require this, a condition, places or a limit.

        Returns:
            The selection. It sends nothing to Redis until one of its verbs is called.

        Raises:
            FilterError: the condition is not valid.
            InvalidInput: another argument is not valid.

        Examples:
            >>> orders.select("body.total > 5").count()
            1
            >>> orders.select(ids=["order-41"]).prioritize(9)
            1
        """
        wanted = Choice(where=where, ids=ids, key=key, places=places, limit=limit, order=order, all=all)
        return Selection(self._core, self._broker, wanted)

    def keys(self, limit: int = 20, *, exact: bool = False) -> list[KeyStats]:
        """Find the keys with the most blocked messages.

        Args:
            limit: the most keys to find.
            exact: False: use a random sample of 200 blocked messages, which finds the longest lanes however
                many keys the queue has. True: check all keys, one round trip each.

        Returns:
            The keys, those with the most blocked messages first.

        Raises:
            InvalidInput: the limit is not valid, or this is a dead-letter or expiry queue.

        Examples:
            >>> orders = broker.queue("orders", per_key=PerKey(order=True))
            >>> sent = orders.send_many([Message(n, key="customer-7") for n in range(3)])
            >>> [(one.key, one.blocked) for one in orders.keys()]
            [('customer-7', 2)]
        """
        return self._broker._run(keyed.longest(self._core, limit, exact=exact))

    def key(self, key: str) -> Key:
        """The messages with one key; `select(key=…)` chooses them.

        Args:
            key: the key that the messages were sent with: text of at most 200 bytes.

        Returns:
            The key, with its verbs.

        Examples:
            >>> orders.key("customer-7").pause(until="10m")
            True
        """
        return Key(key, self._core, self._broker)

    def dependency(self, dependency: str) -> Dependency:
        """A dependency of messages, such as "payments": its state, and its pause.

        Args:
            dependency: the dependency that the messages were sent with: text of at most 200 bytes.

        Returns:
            The dependency, with its verbs.

        Examples:
            >>> stats = orders.dependency("payments").stats()
            >>> stats.open
            False
        """
        return Dependency(dependency, self._core, self._broker)

    def pause(self, by: str | None = None, *, until: datetime | Duration | None = None) -> bool:
        """Stop delivering messages until `resume`. Messages can still be sent and settled, and still expire.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.
            until: when the pause ends automatically: a datetime with a time zone, or a duration; None: never.

        Returns:
            Whether anything changed; False: the queue was already paused until the same time.

        Raises:
            InvalidInput: this is a dead-letter or expiry queue, `by` is not a name, or `until` is not valid.

        Examples:
            >>> orders.pause(until="10m", by="anna")
            True
            >>> orders.resume()
            True
        """
        return self._broker._run(pausing.set_paused(self._core, paused=True, until=until, by=by))

    def resume(self, by: str | None = None) -> bool:
        """Deliver messages again.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed; False: the queue was not paused.

        Raises:
            InvalidInput: this is a dead-letter or expiry queue, or `by` is not a name.

        Examples:
            >>> changed = orders.pause()
            >>> orders.resume()
            True
        """
        return self._broker._run(pausing.set_paused(self._core, paused=False, by=by))

    def cancel(self, id: str, *, by: str | None = None) -> Cancelled:
        """Cancel one message, even while it is being processed.

        The message is removed immediately. If it is being processed, its handler can no longer settle it. The
        worker is notified within a second: an `async def` call is cancelled, and a `def` handler sees
        `delivery.cancelled` and may return. Other messages of its key wait until the call or the lease ends.
        Side effects of the handler are not undone.

        Args:
            id: the message's id. The object that `send` returned means its own message, and never a later
                one with the same id.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            "cancelled"; or, if nothing was changed: "dead", "expired", "acked" if the queue keeps its result
            or remembers its ack (`dedup_window`), or "unknown".

        Raises:
            InvalidInput: this is a dead-letter or expiry queue, a Spark batch holds the message, or `by` is
                not a name.
            UpgradeRequired: a later version wrote the message in a form that this version cannot read.

        Examples:
            >>> orders.cancel("order-41")
            'cancelled'
        """
        return self._broker._run(cancel.cancel(self._core, id, by=by))

    def reset(self, *, by: str | None = None) -> int:
        """Reset the totals; the messages still in the queue count as sent.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            How many messages are in the queue.

        Raises:
            InvalidInput: `by` is not a name.

        Examples:
            >>> orders.reset(by="anna")
            1
        """
        return self._broker._run(pausing.reset(self._core, by))

    def delete(self, *, force: bool = False, by: str | None = None) -> int:
        """Delete the queue: its messages, schedules, totals, outcome history, settings and name.

        Only messages require `force`: a queue without messages is deleted with its schedules. The settings
        that programs declared for it are deleted; entries of the map of policies stay. The next send creates
        the queue again. Deliveries that consumers still hold are lost: settling them raises LeaseLost.

        Args:
            force: delete the queue even if it has messages, in any state. They are removed permanently, in
                one step, however many there are.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            The number of messages deleted.

        Raises:
            InvalidInput: the queue has messages, or is a dead-letter or expiry queue; nothing was done.

        Examples:
            >>> orders.delete()
            Traceback (most recent call last):
            rq_dlq.errors.InvalidInput: 'orders' was not deleted, since it is not empty: 1 …
            >>> orders.delete(force=True)
            1
        """
        return self._broker._run(deleting.delete(self._core, force=force, by=by))

    def explain(self, id: str) -> Explanation:
        """Explain where a message is, why it is not being delivered, and what happens next.

        Args:
            id: the message's id; the queue need not have such a message. The object that `send` returned
                means its own message, and never a later one with the same id.

        Returns:
            The explanation; `str()` of it is text for people.

        Raises:
            InvalidInput: this is not a valid id.

        Examples:
            >>> explanation = orders.explain("order-41")
            >>> explanation.place
            'ready'
        """
        return self._broker._run(explain.explain(self._core, id))

    def settings(self) -> QueueSettings:
        """The settings in force for the queue, and the source of each field.

        Returns:
            The settings, with the source of each.

        Examples:
            >>> settings = orders.settings()
            >>> settings.redelivery.max_redeliveries
            12
        """
        core = self._core
        new = None if core.opened else core.declared
        return self._broker._run(policies.explain_policy(core.keys, core.naming, new))

    def outcomes(self, since: datetime | str | None = None, *, limit: int | None = 1_000) -> list[Outcome]:
        """The outcome history of messages and deliveries, as far back as the setting `outcomes` keeps it.

        Args:
            since: start after this time, or after the outcome with this event_id; None: from the oldest
                event.
            limit: the most events to read; None: all.

        Returns:
            The events, the oldest first; empty if the queue keeps no outcome history.

        Raises:
            InvalidInput: an argument is not valid, or this is a dead-letter or expiry queue.

        Examples:
            >>> stock = broker.queue("stock", outcomes=1_000)
            >>> sent = stock.send("tea", id="tea-1")
            >>> settled = stock.ack(stock.claim())
            >>> [(one.id, one.event) for one in stock.outcomes()]
            [('tea-1', 'acked')]
        """
        return self._broker._run(outcomes.read_outcomes(self._core, since, limit))

    def stats(self) -> QueueStats:
        """The number of messages in each state, and the totals since the queue was created.

        Returns:
            The counts.

        Examples:
            >>> stats = orders.stats()
            >>> stats.ready, stats.dead
            (1, 0)
        """
        return self._broker._run(counts.stats(self._core))

    def maintain(self) -> dict[str, int]:
        """Run the maintenance that is due: expired leases, scheduled messages, expiry.

        Messages that fall due during the call are left to the next one.

        Returns:
            The number of messages that each step moved, by the step's name.

        Examples:
            >>> sent = orders.send({"total": 1.0}, delay="1h")
            >>> moved = orders.maintain()
            >>> moved["promoted"]
            0
        """
        return self._broker._run(maintain.maintain(self._core))
