"""Looking at whole indexes, range by range, while consumers go on with their work."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rq_dlq._calls.call import Argument, Call, Command, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys

Index = Literal["ready", "scheduled", "dead", "expired"]


class Position(NamedTuple):
    """A place between two rows of an index: after this score and member, whether they are there or not.

    Attributes:
        score: as Redis writes it.
        member: empty: before all rows of that score.
    """

    score: bytes | str | int
    member: bytes = b""


START = Position("-inf")
END = Position("+inf", b"\xff")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which parts of messages a scan fetches; head: the first 14 bytes of the record, times and flags."""

    record: Literal["whole", "head", "no"] = "whole"
    state: bool = True
    history: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Messages, part by part in the same order; a part that was not asked for is empty.

    Attributes:
        next: where the following page begins; None: there is none.
    """

    ids: list[bytes]
    records: list[bytes]
    states: list[bytes | None]
    histories: list[bytes | None]
    next: Position | None = None


def scan(
    keys: QueueKeys, index: Index, *, after: Position, upto: Position, limit: int, wanted: Wanted
) -> Call[Page]:
    """A page of the messages that stand in an index between two positions."""
    args: dict[str, Argument] = {
        "place": index,
        "limit": limit,
        "record": wanted.record,
        "state": "yes" if wanted.state else "no",
        "story": "yes" if wanted.history else "no",
        "score": after.score,
        "member": after.member,
        "last_score": upto.score,
        "last_member": upto.member,
    }
    return Call("scan", keys, args, (), _page)


def _page(reply: Any, repeated: bool) -> Page:
    del repeated
    score, member, ids, *parts = reply
    if None in ids:
        there = [n for n, message_id in enumerate(ids) if message_id is not None]
        ids, *parts = ([cells[n] for n in there] if cells else cells for cells in (ids, *parts))
    records, states, histories = parts
    return Page(ids, records, states, histories, Position(score, member) if score else None)


def joined(pages: Sequence[Page]) -> Page:
    """Pages that follow each other as one."""
    if len(pages) == 1:
        return pages[0]
    return Page(
        [*chain.from_iterable(page.ids for page in pages)],
        [*chain.from_iterable(page.records for page in pages)],
        [*chain.from_iterable(page.states for page in pages)],
        [*chain.from_iterable(page.histories for page in pages)],
    )


def rank(keys: QueueKeys, index: Index, time: int) -> Command[int]:
    """How many rows of an index whose score is a time stand before it (milliseconds)."""
    return Command((b"ZCOUNT", keys[index], b"-inf", f"({time}"), read_number)


def size(keys: QueueKeys, index: Index) -> Command[int]:
    """How many rows an index has."""
    return Command((b"ZCARD", keys[index]), read_number)


def position(keys: QueueKeys, index: Index, place: int) -> Command[Position | None]:
    """The position after the row of this rank (-1: the last); None: there is no such row."""
    return Command((b"ZRANGE", keys[index], place, place, b"WITHSCORES"), _position)


def _position(reply: Any, repeated: bool) -> Position | None:
    del repeated
    if not reply:
        return None
    member, score = reply if len(reply) > 1 else reply[0]  # in pairs, where a pool speaks RESP3
    return Position(score if isinstance(score, bytes) else repr(score), member)


def leases(keys: QueueKeys, *, first: int, limit: int) -> Command[list[str]]:
    """A page of the tokens that hold something, the first to lapse first."""
    parts = (b"ZRANGE", keys["leases"], first, first + limit - 1)
    return Command(parts, lambda reply, _: [token.decode(errors="replace") for token in reply])
