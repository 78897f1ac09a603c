"""The index of groups: which groups there are, without reading the dead letters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq._calls import groups
from rq_dlq._work.steps import Batch, Steps
from rq_dlq.values.fingerprint import PLACE

if TYPE_CHECKING:
    from rq_dlq._calls.groups import Group, GroupPage
    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.choice import Choice
    from rq_dlq._work.queue import Queue

logger = logging.getLogger("rq_dlq")
PAGE = 50  # groups in one script


def indexed(keys: QueueKeys, prefix: str = "") -> Steps[tuple[int, list[Group]] | None]:
    """The server's clock, and the groups whose names begin so; None: not every dead letter is in a group."""
    found: list[Group] = []
    after = b""
    while True:
        page: GroupPage = yield groups.groups(keys, after=after, prefix=prefix, limit=PAGE)
        if not page.whole:
            _tell(keys)
            return None
        found += page.groups
        after = page.next
        if not after:
            return page.now, found


def by_group(queue: Queue[Any], choice: Choice) -> Steps[list[Choice]]:
    """The choice, divided into those that the index of groups answers; itself where that does not."""
    if choice.group is None or choice.ids is not None or choice.places_in(queue) != ["dead"]:
        return [choice]
    if len(choice.group) == PLACE:  # the class and the place of several groups
        found = yield from indexed(queue.keys, choice.group)
        return [choice] if found is None else [choice.of_group(group.name) for group in found[1]]
    dead, grouped = yield Batch(groups.sizes(queue.keys))
    if dead != grouped:
        _tell(queue.keys)
        return [choice]
    return [choice.of_group(choice.group)]


def _tell(keys: QueueKeys) -> None:
    logger.info(
        "%s: not all dead letters are in the index of groups, so all are read; workers and `rq-dlq maintain` "
        "complete it",
        keys.family,
    )
