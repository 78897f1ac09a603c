"""Opening, filling and closing gathers, and reading their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from rq_dlq import _keys
from rq_dlq.core.sending.calls import Taken, read_places
from rq_dlq.core.steps.call import Argument, Call, Command, Sender, whole
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

CARRIED: Final = 250  # rows that one call moves, or looks at
_DIVIDES: Final = re.compile(r"[%/ #@]")
_DUE: Final = 1 << 42  # above all times; then come gathers by their openings (lua/gathers.lua)
_AT_ONCE: Final = 20  # shares that are looked at together
_PARTS: Final = 16  # of one, in the scores of rows
ENDS: Final = ("acked", "dead", "expired", "purged", "cancelled", "moved", "discarded", "gone")
"""How children end, in the order of their scores (lua/gathers.lua)."""


class Refused(NamedTuple):
    """The messages of items cannot be children, since they are children of other gathers.

    Attributes:
        numbers: of the items; 0 is the first.
    """

    numbers: Sequence[int]


class CancelledGather(NamedTuple):
    """How many messages were cancelled, and how many were left; true if any was cancelled."""

    cancelled: int
    left: int

    def __bool__(self) -> bool:
        return self.cancelled > 0


class GatherRow(NamedTuple):
    """A child of a gather, or a share of it that has not come yet.

    Attributes:
        name: without the gather: the id of the child; in the queue of `then` after its queue and a blank.
        end: one of `ENDS`; None: it has not ended, or not come.
        asked: its result was asked for.
    """

    name: str
    end: str | None
    asked: bool


def own(message_id: str) -> str:
    """The name of a gather in the queue of its `then` (lua/gathers.lua, named)."""
    return "#" + _DIVIDES.sub(lambda mark: f"%{ord(mark[0]):02X}", message_id)


def share(message_id: str, family: str) -> str:
    """The name of a gather in the queues of its children, and in their states.

    Args:
        message_id: of `then`.
        family: the queue of that.
    """
    return f"{own(message_id)[1:]}/{family}"


def then_of(gather: str) -> tuple[str, str]:
    """The id of `then`, and its queue, from such a name; no queue: from the name in the queue of `then`."""
    name, _, family = gather.removeprefix("#").partition("/")
    return unquote(name), family


def open_gather(
    sender: Sender, *, within: int, items: Sequence[Argument], opening: str = ""
) -> Call[Taken | None]:
    """Open a gather: send `then`, an id and a payload. Reads as a send does.

    Args:
        within: milliseconds until it is delivered in any case.
    """
    args: dict[str, Argument] = {"number": sender.number, "opening": opening, "within": within}
    return Call("open_gather", sender.keys, args, items, _read_opened)


def send_children(
    sender: Sender,
    target: QueueKeys,
    *,
    id: str,
    delay: int,
    ttl: int,
    items: Sequence[Argument],
    opening: str = "",
) -> Call[Taken | Refused | Word | None]:
    """Send children of a gather; items: id, payload.

    Args:
        target: the keys of the queue of `then`.
        id: of `then`.

    Returns:
        A call that reads as a send does; Refused: some are children of others; OVER: the gather takes no
        more children. Then nothing was sent.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "id": id,
        "to": target.family,
        "name": sender.keys.queue.family,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
    }
    return Call(
        "send_children", _both(sender.keys.queue, target, sender.keys.others), args, items, _read_sent
    )


def close_gather(keys: QueueKeys, queues: Sequence[QueueKeys], *, id: str) -> Call[list[int]]:
    """Close a gather with children in these queues.

    Reads as the numbers of those whose children have all ended; 0 is the first.

    Args:
        keys: of the queue of `then`.
    """

    def read(reply: Any) -> list[int]:
        return [number - 1 for number in whole(reply, 0, and_each=1)]

    return Call("close_gather", keys, {"id": id, "to": keys.family}, (), read, queues)


def carry_gather(
    keys: QueueKeys, target: QueueKeys, gather: str, *, limit: int = CARRIED, seed: float
) -> Call[bool | None]:
    """Look at a share of a gather, and carry it to the queue of `then` if all of its children have ended.

    Reads as whether there is more to carry now; None: it is not time to look.
    """

    def read(reply: Any) -> bool | None:
        if isinstance(reply, int):
            return bool(reply)
        _NOT_YET[reply]
        return None

    args: dict[str, Argument] = {"gather": gather, "name": keys.family, "limit": limit, "seed": seed}
    return Call("carry_gather", _both(keys, target, {}), args, (), read)


