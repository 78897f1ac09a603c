"""A redrive as a job: how far it came, and the verbs for it."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from rq_dlq.core.queues.who import name_of
from rq_dlq.core.redrive import redrives
from rq_dlq.core.redrive.offers import Editor, drive_offered
from rq_dlq.core.redrive.record import STATES, RedriveCounts
from rq_dlq.core.steps.step import Deadline
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.failure import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Self

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.redrive.calls import Steering
    from rq_dlq.core.redrive.record import Redrive, RedriveState, Refusal
    from rq_dlq.core.redrive.terms import Terms


class RedriveJob:
    """What `dlq.redrive(…)` returns, and `dlq.jobs()` lists.

    State and counts are as of the last verb; `refresh` reads them anew.

    Examples:
        >>> job = await mails.dlq.redrive(all=True, canary=1, by="anna")
        >>> job.state, job.counts.eligible
        ('running', 1)
        >>> job = await job.cancel()
        >>> job.state
        'cancelled'
        >>> job.by, job.chosen, job.how, job.refusals
        ('anna', 'all', '', ())
        >>> again = await mails.dlq.job(job.id)
        >>> again.began == job.began
        True
    """

    def __init__(
        self, core: QueueState[Any], broker: Broker, parts: Sequence[Redrive], terms: Terms | None = None
    ) -> None:
        self._core = core
        self._broker = broker
        self._editor = None if terms is None else Editor(core, terms)  # None: another object began it
        self._parts = list(parts)  # one, but for a name that several queues share

    def __repr__(self) -> str:
        moved = f"{self.counts.moved:,} of {self.counts.eligible:,} moved"
        return f"<{type(self).__name__} {self.id} of {self._core.name!r}: {self.state}, {moved}>"

    @property
    def id(self) -> str:
        """Its id; of a name that several queues share, those of its parts."""
        return ",".join(part.id for part in self._parts)

    @property
    def state(self) -> RedriveState:
        """running, paused, done, cancelled or undone."""
        states: list[RedriveState] = [part.state for part in self._parts]
        return min(states or STATES[-1:], key=STATES.index)

    @property
    def counts(self) -> RedriveCounts:
        """How many messages were eligible, moved, gone, expired, refused, acked, died, undone."""
        return sum((part.counts for part in self._parts), RedriveCounts())

    @property
    def why(self) -> str:
        """Why it is paused, or was cancelled by itself, a sentence; empty: neither."""
        return "; ".join(filter(None, (part.pause for part in self._parts)))

    @property
    def chosen(self) -> str:
        """Its messages, in words."""
        return self._parts[0].asked.chosen if self._parts else ""

    @property
    def how(self) -> str:
        """What it changes in the messages, in words; empty: nothing."""
        return self._parts[0].asked.how if self._parts else ""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Messages that stay dead since they could not be edited, or the other queue has their ids.

        The first hundred that this object has met; `counts.refused` says how many there are.
        """
        return tuple(self._editor.refusals.values()) if self._editor else ()

    @property
    def by(self) -> str:
        """Who began it."""
        return name_of(self._parts[0].asked.by) if self._parts else ""

    @property
    def began(self) -> datetime | None:
        """When it began, by the server's clock (UTC)."""
        return moment(self._parts[0].asked.at) if self._parts else None

    async def refresh(self) -> Self:
        """Read the state and the counts anew.

        Raises:
            InvalidInput: it was forgotten.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, canary=1)
            >>> job = await job.refresh()
            >>> job.state
            'running'
        """
        for n, part in self._stored():
            keys = replace(self._core.keys, family=part.family)
            self._parts[n] = await self._broker._run(redrives.look(keys, part.id))
        return self

    def _stored(self) -> list[tuple[int, Redrive]]:
        """The parts that have a record: those that found messages."""
        return [(n, part) for n, part in enumerate(self._parts) if part.counts.eligible]

    async def wait(
        self,
        within: Duration | None = None,
        *,
        progress: Callable[[Self], object] | None = None,
    ) -> Self:
        """Drive it until it does not run any more: it is done, or it has paused.

        Args:
            within: how long to wait; None: as long as it takes. When it is over, the job may still run.
            progress: gets the job after each step.

        Returns:
            The job.

        Raises:
            InvalidInput: another process began it, and edits its messages or moves them to another queue.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, rate=100)
            >>> job = await job.wait("1m")
            >>> job.state, job.counts.moved
            ('done', 1)
        """
        deadline = Deadline(monotonic, None if within is None else milliseconds(within, name="within"))
        for n, part in self._stored():
            keys = replace(self._core.keys, family=part.family)

            def told(now: Redrive, n: int = n) -> None:
                self._parts[n] = now
                if progress is not None:
                    progress(self)

            if not part.asked.offered:
                steps = redrives.drive(keys, part.id, deadline, told)
            elif self._editor is None and part.state != "running":
                steps = redrives.look(keys, part.id)
            else:
                steps = drive_offered(keys, part, self._own(part), deadline, told)
            self._parts[n] = await self._broker._run(steps)
        return self

    def _own(self, part: Redrive) -> Editor:
        """The changes to the messages of a part, which only the object that began the redrive has.

        Raises:
            InvalidInput: another one did.
        """
        if self._editor is None:
            message = (
                f"only the process that began redrive {part.id} can go on with it ({part.asked.how}): "
                "cancel it, and begin another one for what is still dead"
            )
            raise InvalidInput(message)
        return self._editor

    async def pause(self, by: str | None = None) -> Self:
        """Stop moving messages; `resume` goes on.

        Args:
            by: who pauses it, for the audit; None: the user of this process.

        Raises:
            InvalidInput: it is over.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, rate=100)
            >>> job = await job.pause(by="anna")
            >>> job.state, job.why
            ('paused', 'anna paused it')
        """
        return await self._steer("pause", by)

    async def resume(self, by: str | None = None) -> Self:
        """Go on, without the canary; its success is judged by messages that end from now on.

        `wait` drives it; else workers and maintenance do, after ten seconds.

        Args:
            by: who resumes it, for the audit; None: the user of this process.

        Raises:
            InvalidInput: it is over; or another process began it, and only that can go on with it.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, rate=100)
            >>> job = await job.pause()
            >>> job = await job.resume()
            >>> job.state
            'running'
        """
        for part in self._parts:
            if part.asked.offered:
                self._own(part)
        return await self._steer("resume", by)

    async def cancel(self, by: str | None = None) -> Self:
        """End it: what is still dead stays dead.

        Args:
            by: who cancels it, for the audit; None: the user of this process.

        Raises:
            InvalidInput: it is over.

        Examples:
            >>> job = await mails.dlq.redrive(all=True, rate=100)
            >>> job = await job.cancel(by="anna")
            >>> job.state
            'cancelled'
        """
        return await self._steer("cancel", by)

    async def undo(self, by: str | None = None) -> Self:
        """End it, and take back what nobody has claimed since: these messages are dead again, as they were.

        Args:
            by: who undoes it, for the audit and the messages' history; None: the user of this process.

        Raises:
            InvalidInput: it edited its messages, or moved them to another queue.

        Examples:
            >>> job = await mails.dlq.redrive(all=True)
            >>> job = await job.undo(by="anna")
            >>> job.state, job.counts.undone
            ('undone', 1)
        """
        for n, part in self._stored():
            self._parts[n] = await self._broker._run(redrives.undo(self._core, part, by))
        return self

    async def _steer(self, verb: Steering, by: str | None) -> Self:
        refused: list[InvalidInput] = []
        parts = self._stored()
        for n, part in parts:
            try:
                self._parts[n] = await self._broker._run(redrives.steer(self._core, part, verb, by))
            except InvalidInput as error:  # this part is over, perhaps; the others may go on
                refused.append(error)
        if refused and len(refused) == len(parts):
            raise refused[0]
        return self
