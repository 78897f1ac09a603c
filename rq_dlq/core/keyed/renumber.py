"""Lanes of 0.1.0, which had another hash for their numbers, get those of this version (lua/renumber.lua)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rq_dlq.core.keyed import calls
from rq_dlq.core.steps.replies import Word
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.step import Steps

STEP = 100  # seats or rows that one call renumbers, about
logger = logging.getLogger("rq_dlq")


def renumber(keys: QueueKeys) -> Steps[None]:
    """Renumber all lanes of a queue. From the first step on, programs of 0.1.0 get errors there.

    Other programs may do the same; one that was interrupted is repeated from the start.

    Raises:
        BrokerRefused: calls run whose messages were cancelled, and it is unknown which keys they block.
    """
    logger.warning(
        "%s: its keys and dependencies get the lanes of this version: programs of 0.1.0 get errors there",
        keys.family,
    )
    after: bytes | Word = b""
    while not isinstance(after, Word):
        after = yield calls.renumber(keys, after, limit=STEP)
    if after is Word.CALLS_RUN:
        message = (
            f"{keys.family}: calls of a program of 0.1.0 run on, although their messages were cancelled, and "
            "it is unknown which keys they block: stop that program, or try again when they have ended"
        )
        raise BrokerRefused(message)
