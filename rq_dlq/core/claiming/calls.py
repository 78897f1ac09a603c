"""Claiming messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from rq_dlq.core.steps.call import Argument, Call, Part, read_rows, whole
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.failure import LAPSE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.message import MessageRow

Suspects: TypeAlias = Literal["all", "alone", "none"]
"""How a claim treats suspects, messages whose lease expired before. Manual claims take all. A worker's claim
takes one alone or, while its process is running another, none."""
_LAPSE = LAPSE.cells()
_WAITS: Final = one_of(Word.NO_EVENT, Word.SUSPECTS, Word.DELETED)
_BEFORE: Final = one_of(Word.GATHERED)


class Claimed(msgspec.Struct, frozen=True):  # made faster than a frozen dataclass
    """The reply of a claim.

    Attributes:
        now: the server's clock, milliseconds.
        wait: 0: claim again immediately; otherwise milliseconds until the next event. NO_EVENT: none is
            expected; SUSPECTS: this claim must not take the messages that are ready; DELETED: the queue was
            deleted since its opening.
        messages: how many were claimed. A repetition of a claim for "count" has the same number, whatever
            happened to the messages.
        rows: the messages, except for such a claim.
        size: about how many bytes they have, for such a claim.
        gathered: shares of gathers must be carried to other queues.
    """

    now: int
    wait: int | Word
    messages: int
    rows: Sequence[MessageRow] = ()
    size: int = 0
    gathered: bool = False


def claim(
    keys: QueueKeys,
    *,
    part: Part,
    token: str,
    count: int,
    lease: int,
    patience: int,
    alarmed: bool = False,
    suspects: Suspects = "all",
    thorough: bool = False,
    consumer: str,
    seed: float,
    default_policy: bytes,
    opening: str = "",
    answer: Literal["rows", "count"] = "rows",
) -> Call[Claimed]:
    """Hand out up to `count` messages for `lease` milliseconds.

    Args:
        patience: milliseconds that the client can wait for an event.
        alarmed: the last claim gave this client, and no other, the time to wake.
        suspects: "all", unless a worker claims; then the first lapse of a message is not charged.
        thorough: claim nothing before all lapsed leases are swept. If they are too many for one call, the
            claim returns nothing, with a wait of 0.
        opening: the queue's, when the client opened it; empty: any.
        answer: "count": another process reads the messages, see `read_claim`; a lapse is not charged.
    """
    args: dict[str, Argument] = {
        "token": token,
        "count": count,
        "lease": lease,
        "part": part,
        "consumer": consumer,
        "patience": patience,
        "alarmed": int(alarmed),
        "suspects": suspects,
        "answer": answer,
        "thorough": int(thorough),
        "opening": opening,
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": _LAPSE,
    }
    return Call("claim", keys, args, (), _read_claim if answer == "rows" else _read_claimed)


def _read_claimed(reply: Any) -> Claimed:
    now, wait, count, size = reply if len(reply) == 4 else (*reply, 0, 0)  # noqa: PLR2004
    wait, gathered = (wait, False) if isinstance(wait, int) else _wait_of(wait)
    return Claimed(now, wait, count, size=size, gathered=gathered)


def _read_claim(reply: Any) -> Claimed:
    now, wait, *cells = whole(reply, 2, and_each=4)
    rows = read_rows(cells)
    if isinstance(wait, int):
        return Claimed(now, wait, len(rows), rows)
    wait, gathered = _wait_of(wait)
    return Claimed(now, wait, len(rows), rows, 0, gathered)


def _wait_of(text: Any) -> tuple[int | Word, bool]:
    """A wait that is no number: when to claim again, and whether shares of gathers must be carried."""
    word, blank, rest = text.partition(b" ")
    if blank:
        _BEFORE[word]
        return int(rest) if rest.isdigit() else _WAITS[rest], True
    return _WAITS[text], False
