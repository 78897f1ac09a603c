"""Muting groups of dead letters: they are not reported as problems for some time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.groups import calls
from rq_dlq.core.groups.index import indexed
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.views import members
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.failure import epoch_milliseconds, moment
from rq_dlq.values.readable import utc

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.counts import ErrorGroup

DAY = 86_400_000  # milliseconds
LONGEST = 30  # days, which the key of muted groups is kept
AGAIN = 0  # until another message of the group dies


def mute(
    queue: QueueState[Any], group: str | ErrorGroup, until: datetime | Duration | None, by: str | None
) -> Steps[bool]:
    """Mute a group, or all kinds of one class; whether that changed anything.

    Raises:
        InvalidInput: the group does not exist, too many are muted, or an argument is not valid.
    """
    name = _name_of(group)
    now, _ = yield queue_calls.stats(queue.keys, queue.name)
    upto = _end_of(until, now)
    how = "until its next death" if upto == AGAIN else f"until {utc(moment(upto))}"
    act = yield from act_of("muted", by, chosen=f"group {name}", how=how)
    found = changed = False
    for member in (yield from members(queue)):
        for one in (yield from _groups_of(member, name)):
            found = True
            did: Word = yield calls.mute(member.keys, one, upto=upto, act=act)
            if did is Word.FULL:
                message = f"{member.keys.family!r} has a thousand muted groups: unmute some, or purge them"
                raise ERRORS[did](message)
            changed = changed or bool(did)
    if not found:
        raise InvalidInput(f"{queue.name!r} has no group {name!r}: `groups()` lists its groups")
    return changed


def unmute(queue: QueueState[Any], group: str | ErrorGroup, by: str | None) -> Steps[bool]:
    """Unmute a group, or all kinds of one class; whether that changed anything."""
    name = _name_of(group)
    act = yield from act_of("unmuted", by, chosen=f"group {name}")
    changed = False
    for member in (yield from members(queue)):
        names = (yield from _groups_of(member, name)) or [name]
        for one in names:
            changed = bool((yield calls.mute(member.keys, one, upto=None, act=act))) or changed
    return changed


def _name_of(group: str | ErrorGroup) -> str:
    if (name := Choice(group=group).group) is None:
        raise InvalidInput("group None: pass an ErrorGroup, or its fingerprint")
    return name


def _groups_of(queue: QueueState[Any], name: str) -> Steps[list[str]]:
    """The groups whose names begin with this; for failures without an error the group without a name."""
    listed = yield from indexed(queue.keys, name)
    return [one.name for one in (listed[1] if listed else ()) if name or not one.name]


def _end_of(until: datetime | Duration | None, now: int) -> int:
    if until is None:
        return AGAIN
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise InvalidInput(f"until {shown(until)}: pass a datetime with a time zone, or a time from now")
        upto = epoch_milliseconds(until)
    else:
        upto = now + milliseconds(until, name="until", minimum=1)
    if not now < upto <= now + LONGEST * DAY:
        raise InvalidInput(f"until {utc(moment(upto))}: it must end within {LONGEST} days from now")
    return upto
