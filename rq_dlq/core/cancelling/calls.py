"""Cancelling a message, and notifying its worker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from rq_dlq import _keys
from rq_dlq.core.steps.call import Argument, Call, Command, Held, Sender, whole
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.codec import NO_JSON

_OUTCOME: Final = one_of(
    Word.CANCELLED, Word.DEAD, Word.EXPIRED, Word.BATCH, Word.LATER, Word.ACKED, Word.UNKNOWN
)  # fmt: skip
KEPT = 60_000  # milliseconds that a notice waits for its worker
MOST = 1_000  # notices that wait for one


class CancelFound(NamedTuple):
    """The result of a cancel.

    Attributes:
        word: CANCELLED, DEAD, EXPIRED, BATCH, LATER, ACKED or UNKNOWN.
        birth: of the send that this is about; 0: unknown.
        token: the token of a leased message; empty: it was not leased.
        holder: its consumer, as JSON.
    """

    word: Word
    birth: int
    token: str
    holder: str


class Notice(NamedTuple):
    """A notice that a held message, by id and token, was cancelled."""

    queue: str
    held: Held


def cancel(sender: Sender, *, id: str, act: str = "", birth: int = 0) -> Call[CancelFound]:
    """Cancel a message.

    Args:
        birth: of its send; 0: whichever message has the id.
        act: the entry for the audit (`who.act`); empty: no note.
    """

    def read(reply: Any) -> CancelFound:
        word, birth, token, holder = whole(reply, 4)
        return CancelFound(_OUTCOME[word], int(birth), token.decode(), holder.decode(errors="replace"))

    args: dict[str, Argument] = {"number": sender.number, "id": id, "act": act, "meant": birth}
    return Call("cancel", sender.keys, args, (), read)


def tell(namespace: str, process: str, notice: Notice) -> list[Command[Any]]:
    """Leave a notice for the worker processes of this name; the last thousand stay, for a minute."""
    key, text = _keys.cancelled(namespace, process), msgspec.json.encode((notice.queue, *notice.held))
    return [
        Command((b"RPUSH", key, text), int),
        Command((b"LTRIM", key, -MOST, -1), bool),
        Command((b"PEXPIRE", key, KEPT), int),
    ]


def notices(namespace: str, process: str) -> Command[list[Notice]]:
    """The notices for the processes with this name."""
    return Command((b"LRANGE", _keys.cancelled(namespace, process), 0, -1), _read_notices)


def _read_notices(reply: Sequence[bytes]) -> list[Notice]:
    found: list[Notice] = []
    for text in reply:
        with suppress(*NO_JSON):
            queue, message_id, token = msgspec.json.decode(text, type=tuple[str, str, str])
            found.append(Notice(queue, (message_id, token)))
    return found
