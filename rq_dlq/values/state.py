"""The state of a message: a line of text, written only by the Lua (lua/state.lua)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from rq_dlq.values import record as records

# part[/reason] (+|-)token, eight numbers, then fields of later versions, which are skipped.
_LINE: Final = re.compile(rb"([a-z]+)(?:/([a-z]+))? [+-]\S*" + rb" ([0-9]{1,18})" * 8 + rb"(?: \w+=\S*)*")


class State(NamedTuple):
    """The state of a message.

    Attributes:
        part: live, dead or expired.
        reason: why it is dead or expired; empty: it is neither.
        due: when it becomes ready, or when it died, milliseconds; 0: when it was sent.
        delay: the delay of the last redelivery, milliseconds.
        expires: when the time to live set by a redrive ends, milliseconds; 0: none was set.
        untried: how many deliveries were released before processing began.
    """

    part: str = "live"
    reason: str = ""
    due: int = 0
    deliveries: int = 0
    charged: int = 0
    nacked: int = 0
    lapsed: int = 0
    released: int = 0
    redriven: int = 0
    delay: int = 0
    expires: int = 0
    untried: int = 0


NEW: Final = State()
"""The state of a message that was never claimed or delayed."""


def first_delivery(token: str) -> bytes:
    """The state of a message without a history after its first claim (lua/deliver.lua, lease)."""
    return b"live +%b 0000000000000 1 0 0 0 0 0 0000000000000" % token.encode()


_LENGTH: Final = re.compile(rb" head=\S+/([0-9]{1,18})(?= |$)")  # lua/record.lua, word


def length_of(text: bytes) -> int:
    """The length of a message's record, if it is long; otherwise 0."""
    found = _LENGTH.search(text)
    return int(found[1]) if found else 0


_GROUP: Final = re.compile(rb" group=(\w*)(?= |$)")  # lua/groups.lua, of


def group_of(text: bytes) -> str | None:
    """The group of a dead letter; None: an earlier version wrote it, or the message is not dead."""
    found = _GROUP.search(text) if text.startswith(b"dead") else None
    return found[1].decode() if found else None


class PassedOn(NamedTuple):
    """A message passed on by programs that do not accept it (the verb `pass_on`).

    Attributes:
        until: when it dies if no worker accepts it, milliseconds.
        times: how often it was passed on.
        marks: the marks of those programs.
    """

    until: int
    times: int
    marks: frozenset[str]


_PASSED_ON: Final = re.compile(rb" passed_on=([0-9]{1,15})/([0-9]{1,15})/([0-9a-f.]*)(?= |$)")


def passed_on_of(text: bytes) -> PassedOn | None:
    """How a message was passed on, read from its state; None: it was not, or an attempt has begun since."""
    found = _PASSED_ON.search(text)
    if found is None:
        return None
    marks = found[3].decode().split(".")
    return PassedOn(int(found[1]), int(found[2]), frozenset(marks) - {""})


class Progress(NamedTuple):
    """The reported progress of a message's call (`Delivery.progress`).

    Attributes:
        part: 0 to 1.
        text: the progress in words; may be empty.
        at: when it was reported, milliseconds of the server's clock.
    """

    part: float
    text: str
    at: int


_PROGRESS: Final = re.compile(rb" progress=([0-9]{1,15})/([0-9]{1,15})/([01](?:\.[0-9]{1,4})?)/(\S*)")


def progress_of(text: bytes) -> Progress | None:
    """The progress of a leased message; None: none was reported in this delivery."""
    found, state = _PROGRESS.search(text), read_state(text)
    if found is None or state is None or int(found[1]) != state.deliveries:
        return None
    return Progress(float(found[3]), unquote(found[4].decode(errors="replace")), int(found[2]))


THEN: Final = "then"
"""The gather of the message that becomes due when all others have ended."""
_GATHER: Final = re.compile(rb" gather=(\S+)")  # lua/gathers.lua


def gather_of(text: bytes) -> str | None:
    """The gather of a message: `THEN`, or of a child the name of its share (core/gathers/calls.py)."""
    found = _GATHER.search(text)
    return found[1].decode() if found else None


def runs_again(text: bytes) -> bool:
    """Whether one more run of a leased message follows its ack (lua/again.lua)."""
    return b" again=" in text


_UNTRIED: Final = re.compile(rb" untried=([0-9]{1,15})(?= |$)")  # lua/state.lua, attempts


_UNCHARGED: Final = re.compile(rb" uncharged=([0-9]{1,15})(?= |$)")  # lua/judge.lua


def uncharged_of(text: bytes) -> int:
    """How often in a row a message has failed without a charge."""
    found = _UNCHARGED.search(text)
    return int(found[1]) if found else 0


_EXPIRES: Final = re.compile(rb" expires=([0-9]{1,15})(?= |$)")  # lua/state.lua, with_expiry


def expiry_of(text: bytes) -> int | None:
    """When the time to live set by a redrive ends, milliseconds; None: none was set."""
    found = _EXPIRES.search(text)
    return int(found[1]) if found else None


def deadline_of(text: bytes, record: bytes) -> int | None:
    """When the time to live set by the sender or a redrive ends; None: never.

    A death ends the time to live, unless a redrive keeps it. The head of the record is enough.
    """
    given = expiry_of(text)
    if given is not None or len(record) < records.BARE:
        return given
    return records.expiry_of(record)


@lru_cache(1_000)  # messages that were claimed together, or died together, have the same state
def read_state(text: bytes) -> State | None:
    """Parse a state; None: it is damaged, or in a later form."""
    line = _LINE.fullmatch(text)
    if line is None:
        return None
    part, reason, *numbers = line.groups()
    found = State(part.decode(), (reason or b"").decode(), *map(int, numbers))
    untried = _UNTRIED.search(text)
    return found._replace(expires=expiry_of(text) or 0, untried=int(untried[1]) if untried else 0)