def cancel_gather(
    keys: QueueKeys, gather: str, *, left: int, limit: int = CARRIED, act: str = ""
) -> Call[CancelledGather]:
    """Cancel the children that wait in a queue, or `then`. Reads as how many, and how many were left.

    Args:
        left: how many were left before, since they are leased.
    """

    def read(reply: Any) -> CancelledGather:
        return CancelledGather(*map(int, whole(reply, 2)))

    args: dict[str, Argument] = {"gather": gather, "from": left, "limit": limit, "act": act}
    return Call("cancel_gather", keys, args, (), read)


def due(keys: QueueKeys) -> Command[list[str]]:
    """The shares to look at next, the first ones first; only the Lua knows whether it is time."""
    return _first(keys, b"(%d" % _DUE)


def ended(keys: QueueKeys) -> Command[list[str]]:
    """The shares whose children have all ended."""
    return _first(keys, b"0")


def _first(keys: QueueKeys, last: bytes) -> Command[list[str]]:
    return Command((b"ZRANGEBYSCORE", keys["gathers"], b"0", last, b"LIMIT", 0, _AT_ONCE), _read_shares)


def _read_shares(reply: Any) -> list[str]:
    return [member.decode().removeprefix("@") for member in reply]


def waiting(keys: QueueKeys) -> Command[list[tuple[str, int]]]:
    """The gathers whose `then` waits in a queue, and when they were opened; the oldest first."""

    def read(reply: Any) -> list[tuple[str, int]]:
        return [(then_of(member[1:])[0], int(score) - _DUE) for member, score in _scored(reply)]

    return Command((b"ZRANGEBYSCORE", keys["gathers"], _DUE, b"(%d" % (2 * _DUE), b"WITHSCORES"), read)


def number_of(keys: QueueKeys, gather: str) -> Command[float | None]:
    """The number of a gather, with its fraction; None: it is not there."""
    return Command(
        (b"ZSCORE", keys["gathers"], gather), lambda reply: None if reply is None else float(reply)
    )


def rows(keys: QueueKeys, gather: str, number: float) -> Command[list[GatherRow]]:
    """The rows of a gather, or of a share; those that have not ended, or not come, first."""

    def read(reply: Any) -> list[GatherRow]:
        return [_row(member[len(gather) + 1 :], score) for member, score in _scored(reply)]

    first = int(number)
    return Command(
        (b"ZRANGEBYSCORE", keys["gathers"], f"({first}", f"({first}.9375", b"WITHSCORES"),
        read,
    )


def _scored(reply: Any) -> list[tuple[str, float]]:
    """Members and their scores; a pool that was passed in may speak RESP3, which has them in pairs."""
    cells = [*chain.from_iterable(reply)] if reply and isinstance(reply[0], list | tuple) else reply
    scores = [float(score) for score in cells[1::2]]
    return [(member.decode(), score) for member, score in zip(cells[::2], scores, strict=True)]


def _row(name: str, score: float) -> GatherRow:
    place = score % 1 * _PARTS
    end = int(place) - 2  # 1 is open
    return GatherRow(name, ENDS[end] if end >= 0 else None, place % 1 > 0)


def _both(keys: QueueKeys, target: QueueKeys, others: Any) -> _keys.MoreKeys:
    return _keys.MoreKeys(keys, {**others, **{f"to_{name}": target[name] for name in _keys.NAMES}})


def _read_opened(reply: Any) -> Taken | None:
    taken = _read_sent(reply)
    return taken if isinstance(taken, Taken) else None


def _read_sent(reply: Any) -> Taken | Refused | Word | None:
    if isinstance(reply, bytes):
        word = _NOT_SENT[reply]
        if word is Word.WRONG_LANE:
            raise BrokerRefused("the lane of a key or a dependency is not that of its text: nothing was sent")
        return word if word in {Word.OVER, Word.PAST} else None
    if reply[0] == _KNOWN:
        return Refused([number - 1 for number in reply[1:]])
    return Taken(int(reply[0]), read_places(reply[1:]))


_KNOWN: Final = Word.KNOWN.encode()
_NOT_SENT: Final = one_of(Word.DELETED, Word.WRONG_LANE, Word.PAST, Word.OVER)
_NOT_YET: Final = one_of(Word.EARLY)
