"""Adding messages to a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from rq_dlq.core.steps.call import Argument, Call, Sender
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.sent import Did, Known


class Place(NamedTuple):
    """The place of a known message.

    Attributes:
        known: None: unknown.
        birth: of its send; 0: unknown.
        other_key: it has another key than the item.
        did: what the send did to it; None: nothing.
        refused: since it has another key or dependency, nothing was done to it that was asked for.
    """

    known: Known | None
    birth: int = 0
    other_key: bool = False
    did: Did | None = None
    refused: bool = False


Sending: TypeAlias = "Callable[..., Call[Taken | None]]"
"""Makes a call that sends; the arguments are those of `send`."""
Places: TypeAlias = "Mapping[int, Place]"
"""Of the items that the queue knew, by their numbers; 0 is the first."""


class Taken(msgspec.Struct, frozen=True):  # made faster than a frozen dataclass
    """The reply to a send.

    Attributes:
        birth: of the first new message, which the others follow one by one; 0: none is new.
        known: the items that the queue knew.
        refused: why nothing was sent; None: it was.
        length: how many messages a queue has that is full.
    """

    birth: int
    known: Places
    refused: Word | None = None
    length: int = 0

    def births(self, count: int) -> list[int]:
        """Of each of the `count` items, those of their own; 0: the queue knew it."""
        if not self.known:  # nearly always
            return [*range(self.birth, self.birth + count)]
        born = iter(range(self.birth, self.birth + count))
        return [0 if n in self.known else next(born) for n in range(count)]


def send(
    sender: Sender,
    *,
    delay: int,
    ttl: int,
    items: Sequence[Argument],
    opening: str = "",
) -> Call[Taken | None]:
    """Add messages; items: id, payload.

    Args:
        delay, ttl: as in `values/times.py`.
        opening: the queue's, when the client opened it; empty: any.

    Returns:
        A call whose reply is None if the queue was deleted since its opening: then nothing was added.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
        "stays": int(sender.stays),
    }
    return Call("send", sender.keys, args, items, _read_taken)


def send_limited(
    sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument], opening: str = ""
) -> Call[Taken | None]:
    """As `send`, to a queue that may have a `max_length`: `send` is told `LIMITED` there."""
    call = send(sender, delay=delay, ttl=ttl, items=items, opening=opening)
    return replace(call, verb="send_limited")


def verb_for(queue: QueueState[Any], said: Sending = send) -> Sending:
    """What makes the calls that send to a queue: a limited one has its own verb, as a first reply tells.

    Args:
        said: `send`, or what says more of known ids, whose verb asks for room by itself (`packing.Resend`).
    """
    return send_limited if queue.limited and said is send else said


def resend(
    sender: Sender,
    *,
    delay: int,
    ttl: int,
    items: Sequence[Argument],
    opening: str = "",
    mode: str,
    max_delay: int = 0,
    known_for: int = 0,
) -> Call[Taken | None]:
    """Add messages, or change those that have the same ids; items: id, payload.

    Args:
        delay, ttl, opening: as in `send`.
        mode: what happens to a known one: drop, replace, debounce, redrive or again (lua/resend.lua).
        max_delay: milliseconds after the first send, of debounce.
        known_for: milliseconds after the first send for which an id is known, even after the ack; 0: no
            longer than otherwise.

    Returns:
        See `send`.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
        "mode": mode,
        "max_delay": max_delay,
        "known_for": known_for,
    }
    return Call("resend", sender.keys, args, items, _read_taken)


def restore(
    sender: Sender, *, items: Sequence[Argument], opening: str, act: str = ""
) -> Call[list[int] | None]:
    """Restore exported messages; items: id, record, state, history.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.

    Returns:
        A call that reads as the items that the queue already had, 0 is the first; None: see `send`.
    """
    args: dict[str, Argument] = {"number": sender.number, "opening": opening, "act": act}
    return Call("restore", sender.keys, args, items, _read_known)


def _read_taken(reply: Any) -> Taken | None:
    if isinstance(reply, bytes):
        word = _NOT_SENT[reply]
        if word is Word.WRONG_LANE:
            raise BrokerRefused("the lane of a key or a dependency is not that of its text: nothing was sent")
        return None if word is Word.DELETED else Taken(0, _NOTHING, word)
    if reply[0] == Word.FULL.encode():
        return Taken(0, _NOTHING, Word.FULL, reply[1])
    return Taken(int(reply[0]), read_places(reply[1:]) if len(reply) > 1 else _NOTHING)


def read_places(reply: Sequence[Any]) -> Places:
    """Numbers (1 is the first) and where their messages are, by turns."""
    names = [name.decode() for name in reply[1::2]]
    return {number - 1: _place(name) for number, name in zip(reply[::2], names, strict=True)}


def _place(name: str) -> Place:
    where, birth, *more = name.split("/")
    known = _PLACES[where.encode()]
    other_key = "key" in more
    word = _DID[more[-1].encode()] if more and more[-1] != "key" else None
    refused = word is Word.OTHER_KEY
    return Place(
        None if known is Word.LATER else known.value,  # type: ignore[arg-type]
        int(birth),
        other_key,
        None if word is None or refused else word.value,  # type: ignore[arg-type]
        refused,
    )


def _read_known(reply: Any) -> list[int] | None:
    if isinstance(reply, bytes):
        _REFUSED[reply]
        return None
    return [number - 1 for number in reply]


_NOTHING: Places = {}
_REFUSED: Final = one_of(Word.DELETED)
_NOT_SENT: Final = one_of(Word.DELETED, Word.WRONG_LANE, Word.PAST, Word.LIMITED)
_PLACES: Final = one_of(
    Word.READY, Word.SCHEDULED, Word.LEASED, Word.DEAD, Word.EXPIRED, Word.ACKED, Word.LATER
)  # fmt: skip
_DID: Final = one_of(Word.REPLACED, Word.POSTPONED, Word.REDRIVEN, Word.AGAIN, Word.OTHER_KEY)
