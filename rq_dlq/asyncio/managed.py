"""Looking at a queue and managing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq.asyncio.dependency import Dependency
from rq_dlq.asyncio.key import Key
from rq_dlq.asyncio.own import OwnQueue
from rq_dlq.asyncio.selection import Selection
from rq_dlq.core.cancelling import cancel
from rq_dlq.core.choosing import reading
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.keyed import keyed
from rq_dlq.core.looking import explain, outcomes
from rq_dlq.core.managing import deleting, pausing
from rq_dlq.core.policies import policies
from rq_dlq.core.queues import counts
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.upkeep import maintain
from rq_dlq.errors.guesses import part_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rq_dlq.core.cancelling.cancel import Cancelled
    from rq_dlq.core.choosing.choice import Order
    from rq_dlq.core.looking.explain import Explanation
    from rq_dlq.core.steps.call import Place
    from rq_dlq.policy import QueueSettings
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import KeyStats
    from rq_dlq.values.message import Received
    from rq_dlq.values.outcome import Outcome

T = TypeVar("T")


@part_of("Queue")
class Managed(OwnQueue[T]):
    """The verbs of a queue for operators."""

    async def peek(self, limit: int = 20) -> list[Received[T]]:
        """Read the next messages, in order, without claiming them.

        Args:
            limit: the most messages to read.

        Returns:
            The messages; fewer if fewer are ready.

        Raises:
            InvalidInput: the limit is not valid.

        Examples:
            >>> [message.id for message in await orders.peek(5)]
            ['order-41']
        """
        return await self._broker._run(reading.peek(self._core, limit))

    async def purge(self, *, where: str | None = None, all: bool = False, by: str | None = None) -> int:
        """Remove ready and scheduled messages for good. Leased messages stay.

        Args:
            where: a condition.
            all: remove all of them. Either this or a condition is required.
            by: who does it, for the audit; None: the user of this process, at this host.

        Returns:
            How many were removed.

        Raises:
            InvalidInput: there is neither a condition nor `all`, or both; nothing was done.

        Examples:
            >>> await orders.purge(where="body.total > 5")
            1
        """
        return await self.select(where, all=all).purge(by=by)

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
            places: ready, scheduled, leased, dead, expired; None: what waits here for delivery.
            limit: the most messages to choose; None: all.
            order: which messages of a place come first: "oldest", in order of delivery or death, or "newest".
            all: every one. Verbs that change messages want this, a condition, places or a limit.

        Returns:
            The selection. It sends nothing to Redis until one of its verbs is called.

        Raises:
            FilterError: the condition is not valid.
            InvalidInput: another argument is not valid.

        Examples:
            >>> await orders.select("body.total > 5").count()
            1
            >>> await orders.select(ids=["order-41"]).prioritize(9)
            1
        """
        wanted = Choice(where=where, ids=ids, key=key, places=places, limit=limit, order=order, all=all)
        return Selection(self._core, self._broker, wanted)

    async def keys(self, limit: int = 20, *, exact: bool = False) -> list[KeyStats]:
        """Find the keys of which most messages are blocked, the longest first.

        Args:
            limit: the most keys to find.
            exact: False: those of 200 blocked messages that are drawn, so long lanes are found, however many
                there are. True: all are looked at, a round trip each.

        Returns:
            The keys, those with the most blocked messages first.

        Raises:
            InvalidInput: the limit is not valid, or this is the name of dead letters.

        Examples:
            >>> orders = broker.queue("orders", per_key=PerKey(order=True))
            >>> sent = await orders.send_many([Message(n, key="customer-7") for n in range(3)])
            >>> [(one.key, one.blocked) for one in await orders.keys()]
            [('customer-7', 2)]
        """
        return await self._broker._run(keyed.longest(self._core, limit, exact=exact))

    def key(self, key: str) -> Key:
        """The messages of one key; `select(key=…)` chooses them.

        Args:
            key: as messages were sent with: a text of at most 200 bytes.

        Returns:
            The key, with its verbs.

        Examples:
            >>> await orders.key("customer-7").pause(until="10m")
            True
        """
        return Key(key, self._core, self._broker)

    def dependency(self, dependency: str) -> Dependency:
        """What messages need to succeed, as "payments": whether it counts as down.

        Args:
            dependency: as messages were sent with: a text of at most 200 bytes.

        Returns:
            The dependency, with its verbs.

        Examples:
            >>> stats = await orders.dependency("payments").stats()
            >>> stats.open
            False
        """
        return Dependency(dependency, self._core, self._broker)

    async def pause(self, by: str | None = None, *, until: datetime | Duration | None = None) -> bool:
        """Deliver nothing until `resume`. Messages can still be sent and settled, and still expire.

        Args:
            by: who pauses it, for the audit; None: the user of this process, at this host.
            until: when it ends by itself: a time with its zone, or a duration; None: never.

        Returns:
            Whether this changed anything; False: the queue was paused already, until the same time.

        Raises:
            InvalidInput: this is the name of dead letters; or `by` is not a name, or `until` not an end.

        Examples:
            >>> await orders.pause(until="10m", by="anna")
            True
            >>> await orders.resume()
            True
        """
        return await self._broker._run(pausing.set_paused(self._core, paused=True, until=until, by=by))

    async def resume(self, by: str | None = None) -> bool:
        """Deliver messages again.

        Args:
            by: who resumes it, for the audit; None: the user of this process, at this host.

        Returns:
            Whether this changed anything; False: the queue was not paused.

        Raises:
            InvalidInput: this is the name of dead letters; or `by` is not a name.

        Examples:
            >>> changed = await orders.pause()
            >>> await orders.resume()
            True
        """
        return await self._broker._run(pausing.set_paused(self._core, paused=False, by=by))

    async def cancel(self, id: str, *, by: str | None = None) -> Cancelled:
        """Take one message back before its end, also one that is in work.

        One that waits is gone. One in work is gone at once, too: nothing counts that its handler does from
        now on. A worker learns it within a second: the call of a coroutine is cancelled, a `def` handler sees
        `delivery.cancelled` and may return. Until its call has ended, or its lease, the others of its key
        wait. What it did stays done.

        Args:
            id: the message's id.
            by: who cancels it, for the audit; None: the user of this process, at this host.

        Returns:
            "cancelled"; or, where nothing was changed: "dead" or "expired", "acked" if the queue remembers
            that (`dedup_window`), "unknown".

        Raises:
            InvalidInput: this is the name of dead letters, a batch of Spark holds the message, or `by` is not
                a name.
            UpgradeRequired: a later version wrote it, in a form that this one cannot read.

        Examples:
            >>> await orders.cancel("order-41")
            'cancelled'
        """
        return await self._broker._run(cancel.cancel(self._core, id, by=by))

    async def reset(self, *, by: str | None = None) -> int:
        """Reset the totals; the messages in the queue count as sent.

        Args:
            by: who does it, for the audit; None: the user of this process, at this host.

        Returns:
            How many messages are in the queue.

        Raises:
            InvalidInput: `by` is not a name.

        Examples:
            >>> await orders.reset(by="anna")
            1
        """
        return await self._broker._run(pausing.reset(self._core, by))

    async def delete(self, *, force: bool = False, by: str | None = None) -> int:
        """Delete the queue: its messages, schedules, totals, outcome history and settings, and its name.

        Only messages need `force`: a queue without messages is deleted with its schedules. The settings that
        programs declared for it go, too; entries of the map of policies stay. The queue is as if it had never
        been used: the next send creates it again. A delivery that somebody still holds is lost, and settling
        it says so.

        Args:
            force: also if messages are in the queue, in whatever state. They are removed for good, in
                one step, however many they are.
            by: who does it, for the audit; None: the user of this process, at this host.

        Returns:
            How many messages were in it.

        Raises:
            InvalidInput: messages are in the queue, or it is a dead-letter or expiry queue; nothing was done.

        Examples:
            >>> await orders.delete()
            Traceback (most recent call last):
            rq_dlq.errors.InvalidInput: 'orders' was not deleted, since it is not empty: 1 …
            >>> await orders.delete(force=True)
            1
        """
        act = await self._broker._run(act_of("deleted", by))
        return await self._broker._run(deleting.delete(self._core, force=force, act=act))

    async def explain(self, id: str) -> Explanation:
        """Explain where a message is, why it is not being delivered, and what happens to it next.

        Args:
            id: the message's id; the queue need not know it.

        Returns:
            The explanation; printed, it is sentences.

        Raises:
            InvalidInput: this is not a valid id.

        Examples:
            >>> explanation = await orders.explain("order-41")
            >>> explanation.place
            'ready'
        """
        return await self._broker._run(explain.explain(self._core, id))

    async def settings(self) -> QueueSettings:
        """The settings in force for the queue, and which policy each field comes from.

        Returns:
            The settings, with the source of each.

        Examples:
            >>> settings = await orders.settings()
            >>> settings.redelivery.max_redeliveries
            12
        """
        core = self._core
        new = None if core.opened else core.declared
        return await self._broker._run(policies.explain_policy(core.keys, core.naming, new))

    async def outcomes(
        self, since: datetime | str | None = None, *, limit: int | None = 1_000
    ) -> list[Outcome]:
        """What became of messages and deliveries, as far back as the queue's `outcomes` setting keeps it.

        Args:
            since: a time, or the event_id of an outcome, to start after; None: from the oldest event.
            limit: the most events to read; None: all.

        Returns:
            The events, the oldest first; none if the queue keeps no outcome history.

        Raises:
            InvalidInput: an argument is not valid, or this is a dead-letter or expiry queue.

        Examples:
            >>> stock = broker.queue("stock", outcomes=1_000)
            >>> sent = await stock.send("tea", id="tea-1")
            >>> settled = await stock.ack(await stock.claim())
            >>> [(one.id, one.event) for one in await stock.outcomes()]
            [('tea-1', 'acked')]
        """
        return await self._broker._run(outcomes.read_outcomes(self._core, since, limit))

    async def stats(self) -> QueueStats:
        """The number of messages in each state, and the totals since the queue began.

        Returns:
            The counts.

        Examples:
            >>> stats = await orders.stats()
            >>> stats.ready, stats.dead
            (1, 0)
        """
        return await self._broker._run(counts.stats(self._core))

    async def maintain(self) -> dict[str, int]:
        """Run the maintenance that is due: lapsed leases, scheduled messages, expiry.

        What falls due meanwhile is left to the next call.

        Returns:
            How many messages each step moved, by the step's name.

        Examples:
            >>> sent = await orders.send({"total": 1.0}, delay="1h")
            >>> moved = await orders.maintain()
            >>> moved["promoted"]
            0
        """
        return await self._broker._run(maintain.maintain(self._core))
