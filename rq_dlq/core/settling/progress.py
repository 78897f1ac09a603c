"""The progress of a message's call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq.core.settling import calls
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.core.settling.settle import family_of
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from rq_dlq.values.durations import shown
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueName
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased

logger = logging.getLogger("rq_dlq")
MOST = 100  # characters


def progress(queue: QueueName, one: Leased[Any], part: float, text: str) -> Steps[None]:
    """Note the progress of a call. A refusal by the server is only logged. The arguments are checked at once.

    Raises:
        InvalidInput: the part is not a number from 0 to 1, or the text is not text.
        LeaseLost: the token is stale.
    """
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
        raise InvalidInput(f"progress {shown(part)}: pass the fraction that is done, a number from 0 to 1")
    if not isinstance(text, str):
        raise InvalidInput(f"progress of {shown(text)}: pass a text, or leave it out")
    return _note(queue, one, part, text)


def _note(queue: QueueName, one: Leased[Any], part: float, text: str) -> Steps[None]:
    try:
        still = yield calls.progress(family_of(queue, one.token), one._held, part=part, text=text[:MOST])
    except (BrokerRefused, BrokerUnavailable) as error:
        logger.debug("%s %s: its progress was not noted: %s", queue.name, one.id, error)
        return
    if not still:
        held_or_raise(Settlement(one.id, "lost"), one.outcome)
