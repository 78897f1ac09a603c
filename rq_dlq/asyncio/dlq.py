"""The dead letters of a queue: read, group, redrive and purge them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rq_dlq.asyncio.redrive import RedriveJob
from rq_dlq.asyncio.selection import Selection, target_of
from rq_dlq.client.choosing import dead_choice
from rq_dlq.core.choosing import muting
from rq_dlq.core.groups.index import NEW_WITHIN
from rq_dlq.core.redrive import redrives, start
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.errors import RqDlqError
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Unpack

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.client.choosing import Conditions
    from rq_dlq.core.choosing.choice import Choice, Order
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.redrive.record import RedrivePlan
    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.message import DeadLetter

T = TypeVar("T")


class DeadLetters(Answering, Generic[T]):
    """`queue.dlq` and `queue.expired`.

    Each verb takes a condition `where` (`rq_dlq.filters`), and `conditions`: the arguments that
    `rq_dlq.client.choosing.Conditions` lists. Each raises `InvalidInput` if an argument is not valid, and
    `FilterError` if `where` is not.

    Examples:
        >>> for group in await mails.dlq.groups():
        ...     print(group.count, group.reason, group.error)
        1 poison no address
    """

    def __init__(self, core: QueueState[T], broker: Broker) -> None:
        self._core = core
        self._broker = broker

    def select(
        self,
        where: str | None = None,
        *,
        limit: int | None = None,
        order: Order = "oldest",
        all: bool = False,
        **conditions: Unpack[Conditions],
    ) -> Selection[T]:
        """Choose dead letters, to count, group, move or otherwise manage them.

        Args:
            where: a condition, such as "tenant = 'a' and delivery_count > 2".
            limit: the most messages to choose; None: all.
            order: which come first: "oldest", by time of death, or "newest".
            all: every one. Verbs that change messages want this, a condition or a limit.
            conditions: see `Conditions`.

        Returns:
            The selection, which has more verbs.

        Raises:
            InvalidInput: an argument is not valid.
            FilterError: `where` is not valid.

        Examples:
            >>> await mails.dlq.select(reason="poison").count()
            1
        """
        wanted = dead_choice(conditions, where=where, limit=limit, order=order, all=all)
        return Selection(self._core, self._broker, wanted)

    async def groups(
        self, *, where: str | None = None, new_within: Duration = NEW_WITHIN, **conditions: Unpack[Conditions]
    ) -> list[ErrorGroup]:
        """Group the dead letters by kind of failure. No bodies are read.

        With no condition other than `group`, only the groups are read, however many letters they have.

        Args:
            where: a condition.
            new_within: a group is new if its first letter died within this time: seconds, a timedelta or
                "24h".
            conditions: see `Conditions`.

        Returns:
            The groups, the largest first.

        Examples:
            >>> (group,) = await mails.dlq.groups(reason="poison")
            >>> group.count, group.error
            (1, 'no address')
        """
        wanted = dead_choice(conditions, where=where)
        return await Selection(self._core, self._broker, wanted).groups(new_within=new_within)

    async def browse(
        self,
        *,
        where: str | None = None,
        limit: int | None = 20,
        order: Order = "oldest",
        **conditions: Unpack[Conditions],
    ) -> list[DeadLetter[T]]:
        """Read dead letters, with their histories.

        Args:
            where: a condition.
            limit: the most messages to read; None: all.
            order: which come first: "oldest", by time of death, or "newest".
            conditions: see `Conditions`.

        Returns:
            The dead letters, in that order.

        Examples:
            >>> for letter in await mails.dlq.browse(where="body.to = 'bob'"):
            ...     print(letter.id, letter.cause.message)
            mail-1 no address
        """
        return await self.select(where, limit=limit, order=order, **conditions).browse()  # type: ignore[return-value]

    @overload
    async def redrive(
        self, *, dry_run: Literal[True], where: str | None = ..., limit: int | None = ...,
        order: Order = ..., all: bool = ..., to: Queue[Any] | str | None = ..., create: bool = ...,
        edit: Callable[[T], object] | None = ..., ttl: Duration | None = ...,
        **conditions: Unpack[Conditions],
    ) -> RedrivePlan: ...  # fmt: skip
    @overload
    async def redrive(
        self, *, dry_run: Literal[False] = ..., where: str | None = ..., limit: int | None = ...,
        order: Order = ..., all: bool = ..., rate: float | None = ..., canary: int | None = ...,
        min_success: float | None = ..., to: Queue[Any] | str | None = ..., create: bool = ...,
        edit: Callable[[T], object] | None = ..., ttl: Duration | None = ..., by: str | None = ...,
        detach: bool = ..., **conditions: Unpack[Conditions],
    ) -> RedriveJob: ...  # fmt: skip
    async def redrive(
        self,
        *,
        where: str | None = None,
        limit: int | None = None,
        order: Order = "oldest",
        all: bool = False,
        rate: float | None = None,
        canary: int | None = None,
        min_success: float | None = None,
        to: Queue[Any] | str | None = None,
        create: bool = False,
        edit: Callable[[T], object] | None = None,
        ttl: Duration | None = None,
        by: str | None = None,
        detach: bool = False,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> RedriveJob | RedrivePlan:
        """Move dead letters back to their queue, with the same id, a fresh budget and their history.

        Without a canary and a rate all are back when the call returns. Otherwise `job.wait()` drives the
        redrive; if this process does not, workers and maintenance go on with it after ten seconds. A message
        that dies again meanwhile stays dead. If two redrives choose the same message, it comes back once.

        With `edit` or `to` only this process can go on with the redrive: messages that it has not reached
        when it ends stay dead, and a repetition of the call does the rest. Such a redrive cannot be undone.

        Args:
            where: a condition.
            limit: the most messages to redrive; None: all.
            order: which come first: "oldest", by time of death, or "newest".
            all: all that are dead when the call begins. Either this, a condition or a limit is required.
            rate: messages a second; None: no limit.
            canary: how many come first, at most 1,000. The others follow when these have been acked, or are
                dead again.
            min_success: the part of the canary that has to be acked, else the redrive pauses; None: 0.95 with
                a canary. With a rate it is judged all along, by at least 20 messages.
            to: another queue for the messages, or its name. It takes no canary, since what becomes of the
                messages is counted there.
            create: make that queue if there is none of its name; without this that is an error.
            edit: a function that gets the body of each message and returns the new one. A message stays dead
                where it raises an error, or where its body cannot be read, does not fit the queue's type or
                is too long: `job.refusals` says why.
            ttl: the messages' time to live from now on (seconds, a timedelta or "1h"). "keep": they expire
                when they would have, and those whose time is over stay dead. None: they do not expire.
            by: who redrives, for the audit and the messages' history; None: the user of this process, at this
                host.
            detach: leave it to workers and maintenance from the start.
            dry_run: count only.
            conditions: see `Conditions`.

        Returns:
            The job, with its counts; of a dry run, what would come back.

        Raises:
            InvalidInput: the call does not say which letters, an argument is not valid, or there is no queue
                `to`; nothing was done.
            CrossSlot: the queues are on different nodes of the cluster; nothing was done.

        Examples:
            >>> plan = await mails.dlq.redrive(reason="poison", dry_run=True)
            >>> plan.eligible
            1
            >>> job = await mails.dlq.redrive(reason="poison")
            >>> job.state, job.counts.moved
            ('done', 1)
        """
        wanted = dead_choice(conditions, where=where, limit=limit, order=order, all=all)
        wanted.check_bulk("redrive")
        target = None if to is None else target_of(to, self._broker)
        terms = Terms(
            rate=rate, canary=canary, min_success=min_success, by=by, detach=detach,
            to=target, create=create, edit=edit, ttl=ttl,
        )  # fmt: skip
        if dry_run:
            return await self._broker._run(start.plan(self._core, wanted, terms))
        job = await self._begun(wanted, terms)
        if terms.is_gradual:
            return job
        try:
            return await job.wait()
        except BaseException as error:
            if terms.offered and not isinstance(error, GeneratorExit):  # without the job nobody can go on
                with suppress(RqDlqError):
                    await job.cancel()
            raise

    async def _begun(self, wanted: Choice, terms: Terms) -> RedriveJob:
        """A redrive that nobody drives yet."""
        begun = await self._broker._run(start.begin(self._core, wanted, terms))
        return RedriveJob(self._core, self._broker, begun, terms)

    async def jobs(self) -> list[RedriveJob]:
        """The redrives that go on, and those of the last week, at most a hundred; the newest first.

        Returns:
            The jobs, the newest first.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, by="anna")
            >>> [(one.by, one.state, one.counts.moved) for one in await mails.dlq.jobs()]
            [('anna', 'done', 1)]
        """
        found = await self._broker._run(redrives.jobs(self._core))
        return [RedriveJob(self._core, self._broker, [one]) for one in found]

    async def job(self, id: str) -> RedriveJob:
        """One redrive.

        Args:
            id: the job's id.

        Returns:
            The job.

        Raises:
            InvalidInput: there is none of this id.

        Examples:
            >>> job = await mails.dlq.redrive(all=True)
            >>> again = await mails.dlq.job(job.id)
            >>> again.state
            'done'
        """
        return RedriveJob(self._core, self._broker, await self._broker._run(redrives.find(self._core, id)))

    async def mute(
        self, *, group: str | ErrorGroup, until: datetime | Duration | None = None, by: str | None = None
    ) -> bool:
        """Mute a group: `top`, the page and alerts do not count it as trouble. Its letters stay.

        Args:
            group: an `ErrorGroup` or its fingerprint; the first six digits mean all kinds of one class and
                place.
            until: a datetime with a time zone, or a time from now (seconds, a timedelta or "4h"), at most 30
                days. None: until a message dies of it again.
            by: who does it, for the audit; None: the user of this process, at this host.

        Returns:
            Whether this changed anything; False: it was muted so already.

        Raises:
            InvalidInput: there is no such group.

        Examples:
            >>> (group,) = await mails.dlq.groups()
            >>> await mails.dlq.mute(group=group, until="4h")
            True
        """
        return await self._broker._run(muting.mute(self._core, group, until, by))

    async def unmute(self, *, group: str | ErrorGroup, by: str | None = None) -> bool:
        """Count a group as trouble again, if it is some.

        Args:
            group: as for `mute`.
            by: as for `mute`.

        Returns:
            Whether this changed anything; False: it was not muted.

        Examples:
            >>> (group,) = await mails.dlq.groups()
            >>> muted = await mails.dlq.mute(group=group)
            >>> await mails.dlq.unmute(group=group)
            True
        """
        return await self._broker._run(muting.unmute(self._core, group, by))

    async def purge(
        self,
        *,
        where: str | None = None,
        all: bool = False,
        by: str | None = None,
        **conditions: Unpack[Conditions],
    ) -> int:
        """Remove dead letters for good.

        Args:
            where: a condition.
            all: remove all of them. Either this or a condition is required.
            by: who does it, for the audit; None: the user of this process, at this host.
            conditions: see `Conditions`.

        Returns:
            How many were removed.

        Raises:
            InvalidInput: there is neither a condition nor `all`, or both; nothing was done.

        Examples:
            >>> await mails.dlq.purge(older_than="30d")
            0
            >>> await mails.dlq.purge(all=True, by="anna")
            1
        """
        wanted = dead_choice(conditions, where=where, all=all)
        return await Selection(self._core, self._broker, wanted).purge(by=by)
