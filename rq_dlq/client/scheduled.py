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
        by: str | None = None,
    ) -> Schedule:
        """Send a body again and again, one message a tick, however many processes run.

        Workers of the queue and `rq-dlq maintain` send it. The headers `schedule` and `tick` of each message
        say which schedule and which tick it is for.

        Args:
            name: of the schedule, in this queue. One that has it already is replaced; it keeps its ticks if
                `cron`, `every` and `timezone` are the same, and a paused one stays paused.
            body: of the queue's type; it is stored as JSON.
            cron: five fields, minute hour day month weekday, as in "0 7 * * mon-fri"; six with seconds first.
            every: the interval, a second or more; the first tick is one interval from now.
            timezone: of the cron expression, such as "Europe/Berlin".
            missed: what becomes of ticks at which nothing ran that could send them. "last": the last of them
                is sent, late. "all": each is, the oldest first. "skip": a tick is not sent if it is more than
                a minute late.
            ttl: time to live of each message; None: the queue's default.
            priority: of each message, 9 (first) to 0 (last).
            headers: of each message.
            key, dependency: of each message; None: none.
            by: who does it, for the audit; None: the user of this process, at this host.

        Returns:
            The schedule, with its next tick.

        Raises:
            InvalidInput: an argument is not valid, or the body cannot be encoded; nothing was changed.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
        """
        options = send.send_options(None, ttl, priority, headers, key=key, dependency=dependency)
        record = schedules.recurring(self._core, body, Rule.of(cron, every, timezone, missed), options)
        return self._broker._run(schedules.schedule(self._core, name, record, by))

    def unschedule(self, name: str, *, by: str | None = None) -> bool:
        """Remove a schedule. What it has sent stays.

        Args:
            name: of the schedule.
            by: as for `schedule`.

        Returns:
            Whether there was one.

        Raises:
            InvalidInput: this cannot be the name of one.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> orders.unschedule("nightly")
            True
        """
        return self._broker._run(schedules.remove(self._core, name, by))

    def pause_schedule(self, name: str, *, by: str | None = None) -> bool:
        """Send nothing for a schedule until `resume_schedule`. Ticks until then are not missed, but left out.

        Args:
            name: of the schedule.
            by: as for `schedule`.

        Returns:
            Whether this changed anything; False: it was paused already.

        Raises:
            InvalidInput: there is no such schedule.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> orders.pause_schedule("nightly", by="anna")
            True
        """
        return self._broker._run(schedules.set_paused(self._core, name, paused=True, by=by))

    def resume_schedule(self, name: str, *, by: str | None = None) -> bool:
        """Send for a schedule again, from its next tick on.

        Args:
            name: of the schedule.
            by: as for `schedule`.

        Returns:
            Whether this changed anything; False: it was not paused.

        Raises:
            InvalidInput: there is no such schedule.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> changed = orders.pause_schedule("nightly")
            >>> orders.resume_schedule("nightly")
            True
        """
        return self._broker._run(schedules.set_paused(self._core, name, paused=False, by=by))
