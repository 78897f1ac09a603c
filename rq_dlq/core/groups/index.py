"""The index of groups: which groups there are, without reading the dead letters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq.core.groups import calls
from rq_dlq.values.counts import ErrorGroup, GroupCount
from rq_dlq.values.message import DeadLetter

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.groups.calls import Group, GroupPage
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.codec import Codec

logger = logging.getLogger("rq_dlq")
PAGE = 50  # groups in one call


def indexed(keys: QueueKeys, prefix: str = "") -> Steps[tuple[int, list[Group]] | None]:
    """The server's clock, and the groups whose names begin with this; None: the index is incomplete."""
    found: list[Group] = []
    after = b""
    while True:
        page: GroupPage = yield calls.groups(keys, after=after, prefix=prefix, limit=PAGE)
        if not page.whole:
            _tell(keys)
            return None
        found += page.groups
        after = page.next
        if not after:
            return page.now, found


def _tell(keys: QueueKeys) -> None:
    logger.info(
        "%s: not all dead letters are in the index of groups, so all are read; workers and `rq-dlq maintain` "
        "complete it",
        keys.family,
    )


NEW_WITHIN = "24h"


def index_groups(
    keys: QueueKeys, codec: Codec[Any], within: int, prefix: str = ""
) -> Steps[list[ErrorGroup] | None]:
    """The groups of a queue whose names begin with this; None: the index is incomplete.

    Args:
        within: the greatest age of the first dead letter of a new group, milliseconds.
    """
    listed = yield from indexed(keys, prefix)
    now, found = listed or (0, [])
    if listed is None or any(row.version_needed for group in found for row in group.newest):
        return None
    return [_count_of(keys, codec, group).group(now, within) for group in found]


def _count_of(keys: QueueKeys, codec: Codec[Any], group: Group) -> GroupCount:
    letters = [DeadLetter(row, codec, keys.family) for row in group.newest]
    return GroupCount(
        group.name,
        group.count,
        group.first,
        group.last,
        group.hour,
        group.day,
        letters,
        group.cleared,
        group.muted,
    )
