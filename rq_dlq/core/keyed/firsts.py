"""The keys and dependencies of the first messages of a queue, which show what its senders name."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.core.keyed.keyed import said
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.values.message import Received
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import RECORD, STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page, Readable
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Call
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.codec import Codec

logger = logging.getLogger("rq_dlq")
SAMPLE: Final = 5  # messages examined in each state of a queue


def first_said(keys: QueueKeys, codec: Codec[Any]) -> Steps[list[tuple[str | None, str | None]]]:
    """The key and the dependency of each of the first ready, scheduled and dead messages."""
    pages: list[Page] = yield Pipeline([_first(keys, place) for place in ("ready", "scheduled", "dead")])
    return [said(Received(row, codec, keys.family)) for page in pages for row in page.rows()]


def warn_if_misspelt(queue: QueueState[Any], dependency: str) -> Steps[None]:
    """Warn if the first messages have no dependency, or one that is spelt almost like this one."""
    found = [text for _, text in (yield from first_said(queue.keys, queue.codec))]
    names = {text for text in found if text is not None}
    if not found or dependency in names or (names and not get_close_matches(dependency, names)):
        return
    they = ", ".join(map(visible_line, sorted(names)))
    logger.warning(
        "%s: none of its first messages needs %s; %s",
        *(queue.name, visible_line(dependency), f"they need {they}" if they else "they name no dependency"),
    )


def _first(keys: QueueKeys, place: Readable) -> Call[Page]:
    return page_calls.scan(
        keys, place, after=page_calls.START, upto=page_calls.END, limit=SAMPLE, wanted=RECORD | STATE
    )
