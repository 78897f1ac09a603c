"""The outcome history: a stream that the scripts write (lua/lib/outcome.lua), read page by page, trimmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._calls.call import Command
from rq_dlq.values.outcome import RawOutcome, after

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys


def page(keys: QueueKeys, *, start: str = "-", end: str = "+", limit: int) -> Command[list[RawOutcome]]:
    """The first `limit` entries from `start` to `end`, both included, the oldest first.

    Args:
        start: the id of an entry, or a time in milliseconds; "-": the oldest.
        end: the same; a time means all of that millisecond; "+": the newest.
    """
    return Command((b"XRANGE", keys["outcomes"], start, end, b"COUNT", limit), read_entries)


def newest(keys: QueueKeys, *, limit: int) -> Command[list[RawOutcome]]:
    """The last `limit` entries, the oldest first."""
    command = (b"XREVRANGE", keys["outcomes"], b"+", b"-", b"COUNT", limit)
    return Command(command, lambda reply: read_entries(reply)[::-1])


def count(keys: QueueKeys) -> Command[int]:
    """How many entries there are."""
    return Command((b"XLEN", keys["outcomes"]), int)


def trim(keys: QueueKeys, *, through: str) -> Command[int]:
    """Drop the entry of this id and all that are older. Reads as how many."""
    return Command((b"XTRIM", keys["outcomes"], b"MINID", b"=", after(through)), int)


def read_entries(reply: Any) -> list[RawOutcome]:
    """Entries of a stream: the id of each, its fields and values by turns."""
    return [(event_id.decode(), cells) for event_id, cells in reply]
