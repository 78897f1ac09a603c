# Generated from rq_dlq/asyncio/scheduled.py by `python -m tests.colours_twin --write`.
"""Schedules of a queue: recurring sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rq_dlq.client.own import OwnQueue
from rq_dlq.core.schedules import schedules
from rq_dlq.core.schedules.schedule import USUAL_ZONE, Missed, Rule, Schedule
from rq_dlq.core.sending import send
from rq_dlq.errors.guesses import answering, part_of
from rq_dlq.values.codec import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rq_dlq.values.durations import Duration

T = TypeVar("T")


@part_of("Queue")
class Scheduled(OwnQueue[T]):
    """The verbs of a queue for its schedules; `broker.schedules()` lists those of all queues."""

    @answering
    def schedule(
        self,
        name: str,
        body: T,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str = USUAL_ZONE,
        missed: Missed = "last",
        ttl: Duration | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        dependency: str | None = None,
        expires_at: datetime | None = None,
        by: str | None = None,
    ) -> Schedule:
        """Send a body repeatedly: one message per tick, however many processes run.

        Workers of the queue and `rq-dlq maintain` send it. The headers `schedule` and `tick` of each message
        name its schedule and its tick.

        Args:
            name: the schedule's name, unique in this queue. An existing schedule with this name is replaced;
                it keeps its ticks if `cron`, `every` and `timezone` are unchanged, and stays paused if it
                was.
            body: the body, of the queue's type; it is stored as JSON.
            cron: five fields, minute hour day month weekday, as in "0 7 * * mon-fri"; six with seconds first.
            every: the interval, a second or more; the first tick is one interval from now.
            timezone: the time zone of the cron expression, such as "Europe/Berlin".
            missed: what to do with ticks that passed while no process could send them. "last": the last one
                is sent, late. "all": all are sent, the oldest first. "skip": a tick more than a minute late
                is not sent.
            ttl: the time to live of each message; None: the queue's default.
            expires_at: the time at which its messages expire, in place of `ttl`: a datetime with a time zone.
                From then on its ticks send nothing.
            priority: the priority of each message, 9 (first) to 0 (last).
            headers: the headers of each message.
            key, dependency: the key and the dependency of each message; None: no key or dependency.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            The schedule, with its next tick.

        Raises:
            InvalidInput: an argument is not valid, or the body cannot be encoded; nothing was changed.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
        """
        options = send.send_options(
            None, ttl, priority, headers, key=key, dependency=dependency, expires_at=expires_at
        )
        record = schedules.recurring(self._core, body, Rule.of(cron, every, timezone, missed), options)
        return self._broker._run(schedules.schedule(self._core, name, record, by))

    def unschedule(self, name: str, *, by: str | None = None) -> bool:
        """Remove a schedule. Messages that it has sent stay.

        Args:
            name: the schedule's name.
            by: as for `schedule`.

        Returns:
            Whether the schedule existed.

        Raises:
            InvalidInput: this is not a valid name of a schedule.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> orders.unschedule("nightly")
            True
        """
        return self._broker._run(schedules.remove(self._core, name, by))

    def pause_schedule(self, name: str, *, by: str | None = None) -> bool:
        """Pause a schedule until `resume_schedule`. Its ticks in that time are skipped, not missed.

        Args:
            name: the schedule's name.
            by: as for `schedule`.

        Returns:
            Whether anything changed; False: it was already paused.

        Raises:
            InvalidInput: the schedule does not exist.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> orders.pause_schedule("nightly", by="anna")
            True
        """
        return self._broker._run(schedules.set_paused(self._core, name, paused=True, by=by))

    def resume_schedule(self, name: str, *, by: str | None = None) -> bool:
        """Resume a schedule, starting with its next tick.

        Args:
            name: the schedule's name.
            by: as for `schedule`.

        Returns:
            Whether anything changed; False: it was not paused.

        Raises:
            InvalidInput: the schedule does not exist.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> changed = orders.pause_schedule("nightly")
            >>> orders.resume_schedule("nightly")
            True
        """
        return self._broker._run(schedules.set_paused(self._core, name, paused=False, by=by))
