"""Plain reads of lanes (lua/README.md, "Lanes" and "Outages")."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from rq_dlq.core.pages.calls import id_of
from rq_dlq.core.steps.call import Call, Command, read_ids
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.errors import PolicyError
from rq_dlq.policy.per_key import PerKey
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.failure import moment
from rq_dlq.values.key import Of  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.message import MessageRow

BLOCKED: Final = 1 << 43  # lua/lanes.lua, BLOCKED
BY_RATE: Final = 0.5  # lua/lanes.lua, BY_RATE
TRIED: Final = 0.5  # lua/lanes.lua, TRIED
PASS: Final = "\x01"  # noqa: S105 - lua/lanes.lua, PASS
PLACES: Final = -1  # lua/lanes.lua, PLACES
HOLDERS = 100  # of the seats of a lane that are read
MOST_SPECIAL = 1_000  # lanes with a special state that one call reads


def blocked(keys: QueueKeys, lane: int | None = None) -> Command[int]:
    """How many messages of a lane, or of all, are blocked."""
    first, last = (BLOCKED, "+inf") if lane is None else (BLOCKED + lane, BLOCKED + lane + TRIED)
    return Command((b"ZCOUNT", keys["scheduled"], first, last), int)


def are_numbered(keys: QueueKeys) -> Command[bool]:
    """Whether the lanes of a queue have the numbers of this version, or none count (lua/lanes.lua)."""

    def read(reply: Sequence[bytes | None]) -> bool:
        *counts, gated = reply
        return gated not in {None, b"1"} if any(counts) or gated else True

    return Command((b"HMGET", keys["settings"], b"per_key", b"breaker", b"gated"), read)


def renumber(keys: QueueKeys, after: bytes, *, limit: int) -> Call[bytes | Word]:
    """Renumber some of the lanes that have the numbers of 0.1.0.

    Reads as what the next call passes as `after`; a word: it is over.
    """
    return Call("renumber", keys, {"after": after, "limit": limit}, (), _read_after)


_ENDED: Final = one_of(Word.DONE, Word.CALLS_RUN)


def _read_after(reply: bytes) -> bytes | Word:
    return reply if b" " in reply else _ENDED[reply]


def seats(keys: QueueKeys, lane: int) -> Command[int]:
    """How many messages of a lane hold a seat."""
    return Command((b"ZCOUNT", keys["seats"], lane, lane + BY_RATE), int)


def holders(keys: QueueKeys, lane: int) -> Command[list[str]]:
    """The ids of those, as far as they are read."""
    return Command((b"ZRANGEBYSCORE", keys["seats"], lane, lane + BY_RATE, b"LIMIT", 0, HOLDERS), read_ids)


def cancelled_calls(keys: QueueKeys) -> Command[int]:
    """How many calls of cancelled messages count against `max_in_flight` (lua/cancel.lua)."""
    return Command((b"ZCOUNT", keys["seats"], PLACES, PLACES), int)


def slot(keys: QueueKeys, lane: int) -> Command[float | None]:
    """When the rate of keys admits the next message of a lane, milliseconds; None: now."""
    return Command((b"ZSCORE", keys["slots"], lane), lambda reply: None if reply is None else float(reply))


def parked(keys: QueueKeys, lane: int, most: int) -> Command[list[str]]:
    """The ids of the first blocked messages of a lane, also of those that failed as a probe."""
    first, last = BLOCKED + lane, BLOCKED + lane + TRIED
    command = (b"ZRANGEBYSCORE", keys["scheduled"], first, last, b"LIMIT", 0, most)
    return Command(command, lambda reply: [id_of(row).decode() for row in reply])


def lanes_of(keys: QueueKeys, ids: Sequence[str]) -> Command[list[int | None]]:
    """The lane in which each message holds a seat; None: it holds none."""
    names = (message_id.encode() for message_id in ids)
    return Command(
        (b"ZMSCORE", keys["seats"], *names),
        lambda reply: [None if seat is None else int(float(seat)) for seat in reply],
    )


def passes(keys: QueueKeys, lane: int) -> Command[int]:
    """How many messages were let through the gate of a dependency, and are neither done nor hang."""
    return Command((b"ZCOUNT", keys["seats"], lane, lane), int)


def hanging(keys: QueueKeys, lane: int) -> Command[list[str]]:
    """The ids of messages that were let through, and whose calls did not end in time (lua/gates.lua)."""
    first = lane + TRIED
    command = (b"ZRANGEBYSCORE", keys["seats"], first, first, b"LIMIT", 0, HOLDERS)
    return Command(command, lambda reply: [one.removeprefix(PASS) for one in read_ids(reply)])


def oldest(keys: QueueKeys, lane: int, *, tried: bool) -> Command[int | None]:
    """When the first message of the lane of a dependency was sent, milliseconds; None: there is none.

    Args:
        tried: of those that failed as a probe.
    """
    score = BLOCKED + lane + (TRIED if tried else 0)
    command = (b"ZRANGEBYSCORE", keys["scheduled"], score, score, b"LIMIT", 0, 1)
    return Command(command, lambda reply: int.from_bytes(reply[0][1:8]) >> 12 if reply else None)


def head(keys: QueueKeys, lane: int) -> Command[str]:
    """The id of the first blocked message of a lane; empty: none is blocked."""
    score = BLOCKED + lane
    command = (b"ZRANGEBYSCORE", keys["scheduled"], score, score, b"LIMIT", 0, 1)
    return Command(command, lambda reply: id_of(reply[0]).decode() if reply else "")


def lane_at(keys: QueueKeys, rank: int) -> Command[int | None]:
    """The lane of the row of this rank in `scheduled`; None: it is not blocked."""
    return Command((b"ZRANGE", keys["scheduled"], rank, rank, b"WITHSCORES"), _read_lane)


def lane_after(keys: QueueKeys, lane: int) -> Command[int | None]:
    """The next lane with blocked messages; None: there is none."""
    bound = f"({BLOCKED + lane + TRIED}"
    command = (b"ZRANGEBYSCORE", keys["scheduled"], bound, b"+inf", b"WITHSCORES", b"LIMIT", 0, 1)
    return Command(command, _read_lane)


def rule(keys: QueueKeys) -> Command[PerKey | None]:
    """The rule for keys; None: there is none, or this version cannot read it."""

    def read(reply: Any) -> PerKey | None:
        with suppress(PolicyError):
            return PerKey.of((reply or b"").decode())
        return None

    return Command((b"HGET", keys["settings"], b"per_key"), read)


def place_in_lane(keys: QueueKeys, row: bytes) -> Command[float | None]:
    """The score of a message's row in `scheduled`."""
    command = (b"ZSCORE", keys["scheduled"], row)
    return Command(command, lambda reply: None if reply is None else float(reply))


