# Generated from rq_dlq/asyncio/dlq.py by `python -m tests.colours_twin --write`.
"""The dead letters of a queue: read, group, redrive and purge them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rq_dlq.client.choosing import dead_choice
from rq_dlq.client.plan import Plan, plan_of
from rq_dlq.client.redrive import RedriveJob
from rq_dlq.client.selection import Selection, target_of
from rq_dlq.core.changing import muting
from rq_dlq.core.groups.index import NEW_WITHIN
from rq_dlq.core.redrive import redrives, start
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.errors import RqDlqError
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Unpack

    from rq_dlq.client.broker import Broker
    from rq_dlq.client.choosing import Conditions
    from rq_dlq.client.queue import Queue
    from rq_dlq.core.changing.plans import Planned
    from rq_dlq.core.choosing.choice import Choice, Order
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.changed import CarriedOut, Changed
    from rq_dlq.values.counts import ErrorGroup
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.message import DeadLetter

T = TypeVar("T")


class DeadLetters(Answering, Generic[T]):
    """`queue.dlq` and `queue.expired`.

    Each verb takes a condition `where` (`rq_dlq.filters`), and `conditions`: the arguments listed in
    `rq_dlq.client.choosing.Conditions`. Each raises `InvalidInput` if an argument is not valid, and
    `FilterError` if `where` is not.

    Examples:
        >>> for group in mails.dlq.groups():
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
            order: "oldest" first, by time of death, or "newest" first.
            all: choose all. Verbs that change messages require this, a condition or a limit.
            conditions: see `Conditions`.

        Returns:
            The selection, which has more verbs.

        Raises:
            InvalidInput: an argument is not valid.
            FilterError: `where` is not valid.

        Examples:
            >>> mails.dlq.select(reason="poison").count()
            1
        """
        wanted = dead_choice(conditions, where=where, limit=limit, order=order, all=all)
        return Selection(self._core, self._broker, wanted)

    def groups(
        self, *, where: str | None = None, new_within: Duration = NEW_WITHIN, **conditions: Unpack[Conditions]
    ) -> list[ErrorGroup]:
        """Group the dead letters by kind of failure. No bodies are read.

        With no condition other than `group`, only the groups are read, not their dead letters.

        Args:
            where: a condition.
            new_within: a group is new if its first dead letter died within this time: seconds, a timedelta or
                "24h".
            conditions: see `Conditions`.

        Returns:
            The groups, the largest first.

        Examples:
            >>> (group,) = mails.dlq.groups(reason="poison")
            >>> group.count, group.error
            (1, 'no address')
        """
        wanted = dead_choice(conditions, where=where)
        return Selection(self._core, self._broker, wanted).groups(new_within=new_within)

    def browse(
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
            order: "oldest" first, by time of death, or "newest" first.
            conditions: see `Conditions`.

        Returns:
            The dead letters, in that order.

        Examples:
            >>> for letter in mails.dlq.browse(where="body.to = 'bob'"):
            ...     print(letter.id, letter.cause.message)
            mail-1 no address
        """
        return self.select(where, limit=limit, order=order, **conditions).browse()  # type: ignore[return-value]

    @overload
    def redrive(
        self, *, dry_run: Literal[True], where: str | None = ..., limit: int | None = ...,
        order: Order = ..., all: bool = ..., rate: float | None = ..., canary: int | None = ...,
        min_success: float | None = ..., to: Queue[Any] | str | None = ..., create: bool = ...,
        edit: Callable[[T], object] | None = ..., ttl: Duration | None = ..., by: str | None = ...,
        detach: bool = ..., **conditions: Unpack[Conditions],
    ) -> Plan[RedriveJob]: ...  # fmt: skip
    @overload
    def redrive(
        self, *, dry_run: Literal[False] = ..., where: str | None = ..., limit: int | None = ...,
        order: Order = ..., all: bool = ..., rate: float | None = ..., canary: int | None = ...,
        min_success: float | None = ..., to: Queue[Any] | str | None = ..., create: bool = ...,
        edit: Callable[[T], object] | None = ..., ttl: Duration | None = ..., by: str | None = ...,
        detach: bool = ..., **conditions: Unpack[Conditions],
    ) -> RedriveJob: ...  # fmt: skip
    def redrive(
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
    ) -> RedriveJob | Plan[RedriveJob]:
        """Move dead letters back to their queue, with the same ids and histories and a fresh budget.

        Without a canary or a rate, all messages are back when the call returns. Otherwise `job.wait()` drives
        the redrive; if this process does not, workers and maintenance continue it after ten seconds. A
        message that dies again during the redrive stays dead. If two redrives choose the same message, it is
        redriven once.

        With `edit` or `to` only this process can continue the redrive: if the process ends, the remaining
        messages stay dead, and repeating the call redrives them. Such a redrive cannot be undone.

        Args:
            where: a condition.
            limit: the most messages to redrive; None: all.
            order: "oldest" first, by time of death, or "newest" first.
            all: redrive all that are dead when the call begins. This, a condition or a limit is required.
            rate: messages a second; None: no limit.
            canary: how many messages are redriven first, at most 1,000. The others follow when each of these
                has been acked or has died again.
            min_success: the fraction of the canary that must be acked; otherwise the redrive pauses. None:
                0.95 with a canary. With a rate it is checked throughout, over at least 20 messages.
            to: another queue for the messages, or its name. It excludes a canary, since the outcomes are
                counted in that queue.
            create: create that queue if it does not exist; by default a missing queue is an error.
            edit: a function that gets the body of each message and returns the new one. A message stays dead
                if the function raises an error, or if the body cannot be read, does not fit the queue's type
                or is too long; `job.refusals` gives the reasons.
            ttl: the messages' time to live from now (seconds, a timedelta or "1h"). "keep": they keep their
                expiry times, and messages past theirs stay dead. None: they do not expire.
            by: the operator's name, for the audit and the messages' histories; None: the user and host of
                this process.
            detach: leave the redrive to workers and maintenance from the start.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.
            conditions: see `Conditions`.

        Returns:
            The job, with its counts; for a dry run, the plan.

        Raises:
            InvalidInput: the call does not choose dead letters, an argument is not valid, or the queue `to`
                does not exist; nothing was done.
            CrossSlot: the queues are on different nodes of the cluster; nothing was done.

        Examples:
            >>> plan = mails.dlq.redrive(reason="poison", dry_run=True)
            >>> plan.eligible
            1
            >>> job = mails.dlq.redrive(reason="poison")
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
            planned = self._broker._run(start.plan(self._core, wanted, terms))

            def carry_out(by: str | None) -> RedriveJob:
                return self._redriven(planned.choice, replace(terms, by=by), planned)

            return plan_of(self._core.name, planned, carry_out)
        return self._redriven(wanted, terms)

    def _redriven(self, wanted: Choice, terms: Terms, planned: Planned | None = None) -> RedriveJob:
        job = self._begun(wanted, terms, planned)
        if terms.is_gradual:
            return job
        try:
            return job.wait()
        except BaseException as error:
            if terms.offered and not isinstance(error, GeneratorExit):  # only this job can continue it
                with suppress(RqDlqError):
                    job.cancel()
            raise

    def _begun(self, wanted: Choice, terms: Terms, planned: Planned | None = None) -> RedriveJob:
        """Begin a redrive, or find the one that a plan has begun, without driving it."""
        begun = self._broker._run(start.begin(self._core, wanted, terms, planned))
        return RedriveJob(self._core, self._broker, begun, terms)

    def jobs(self) -> list[RedriveJob]:
        """The running redrives and those of the last week, at most a hundred; the newest first.

        Returns:
            The jobs, the newest first.

        Examples:
            >>> job = mails.dlq.redrive(all=True, by="anna")
            >>> [(one.by, one.state, one.counts.moved) for one in mails.dlq.jobs()]
            [('anna', 'done', 1)]
        """
        found = self._broker._run(redrives.jobs(self._core))
        return [RedriveJob(self._core, self._broker, [one]) for one in found]

    def job(self, id: str) -> RedriveJob:
        """One redrive.

        Args:
            id: the job's id.

        Returns:
            The job.

        Raises:
            InvalidInput: no redrive has this id.

        Examples:
            >>> job = mails.dlq.redrive(all=True)
            >>> again = mails.dlq.job(job.id)
            >>> again.state
            'done'
        """
        return RedriveJob(self._core, self._broker, self._broker._run(redrives.find(self._core, id)))

    def mute(
        self, *, group: str | ErrorGroup, until: datetime | Duration | None = None, by: str | None = None
    ) -> bool:
        """Mute a group: `top`, the page and alerts do not report it as a problem. Its dead letters stay.

        Args:
            group: an `ErrorGroup` or its fingerprint; the first six digits mean all groups of one error class
                and place in the code.
            until: a datetime with a time zone, or a time from now (seconds, a timedelta or "4h"), at most 30
                days. None: until another message of this group dies.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed; False: it was already muted until then.

        Raises:
            InvalidInput: there is no such group.

        Examples:
            >>> (group,) = mails.dlq.groups()
            >>> mails.dlq.mute(group=group, until="4h")
            True
        """
        return self._broker._run(muting.mute(self._core, group, until, by))

    def unmute(self, *, group: str | ErrorGroup, by: str | None = None) -> bool:
        """Unmute a group: it is reported as a problem again while it is one.

        Args:
            group: as for `mute`.
            by: as for `mute`.

        Returns:
            Whether anything changed; False: it was not muted.

        Examples:
            >>> (group,) = mails.dlq.groups()
            >>> muted = mails.dlq.mute(group=group)
            >>> mails.dlq.unmute(group=group)
            True
        """
        return self._broker._run(muting.unmute(self._core, group, by))

    @overload
    def purge(
        self, *, where: str | None = ..., all: bool = ..., by: str | None = ...,
        dry_run: Literal[False] = ..., **conditions: Unpack[Conditions],
    ) -> Changed: ...  # fmt: skip
    @overload
    def purge(
        self, *, where: str | None = ..., all: bool = ..., by: str | None = ..., dry_run: Literal[True],
        **conditions: Unpack[Conditions],
    ) -> Plan[CarriedOut]: ...  # fmt: skip
    def purge(
        self,
        *,
        where: str | None = None,
        all: bool = False,
        by: str | None = None,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> Changed | Plan[CarriedOut]:
        """Remove dead letters permanently.

        Args:
            where: a condition.
            all: remove all of them. This or a condition is required.
            by: the operator's name, for the audit; None: the user and host of this process.
            dry_run: only count the messages, and return a `Plan`, which can be carried out.
            conditions: see `Conditions`.

        Returns:
            The number of removed messages; its `leased` is the number that are being processed.

        Raises:
            InvalidInput: there is neither a condition nor `all`, or both; nothing was done.

        Examples:
            >>> mails.dlq.purge(older_than="30d")
            0
            >>> plan = mails.dlq.purge(all=True, dry_run=True)
            >>> print(plan)
            1 dead letter of mails will be removed
            >>> print(plan.carry_out(by="anna"))
            1 removed
        """
        wanted = dead_choice(conditions, where=where, all=all)
        selection = Selection(self._core, self._broker, wanted)
        return selection.purge(by=by, dry_run=True) if dry_run else selection.purge(by=by)
