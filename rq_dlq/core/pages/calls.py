"""Reading messages, by their ids or by ranges of an index, while consumers keep running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rq_dlq.core.steps.call import Argument, Call, Command, Place
from rq_dlq.values.message import MessageRow
from rq_dlq.values.wanted import ALL, NOTHING, Wanted

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

Index = Literal["ready", "scheduled", "dead", "expired"]
Readable = Index | Literal["groups"]


class Position(NamedTuple):
    """A position between two rows of an index: after this score and member, whether they exist or not.

    Attributes:
        score: as Redis writes it.
        member: empty: before all rows of that score.
    """

    score: bytes | str | int
    member: bytes = b""


_NUMBERED = 16  # the first byte of a row from which on a number of two bytes precedes the id
START = Position("-inf")
END = Position("+inf", b"\xff")


@dataclass(frozen=True, slots=True)
class Page:
    """Messages, part by part in the same order; a part that was not wanted is empty.

    Attributes:
        next: where the next page begins; None: this is the last page.
        deadlines: when leases run out, for messages that were read by their ids; empty: no lease.
        looked: how many of these ids the page is about; the others do not fit.
        token: of the claim that holds them, if the page was read by it.
    """

    ids: list[bytes]
    records: list[bytes]
    states: list[bytes | None]
    histories: list[bytes | None]
    next: Position | None = None
    deadlines: list[bytes] = field(default_factory=list[bytes])
    looked: int = 0
    token: str | None = None

    def rows(self) -> list[MessageRow]:
        """Message by message; a part that was not wanted is empty, so it must not be read."""
        parts = (self.records, self.states, self.histories, self.deadlines)
        filled = (cells or [b""] * len(self.ids) for cells in parts)
        return [
            MessageRow(message_id.decode(), record, state or b"", history or b"", int(float(deadline or 0)))
            for message_id, record, state, history, deadline in zip(self.ids, *filled, strict=True)
        ]


def scan(
    keys: QueueKeys,
    index: Readable,
    *,
    after: Position,
    upto: Position,
    limit: int,
    wanted: Wanted,
    newest: bool = False,
) -> Call[Page]:
    """A page of the messages in an index between two positions.

    Args:
        newest: from the end; the last row is first, and `next` is where the next page ends.
    """
    order = "newest" if newest else "oldest"
    args = _range(index, after, upto, limit=limit, wanted=wanted, order=order)
    return Call("scan", keys, args, (), _read_page)


def browse(
    keys: QueueKeys, *, ids: Sequence[str], place: Place | None = None, wanted: Wanted = ALL
) -> Call[Page]:
    """Read the first of these messages, about half a megabyte; with `place` only those in that state."""
    return Call("browse", keys, {"place": place or "", **_parts(wanted)}, ids, _read_messages)


def _read_messages(reply: Any) -> Page:
    ids, records, states, histories, deadlines, looked = reply
    states, histories = ([cell or None for cell in cells] for cells in (states, histories))
    return Page(ids, records, states, histories, deadlines=deadlines, looked=looked)


def _range(
    index: str, after: Position, upto: Position, *, limit: int, wanted: Wanted, order: str = "oldest"
) -> dict[str, Argument]:
    return {"place": index, "order": order, **_parts(wanted), **between(after, upto, limit)}


def between(after: Position, upto: Position, limit: int) -> dict[str, Argument]:
    """The arguments of a script on the first `limit` rows between two positions."""
    return {
        "limit": limit,
        "score": after.score,
        "member": after.member,
        "last_score": upto.score,
        "last_member": upto.member,
    }


def _parts(wanted: Wanted) -> dict[str, Argument]:
    return {
        "record": wanted.record,
        "state": "yes" if wanted.state else "no",
        "story": "yes" if wanted.history else "no",
    }


def _read_page(reply: Any) -> Page:
    score, member, ids, *parts = reply
    if None in ids:
        there = [n for n, message_id in enumerate(ids) if message_id is not None]
        ids, *parts = ([cells[n] for n in there] if cells else cells for cells in (ids, *parts))
    records, states, histories = parts
    return Page(ids, records, states, histories, Position(score, member) if score else None)


def rank(keys: QueueKeys, index: Readable, score: bytes | str | int) -> Command[int]:
    """How many rows of an index have a lower score: where scores are times, those before a time."""
    bound = score.decode() if isinstance(score, bytes) else score
    return Command((b"ZCOUNT", keys[index], b"-inf", f"({bound}"), int)


def size(keys: QueueKeys, index: str) -> Command[int]:
    """How many rows an index has."""
    return Command((b"ZCARD", keys[index]), int)


def times(keys: QueueKeys, index: str, limit: int) -> Command[list[float]]:
    """The first scores of an index, which are times if it holds dead or expired messages."""
    return Command((b"ZRANGE", keys[index], 0, limit - 1, b"WITHSCORES"), _read_times)


def _read_times(reply: Any) -> list[float]:
    if reply and isinstance(reply[0], list):  # in pairs, if a pool speaks RESP3
        return [float(score) for _, score in reply]
    return [float(score) for score in reply[1::2]]


def position(keys: QueueKeys, index: Index, rank: int) -> Command[Position | None]:
    """The position after the row of this rank (-1: the last); None: that row does not exist."""
    return Command((b"ZRANGE", keys[index], rank, rank, b"WITHSCORES"), _position)


def _position(reply: Any) -> Position | None:
    if not reply:
        return None
    member, score = reply if len(reply) > 1 else reply[0]  # in pairs, if a pool speaks RESP3
    return _position_at(score, member)


def _position_at(score: Any, member: bytes) -> Position:
    return Position(score if isinstance(score, bytes) else repr(score), member)


def rows(keys: QueueKeys, index: Readable, rank: int, count: int) -> Command[list[bytes]]:
    """The rows of an index from a rank on."""
    return Command((b"ZRANGE", keys[index], rank, rank + count - 1))


def id_of(row: bytes) -> bytes:
    """The id in a row of an index of messages (lua/order.lua, id_of)."""
    return row[8 if row[0] < _NUMBERED else 2 :]


def position_of(keys: QueueKeys, index: Readable, member: bytes) -> Command[Position | None]:
    """The position after a row; None: it is gone."""
    return Command(
        (b"ZSCORE", keys[index], member), lambda score: None if score is None else _position_at(score, member)
    )


def cells(keys: QueueKeys, part: str, ids: Sequence[Argument]) -> Command[list[bytes | None]]:
    """A part of messages: `messages` (their records), `states` or `history`; None if a message has none."""
    return Command((b"HMGET", keys[part], *ids))


def leases(keys: QueueKeys, *, after: Position, limit: int) -> Call[tuple[list[str], Position | None]]:
    """A page of the tokens that hold messages, the first to lapse first, and where the next page begins."""
    return Call("scan", keys, _range("leased", after, END, limit=limit, wanted=NOTHING), (), _read_tokens)


def _read_tokens(reply: Any) -> tuple[list[str], Position | None]:
    score, member, tokens, *_ = reply
    found = [token.decode(errors="replace") for token in tokens]
    return found, Position(score, member) if score else None
