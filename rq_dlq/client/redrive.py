# Generated from rq_dlq/asyncio/redrive.py by `python -m tests.colours_twin --write`.
"""A redrive as a job: its progress, and its verbs."""

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

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.redrive.calls import Steering
    from rq_dlq.core.redrive.record import Redrive, RedriveState
    from rq_dlq.core.redrive.terms import Terms
    from rq_dlq.values.changed import CarriedOut, Refusal


class RedriveJob:
    """A redrive; `dlq.redrive(…)` returns one, and `dlq.jobs()` lists them.

    State and counts are those of the last call of a verb; `refresh` reads them again.

    Examples:
        >>> job = mails.dlq.redrive(all=True, canary=1, by="anna")
        >>> job.state, job.counts.eligible
        ('running', 1)
        >>> job = job.cancel()
        >>> job.state
        'cancelled'
        >>> job.by, job.chosen, job.how, job.refusals, job.carried_out
        ('anna', 'all', '', (), None)
        >>> again = mails.dlq.job(job.id)
        >>> again.began == job.began
        True
    """

    def __init__(
        self, core: QueueState[Any], broker: Broker, parts: Sequence[Redrive], terms: Terms | None = None
    ) -> None:
        self._core = core
        self._broker = broker
        self._editor = None if terms is None else Editor(core, terms)  # None: another object began it
        self._parts = list(parts)  # one, unless several queues share the name

    def __repr__(self) -> str:
        moved = f"{self.counts.moved:,} of {self.counts.eligible:,} moved"
        return f"<{type(self).__name__} {self.id} of {self._core.name!r}: {self.state}, {moved}>"

    @property
    def id(self) -> str:
        """Its id; for a name that several queues share, the ids of its parts."""
        return ",".join(part.id for part in self._parts)

    @property
    def state(self) -> RedriveState:
        """running, paused, done, cancelled or undone."""
        states: list[RedriveState] = [part.state for part in self._parts]
        return min(states or STATES[-1:], key=STATES.index)

    @property
    def counts(self) -> RedriveCounts:
        """How many messages were eligible, moved, gone, expired, refused, leased, acked, died, undone."""
        return sum((part.counts for part in self._parts), RedriveCounts())

    @property
    def why(self) -> str:
        """Why it is paused, or was cancelled automatically, in a sentence; empty: neither."""
        return "; ".join(filter(None, (part.pause for part in self._parts)))

    @property
    def chosen(self) -> str:
        """Its choice of messages, in words."""
        return self._parts[0].asked.chosen if self._parts else ""

    @property
    def how(self) -> str:
        """Its changes to the messages, in words; empty: none."""
        return self._parts[0].asked.how if self._parts else ""

    @property
    def carried_out(self) -> CarriedOut | None:
        """What it has done of its plan, with the differences in words; None: it was begun without a plan."""
        parts = [done for part in self._parts if (done := part.carried_out)]
        return sum(parts[1:], parts[0]) if parts else None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Messages that stay dead: their edit failed, or the target queue has their ids.

        The first hundred seen by this object; `counts.refused` is the number of all.
        """
        return tuple(self._editor.refusals.values()) if self._editor else ()

    @property
    def by(self) -> str:
        """The name of the operator who began it."""
        return name_of(self._parts[0].asked.by) if self._parts else ""

    @property
    def began(self) -> datetime | None:
        """When it began, by the server's clock (UTC)."""
        return moment(self._parts[0].asked.at) if self._parts else None

    def refresh(self) -> Self:
        """Read the state and the counts again.

        Raises:
            InvalidInput: the redrive is no longer stored.

        Examples:
            >>> job = mails.dlq.redrive(all=True, canary=1)
            >>> job = job.refresh()
            >>> job.state
            'running'
        """
        for n, part in self._stored():
            keys = replace(self._core.keys, family=part.family)
            self._parts[n] = self._broker._run(redrives.look(keys, part.id))
        return self

    def _stored(self) -> list[tuple[int, Redrive]]:
        """The parts with a record, which are those that found messages."""
        return [(n, part) for n, part in enumerate(self._parts) if part.counts.eligible]

    def wait(
        self,
        within: Duration | None = None,
        *,
        progress: Callable[[Self], object] | None = None,
    ) -> Self:
        """Drive the redrive until it is done or paused.

        Args:
            within: how long to wait; None: no limit. After that time the job may still be running.
            progress: called with the job after each step.

        Returns:
            The job.

        Raises:
            InvalidInput: another process began the redrive, and edits its messages or moves them to another
                queue.

        Examples:
            >>> job = mails.dlq.redrive(all=True, rate=100)
            >>> job = job.wait("1m")
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
            self._parts[n] = self._broker._run(steps)
        return self

    def _own(self, part: Redrive) -> Editor:
        """The changes to the messages of a part; only the object that began the redrive has them.

        Raises:
            InvalidInput: another object began it.
        """
        if self._editor is None:
            message = (
                f"only the process that began redrive {part.id} can continue it ({part.asked.how}): "
                "cancel it, and begin another one for the messages that are still dead"
            )
            raise InvalidInput(message)
        return self._editor

    def pause(self, by: str | None = None) -> Self:
        """Stop moving messages until `resume`.

        Args:
            by: the operator's name, for the audit; None: the user of this process.

        Raises:
            InvalidInput: the redrive has ended.

        Examples:
            >>> job = mails.dlq.redrive(all=True, rate=100)
            >>> job = job.pause(by="anna")
            >>> job.state, job.why
            ('paused', 'anna paused it')
        """
        return self._steer("pause", by)

    def resume(self, by: str | None = None) -> Self:
        """Continue without the canary; the success rate is computed from messages that end after this.

        `wait` drives the redrive; otherwise workers and maintenance do, after ten seconds.

        Args:
            by: the operator's name, for the audit; None: the user of this process.

        Raises:
            InvalidInput: the redrive has ended; or another process began it, and only that process can
                continue it.

        Examples:
            >>> job = mails.dlq.redrive(all=True, rate=100)
            >>> job = job.pause()
            >>> job = job.resume()
            >>> job.state
            'running'
        """
        for part in self._parts:
            if part.asked.offered:
                self._own(part)
        return self._steer("resume", by)

    def cancel(self, by: str | None = None) -> Self:
        """End the redrive: messages that are still dead stay dead.

        Args:
            by: the operator's name, for the audit; None: the user of this process.

        Raises:
            InvalidInput: the redrive has ended.

        Examples:
            >>> job = mails.dlq.redrive(all=True, rate=100)
            >>> job = job.cancel(by="anna")
            >>> job.state
            'cancelled'
        """
        return self._steer("cancel", by)

    def undo(self, by: str | None = None) -> Self:
        """End the redrive and take back its unclaimed messages: they are dead again, unchanged.

        Args:
            by: the operator's name, for the audit and the messages' histories; None: the user of this
                process.

        Raises:
            InvalidInput: the redrive edited its messages, or moved them to another queue.

        Examples:
            >>> job = mails.dlq.redrive(all=True)
            >>> job = job.undo(by="anna")
            >>> job.state, job.counts.undone
            ('undone', 1)
        """
        for n, part in self._stored():
            self._parts[n] = self._broker._run(redrives.undo(self._core, part, by))
        return self

    def _steer(self, verb: Steering, by: str | None) -> Self:
        refused: list[InvalidInput] = []
        parts = self._stored()
        for n, part in parts:
            try:
                self._parts[n] = self._broker._run(redrives.steer(self._core, part, verb, by))
            except InvalidInput as error:  # this part may have ended; the others may still run
                refused.append(error)
        if refused and len(refused) == len(parts):
            raise refused[0]
        return self