def rank(keys: QueueKeys, row: bytes) -> Command[int]:
    """Its rank there; -1: it is not there."""
    return Command((b"ZRANK", keys["scheduled"], row), lambda reply: -1 if reply is None else int(reply))


def before(keys: QueueKeys, lane: int) -> Command[int]:
    """How many rows of `scheduled` precede those of a lane."""
    return Command((b"ZCOUNT", keys["scheduled"], b"-inf", f"({BLOCKED + lane}"), int)


def consumer(keys: QueueKeys, token: str) -> Command[str]:
    """The consumer that made a claim, as a JSON text; empty: the claim has ended."""
    return Command(
        (b"HGET", keys["claims"], token),
        lambda reply: (reply or b"").split(b"\n")[0].split(b"\t")[0].decode(errors="replace"),
    )


def token_of(row: MessageRow | None) -> str:
    """The token of the claim that holds a message; empty: none does."""
    if row is None or not row.lease_until:
        return ""
    return row.state.split(b" ")[1][1:].decode(errors="replace")  # lua/state.lua


class LaneState(msgspec.Struct):
    """The special state of a lane (lua/lanes.lua, read); times in milliseconds."""

    of: Of = "key"
    name: str = ""
    paused: int | None = None
    ends: int | None = None
    by: str = ""
    limit: int | None = None
    open: int | None = None
    probe: int | None = None
    hung: int | None = None
    error: str = ""
    drains: int | None = None
    trusts: int | None = None
    due: int | None = None
    dead: list[str] = []
    died: int = 0

    @property
    def until(self) -> datetime | None:
        """When the pause ends; None: at `resume`."""
        return None if self.ends is None else moment(self.ends)

    def is_paused(self, now: int) -> bool:
        """Whether an operator has paused it."""
        return self.paused is not None and (self.ends is None or self.ends > now)


def special(keys: QueueKeys, lane: int) -> Command[LaneState | None]:
    """The special state of a lane; None: it has none."""
    return Command((b"HGET", keys["special"], lane), lambda reply: _special(reply or b""))


def specials(keys: QueueKeys) -> Command[dict[int, LaneState]]:
    """The special states of lanes, about a thousand of them."""

    def read(reply: Any) -> dict[int, LaneState]:
        cells: Any = reply[1]
        if not isinstance(cells, dict):
            cells = dict(zip(cells[::2], cells[1::2], strict=True))
        found = {int(number): _special(text) for number, text in cast("dict[bytes, bytes]", cells).items()}
        return {number: lane for number, lane in found.items() if lane is not None}

    return Command((b"HSCAN", keys["special"], 0, b"COUNT", MOST_SPECIAL), read)


def _special(text: bytes) -> LaneState | None:
    try:
        return msgspec.json.decode(text, type=LaneState, strict=False)
    except NO_JSON:
        return None


def _read_lane(reply: Any) -> int | None:
    if not reply:
        return None
    last: Any = reply[-1]
    score = int(float(last if isinstance(last, bytes) else last[-1]))  # in pairs, if a pool speaks RESP3
    return score - BLOCKED if score >= BLOCKED else None
