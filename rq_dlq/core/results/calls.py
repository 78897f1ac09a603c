"""Reading results, and the channels on which they are published."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from rq_dlq.core.steps.call import Call, Command, whole
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys

_LATEST: Final = 1 << 42  # milliseconds: no time is later, and no birth is less (lua/state.lua)
_END: Final = re.compile(rb"([a-z]+) (\d+) (.*)", re.DOTALL)


class Meant(NamedTuple):
    """A message that is meant.

    Attributes:
        birth: of the send; 0: the newest with this id; -1: of several, the newest that has ended.
    """

    id: str
    birth: int = 0


class ResultEnd(NamedTuple):
    """The end of a message (lua/results.lua, keep).

    Attributes:
        word: how it ended; unkept: there was no room for that.
        birth: of its send; 0: unknown.
        at: when, milliseconds; 0: unknown.
        rest: the result; or, if it was not acked, its reason and, after a tab, its cause.
    """

    word: str
    birth: int
    at: int
    rest: bytes


Found: TypeAlias = ResultEnd | Word
"""The end of a message; or it has none: PENDING: it is in the queue; UNASKED: and its result was not
asked for; UNKNOWN."""
_UNENDED: Final = one_of(Word.PENDING, Word.UNASKED, Word.UNKNOWN)


def result(keys: QueueKeys, meant: Sequence[Meant]) -> Call[list[Found]]:
    """The end of each of these messages."""

    def read_each(reply: Any) -> list[Found]:
        return [
            _kept(*cast("Sequence[Any]", one)) if isinstance(one, list) else _UNENDED[one]
            for one in whole(reply, len(meant))
        ]

    return Call("result", keys, {}, [cell for one in meant for cell in one], read_each)


def _kept(ended: bytes, birth: int) -> ResultEnd:
    word, at, rest = _parts(ended)
    return ResultEnd(word, birth, at, rest)


def published(ended: bytes) -> ResultEnd:
    """An end as it is published: with the birth of its send; by version 0.1.0 with the time in its place."""
    word, birth, rest = _parts(ended)
    return ResultEnd(word, birth if birth > _LATEST else 0, 0, rest)


def _parts(ended: bytes) -> tuple[str, int, bytes]:
    read = _END.fullmatch(ended)
    return (read[1].decode(), int(read[2]), read[3]) if read else ("unkept", 0, b"")


def tell(channel: str) -> Command[int]:
    """Notify the listener on this channel, which then polls."""
    return Command((b"PUBLISH", channel, b""), int)


def subscribe(*channels: str) -> tuple[Any, ...]:
    """The Redis command that subscribes a connection to these channels."""
    return (b"SUBSCRIBE", *channels)


def unsubscribe(*channels: str) -> tuple[Any, ...]:
    """The command that ends that; no channels: all."""
    return (b"UNSUBSCRIBE", *channels)


def hearing(channel: str) -> tuple[Command[Any], Command[Any]]:
    """Both of these as commands, for granting their rights."""
    return Command(subscribe(channel)), Command(unsubscribe(channel))
