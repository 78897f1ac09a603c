"""The words of replies, and the errors that callers get by them.

`lua/reply.lua` has the same words, and says what each means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from rq_dlq.core.steps.call import WrongReply
from rq_dlq.errors import BrokerRefused, InvalidInput, LeaseLost, RqDlqError


class Word(StrEnum):
    """A word of a reply; true only if what was asked was done."""

    DONE = "done"
    DONE_BEFORE = "done_before"
    UNCHANGED = "unchanged"
    NOTHING = "nothing"
    STOPPED = "stopped"

    DELETED = "deleted"
    OUTDATED = "outdated"
    OVERTAKEN = "overtaken"
    EARLY = "early"
    PAST = "past"
    DOWN = "down"
    UNLIMITED = "unlimited"
    FULL = "full"
    LIMITED = "limited"
    NOT_EMPTY = "not_empty"
    INCOMPLETE = "incomplete"
    KNOWN = "known"
    UNKNOWN = "unknown"
    LATER = "later"
    WRONG_LANE = "wrong_lane"
    OLD_LANES = "old_lanes"
    OVER = "over"
    CALLS_RUN = "calls_run"

    NO_EVENT = "no_event"
    SUSPECTS = "suspects"
    GATHERED = "gathered"

    SETTLED = "settled"
    SETTLED_BEFORE = "settled_before"
    LOST = "lost"
    GONE = "gone"

    ACKED = "acked"
    REDELIVERED = "redelivered"
    DEAD = "dead"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    KEPT = "kept"
    PASSED_ON = "passed_on"
    CANCELLED = "cancelled"
    UNCHARGED = "uncharged"
    CLOSED = "closed"

    READY = "ready"
    SCHEDULED = "scheduled"
    LEASED = "leased"
    BATCH = "batch"
    PENDING = "pending"
    UNASKED = "unasked"

    REPLACED = "replaced"
    POSTPONED = "postponed"
    REDRIVEN = "redriven"
    AGAIN = "again"
    OTHER_KEY = "other_key"

    def __bool__(self) -> bool:
        return self is Word.DONE


ERRORS: Final[Mapping[str, type[RqDlqError]]] = MappingProxyType(
    {
        Word.DELETED: InvalidInput,
        Word.PAST: InvalidInput,
        Word.DOWN: InvalidInput,
        Word.UNLIMITED: InvalidInput,
        Word.FULL: InvalidInput,
        Word.NOT_EMPTY: InvalidInput,
        Word.UNKNOWN: InvalidInput,
        Word.BATCH: InvalidInput,
        Word.OVER: InvalidInput,
        Word.INCOMPLETE: BrokerRefused,
        Word.WRONG_LANE: BrokerRefused,
        Word.CALLS_RUN: BrokerRefused,
        Word.OVERTAKEN: LeaseLost,
        Word.LOST: LeaseLost,
        Word.GONE: LeaseLost,
    }
)
"""The classes of the errors that callers get by these words.

Others are no errors, are followed by another try (OLD_LANES: after `core/keyed/renumber.py`; LIMITED: by
another verb), or have an error with more than a text: KNOWN (`KnownId`),
LATER (`values.later.upgrade`).
"""
_LIKE_A_WORD: Final = re.compile(rb"[a-z][a-z_]+")


class UnknownWord(WrongReply):
    """The reply has a word that this version of the package does not know."""

    def __init__(self, word: str) -> None:
        super().__init__(
            f"the broker replied {word!r}, which this process cannot read: restart it, if another version of "
            "rq_dlq was installed while it ran"
        )


class OneOf(dict[bytes, Word]):
    """Reads a word as it is received, one of these.

    Raises:
        UnknownWord: it is another.
        WrongReply: it is no word.
    """

    def __missing__(self, reply: Any) -> Word:
        if isinstance(reply, bytes) and _LIKE_A_WORD.fullmatch(reply):
            raise UnknownWord(reply.decode())
        raise WrongReply

    def __call__(self, reply: Any) -> Word:
        """The word that a reply is."""
        return self[reply]


def one_of(*words: Word) -> OneOf:
    """A reader for a reply that is one of these words."""
    return OneOf((word.encode(), word) for word in words)
