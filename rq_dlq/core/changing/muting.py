"""Muting groups of dead letters: they are not reported as problems for some time."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.groups import calls
from rq_dlq.core.groups.index import indexed
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import AT_ONCE
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import act_by
from rq_dlq.core.steps.driving import beside, together
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Pipeline, chunks
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.failure import epoch_milliseconds, moment
from rq_dlq.values.readable import utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueName, QueueState
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
    return behind(queue, partial(_mute, queue, _name_of(group), until, by))


def _mute(
    queue: QueueName,
    name: str,
    until: datetime | Duration | None,
    by: str | None,
    members: Sequence[QueueName],
) -> Steps[bool]:
    ((now, _), user), groups = yield from beside(_now_and_user(queue), _groups_of(members, name))
    upto = _end_of(until, now)
    how = "until its next death" if upto == AGAIN else f"until {utc(moment(upto))}"
    act = act_by(user, "muted", by, chosen=f"group {name}", how=how)
    found = changed = False
    for member, names in zip(members, groups, strict=True):
        for one in names:
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
    return behind(queue, partial(_unmute, _name_of(group), by))


def _unmute(name: str, by: str | None, members: Sequence[QueueName]) -> Steps[bool]:
    noting = act_of("unmuted", by, chosen=f"group {name}")
    act, groups = yield from beside(noting, _groups_of(members, name))
    changed = False
    for member, names in zip(members, groups, strict=True):
        for one in names or [name]:
            changed = bool((yield calls.mute(member.keys, one, upto=None, act=act))) or changed
    return changed


def _now_and_user(queue: QueueName) -> Steps[Any]:
    return (yield Pipeline([queue_calls.stats(queue.keys, queue.name), queue_calls.whoami()]))


def _name_of(group: str | ErrorGroup) -> str:
    if (name := Choice(group=group).group) is None:
        raise InvalidInput("group None: pass an ErrorGroup, or its fingerprint")
    return name


def _groups_of(members: Sequence[QueueName], name: str) -> Steps[list[list[str]]]:
    """The groups whose names begin with this; for failures without an error the group without a name."""
    found: list[list[str]] = []
    for some in chunks(members, AT_ONCE):
        listed = yield from together([indexed(member.keys, name) for member in some])
        found += [
            [group.name for group in (one[1] if one else ()) if name or not group.name] for one in listed
        ]
    return found


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
