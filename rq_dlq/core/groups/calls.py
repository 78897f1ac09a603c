"""The groups of dead letters, from the index that the scripts keep (`groups` in `lua/README.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.core.pages.calls import END, Position
from rq_dlq.core.steps.call import Call, Command
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.message import MessageRow

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

_TIME = 6  # bytes
_MUTED: Final = one_of(Word.DONE, Word.UNCHANGED, Word.FULL)


@dataclass(frozen=True, slots=True)
class Group:
    """A group as the verb counts it; times are milliseconds.

    Attributes:
        name: the fingerprint, or its replacement.
        hour, day: how many messages died within the last hour, the last day.
        cleared: when a dead letter was last taken out; None: unknown.
        muted: since when, and until when it is muted (0: until it dies again); None: it is not.
        newest: its newest dead letters, oldest first: their states, and the last failure of each history.
    """

    name: str
    count: int
    first: int
    last: int
    hour: int
    day: int
    cleared: int | None
    muted: tuple[int, int] | None
    newest: Sequence[MessageRow]


@dataclass(frozen=True, slots=True)
class GroupPage:
    """Groups in the order of their names.

    Attributes:
        now: the server's clock, milliseconds.
        whole: every dead letter is in a group.
        next: the group after which the next page begins; empty: this is the last page.
    """

    now: int
    whole: bool
    next: bytes
    groups: Sequence[Group]


def groups(keys: QueueKeys, *, after: bytes = b"", prefix: str = "", limit: int) -> Call[GroupPage]:
    """A page of the groups whose names begin with the prefix."""
    return Call("groups", keys, {"after": after, "prefix": prefix, "limit": limit}, (), _read_page)


def _read_page(reply: Any) -> GroupPage:
    now, whole, following, *found = reply
    return GroupPage(now, bool(whole), following, [_read_group(cells) for cells in found])


def _read_group(reply: Any) -> Group:
    name, count, first, last, hour, day, when, newest, muted = reply
    cells = iter(newest)
    rows = [
        MessageRow(message_id.decode(), b"", state, line)
        for message_id, state, line in zip(cells, cells, cells, strict=True)
    ]
    return Group(
        name.decode(errors="replace").rstrip(),
        count,
        int.from_bytes(first),
        int.from_bytes(last),
        hour,
        day,
        int(float(when)) if when else None,
        _read_muted(muted),
        rows[::-1],
    )


def sizes(keys: QueueKeys) -> tuple[Command[int], Command[int]]:
    """How many dead letters there are, and how many of them are in a group."""
    return Command((b"ZCARD", keys["dead"]), int), Command((b"ZCARD", keys["groups"]), int)


def cleared(keys: QueueKeys, name: str) -> Command[int | None]:
    """When a dead letter was last taken out of a group, milliseconds; None: unknown."""
    command = (b"ZSCORE", keys["cleared"], f"{name:12}")
    return Command(command, lambda reply: int(float(reply)) if reply else None)


def muted(keys: QueueKeys, name: str) -> Command[tuple[int, int] | None]:
    """Since when, and until when a group is muted; see `Group`."""
    return Command((b"HGET", keys["muted"], f"{name:12}"), _read_muted)


def _read_muted(text: bytes | None) -> tuple[int, int] | None:
    """The value written by lua/mute.lua; also None for any other value."""
    words = (text or b"").split(b" ")
    return (int(words[0]), int(words[1])) if [word.isdigit() for word in words] == [True, True] else None


def mute(keys: QueueKeys, name: str, *, upto: int | None, act: str = "") -> Call[Word]:
    """Mute a group until this time (0: until it dies again), or unmute it (None).

    Reads as DONE; UNCHANGED: it is so, or the group does not exist; FULL: too many are muted.

    Args:
        act: the entry for the audit (`core/queues/who.py`); empty: no note.
    """
    args = {"group": f"{name:12}", "upto": "" if upto is None else upto, "act": act}
    return Call("mute", keys, args, (), _MUTED)


def before(name: str, died: int) -> Position:
    """The position in `groups` before the dead letters of a group that died then or later."""
    return Position(0, f"{name:12}".encode() + min(max(died, 0), (1 << 8 * _TIME) - 1).to_bytes(_TIME))


def after_all(name: str) -> Position:
    """The position in `groups` after all dead letters of a group."""
    return Position(0, f"{name:12}".encode() + END.member)


def end(keys: QueueKeys, name: str) -> Command[Position | None]:
    """The position after the newest dead letter of a group; None: it has none."""
    low = f"{name:12}".encode()
    parts = (b"ZRANGE", keys["groups"], b"(" + low + END.member, b"[" + low, b"BYLEX", b"REV", b"LIMIT", 0, 1)
    return Command(parts, lambda reply: Position(0, reply[0]) if reply else None)
