"""Dead letters by their cause: counted by the index of groups, or by reading those that meet a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._calls import groups as calls
from rq_dlq._calls import upkeep
from rq_dlq._work.group_index import indexed
from rq_dlq._work.reading import following, read, sources
from rq_dlq.values.counts import ErrorGroup, GroupCount
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.wanted import STORY

if TYPE_CHECKING:
    from rq_dlq._calls.groups import Group
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.choice import Choice
    from rq_dlq._work.queue import Queue
    from rq_dlq._work.steps import Steps
    from rq_dlq.values.codec import Codec

NEW_WITHIN = "24h"


def groups(queue: Queue[Any], choice: Choice, new_within: Duration = NEW_WITHIN) -> Steps[list[ErrorGroup]]:
    """The dead letters among them by their cause, the largest group first.

    Raises:
        InvalidDuration: `new_within` is not valid.
    """
    within = milliseconds(new_within, name="new_within")
    found: dict[str, ErrorGroup] = {}
    counted: list[ErrorGroup] = []
    if choice.limit is not None:
        counted = yield from _counted(queue, choice, within)
    else:
        for member in (yield from sources(queue, choice)):
            counted += yield from _of_one(member, choice, within)
    for group in counted:
        known = found.get(group.fingerprint)
        found[group.fingerprint] = group if known is None else known + group
    return sorted(found.values(), key=lambda group: (-group.count, group.fingerprint))


def _of_one(queue: Queue[Any], choice: Choice, within: int) -> Steps[list[ErrorGroup]]:
    if choice.only_group and choice.places_in(queue) == ["dead"]:
        found = yield from index_groups(queue.keys, queue.codec, within, choice.group or "")
        if found is not None:
            return found
    return (yield from _counted(queue, choice, within))


def index_groups(
    keys: QueueKeys, codec: Codec[Any], within: int, prefix: str = ""
) -> Steps[list[ErrorGroup] | None]:
    """The groups of a queue whose names begin so; None: the index does not tell.

    Args:
        within: how long ago the first letter of a new group died at most, milliseconds.
    """
    listed = yield from indexed(keys, prefix)
    now, found = listed or (0, [])
    if listed is None or any(row.version_needed for group in found for row in group.newest):
        return None
    return [_count_of(keys, codec, group).group(now, within) for group in found]


def _count_of(keys: QueueKeys, codec: Codec[Any], group: Group) -> GroupCount:
    letters = [DeadLetter(row, codec, keys.family) for row in group.newest]
    return GroupCount(
        group.name, group.count, group.first, group.last, group.hour, group.day, letters, group.cleared
    )


def _counted(queue: Queue[Any], choice: Choice, within: int) -> Steps[list[ErrorGroup]]:
    """The same by reading the letters; the groups of each queue of a view."""
    found: dict[tuple[str, str], GroupCount] = {}
    cleared: dict[tuple[str, str], int | None] = {}
    now = 0
    reading = read(queue, choice, STORY)
    while page := (yield from following(reading)):
        keys = page.queue.keys
        now = now or (yield upkeep.stats(keys, page.queue.name))[0]
        for letter in page.messages:
            if not isinstance(letter, DeadLetter):
                continue
            key = (keys.family, letter.fingerprint)
            if key not in found:
                found[key] = GroupCount(letter.fingerprint, first=letter.due, last=letter.due)
                cleared[key] = (yield calls.cleared(keys, key[1])) if page.place == "dead" else None
            found[key].add(letter, now)
    for key, count in found.items():
        count.cleared = cleared[key]
    return [count.group(now, within) for count in found.values()]
