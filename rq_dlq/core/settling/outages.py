"""Failures that count against a dependency, and the log of outages."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed.keyed import said
from rq_dlq.core.keyed.outages import read
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.errors import RqDlqError
from rq_dlq.values import outage
from rq_dlq.values.failure import behind, class_name
from rq_dlq.values.message import Received
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Held
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.settlement import Settlement

logger = logging.getLogger("rq_dlq")


def log_opened(queue: QueueName, settlements: Iterable[Settlement]) -> None:
    """Log the dependencies that count as down since these failures."""
    for opened in {one.opened for one in settlements if one.opened}:
        logger.warning(
            "%s: %s counts as down: its messages wait, uncharged, and it probes by itself; nothing to do",
            *(queue.name, visible_line(opened)),
        )


def log_ended(queue: QueueState[Any], settlements: Iterable[Settlement]) -> Steps[None]:
    """Log the dependencies that are back since these acks, and how many messages come back."""
    for name in {one.closed for one in settlements if one.closed}:
        what = f"{name} is back"
        with suppress(RqDlqError):  # the acks are done in any case
            at, found = yield from unrepeated(read(queue, name))
            what = outage.what(found, at) if found.condition == "coming back" else what
        logger.info("%s: %s", queue.name, visible_line(what))


def note_uncounted(
    queue: QueueState[Any], held: Sequence[Held], error: BaseException | str | None
) -> Steps[None]:
    """Note and log, once for each class of errors, that failures did not count against a dependency.

    The errors of the breaker do not include them. The message is read for that, since most failures of a
    message without a dependency are none of the breaker's business.
    """
    kind = class_name(type(behind(error))) if isinstance(error, BaseException) else ""
    if (
        queue.part != "live"
        or queue.view
        or not held
        or not queue.client.blocked.may_be_uncounted(queue.name, kind)
    ):
        return
    page: Page = yield page_calls.browse(queue.keys, ids=[held[0][0]], wanted=RECORD)
    for row in page.rows():
        _, dependency = said(Received(row, queue.codec, queue.name))
        if dependency is not None:
            queue.client.blocked.note_uncounted(queue.name, kind)
            logger.warning(
                "%s: %s did not count against %s, since Breaker(errors=...) does not include it. If it means "
                "that %s is down, add it",
                *(queue.name, kind or "an error in words"),
                *(visible_line(dependency), visible_line(dependency)),
            )
