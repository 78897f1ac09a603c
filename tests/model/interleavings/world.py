"""What a queue's keys hold, as values and back: the truth is in the messages, every index follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

HASHES = ("messages", "states", "history", "claims", "counters", "settings")
INDEXES = ("ready", "scheduled", "dead", "expired", "expiring", "leases", "groups")
NAMES = (*HASHES, *INDEXES, "wake")
WAITING = ("ready", "scheduled")
EXPIRES, BAND, PER_MS = 0x10, 1 << 42, 1 << 12  # lua/record.lua, order.lua
CONSUMER = b'"c"'
GROUP, REST = "group=", "rest="  # words in the state of a dead letter (lua/places.lua)

Cells = Sequence[Sequence[bytes]]  # of each key of NAMES, flat


class Counts(NamedTuple):
    """What a message's state line counts."""

    delivered: int = 0
    charged: int = 0
    nacked: int = 0
    lapsed: int = 0
    released: int = 0
    redriven: int = 0


class Message(NamedTuple):
    """A message; times are milliseconds.

    Attributes:
        birth: its place in the send order: the millisecond * 4096 + a number.
        place: ready, scheduled, leased, dead or expired.
        touched: it has a state line.
        token: of who holds it, or settled it last.
        due: when it was or will be ready, or when it died.
        group: of its failure, if it is dead; None: it never was.
        rests: until when it rests, if it is dead; 0: it does not.
    """

    birth: int
    flags: int
    expires: int | None
    place: str
    touched: bool = False
    part: str = "live"
    reason: str = ""
    token: str = ""
    due: int = 0
    counts: Counts = Counts()
    story: tuple[bytes, ...] = ()
    group: str | None = None
    rests: int = 0

    @property
    def priority(self) -> int:
        return self.flags % EXPIRES

    @property
    def born(self) -> int:
        """The millisecond of its birth."""
        return self.birth // PER_MS

    @property
    def holder(self) -> str:
        return self.token if self.place == "leased" else ""

    @property
    def ends(self) -> int | None:
        """The end of its time to live; a death ends that for good."""
        return None if self.counts.redriven else self.expires


class Claim(NamedTuple):
    """A claim.

    Attributes:
        until: when its lease lapses.
        given: the ids; empty where a sweep or a division took one.
        by_worker: a worker made it.
    """

    until: int
    given: tuple[str, ...]
    by_worker: bool = False


@dataclass(frozen=True)
class Queue:
    """One queue; `last` is the newest birth."""

    messages: Mapping[str, Message]
    claims: Mapping[str, Claim]
    totals: Mapping[str, int]
    settings: Mapping[str, str]
    last: int
    woken: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is told by from others that were reduced."""
        return (
            *self.messages.items(), *self.claims.items(), *self.settings.items(), self.last, self.woken,
        )  # fmt: skip

    def held_by(self, token: str) -> list[str]:
        """What a token holds, in the order in which it was given."""
        given = self.claims[token].given if token in self.claims else ()
        return [name for name in given if name in self.messages and self.messages[name].holder == token]


def read(cells: Cells) -> Queue:
    """The queue that these cells are.

    Raises:
        AssertionError: they contradict each other (I1, I13).
    """
    at = dict(zip(NAMES, cells, strict=True))
    states, stories = dict(_pairs(at["states"])), dict(_pairs(at["history"]))
    places: dict[str, str] = {}
    for place in (*WAITING, "dead", "expired"):
        for member in at[place][::2]:
            name = _id_of(member)
            assert name not in places, f"I1: {name} is {places[name]} and {place}"
            places[name] = place
    messages = {
        name: _message(record, states.get(name), places.get(name), stories.get(name))
        for name, record in _pairs(at["messages"])
    }
    gone = {*states, *stories, *places} - messages.keys()
    assert not gone, f"I13: something is left of {gone}"
    totals = {name: int(n) for name, n in _pairs(at["counters"])}
    assert len(at["wake"]) < 2, "more than one wake-up"
    queue = Queue(
        messages,
        _claims(dict(_pairs(at["claims"])), at["leases"], messages),
        totals,
        {name: text.decode() for name, text in _pairs(at["settings"])},
        totals.pop("birth", 0),
        bool(at["wake"]),
    )
    for index, rows in _indexes(queue).items():
        there = {*zip(at[index][::2], at[index][1::2], strict=True)}
        assert there == rows, f"I1, I8: {index} holds {at[index]}"
    return queue


def _pairs(cells: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    return ((cells[at].decode(), cells[at + 1]) for at in range(0, len(cells), 2))


def _id_of(member: bytes) -> str:
    return member[8 if member[0] < 16 else 2 :].decode()


@lru_cache(100_000)
def _message(record: bytes, state: bytes | None, place: str | None, story: bytes | None) -> Message:
    birth, flags = int.from_bytes(record[:7]), record[7]
    expires = int.from_bytes(record[8:14]) if flags & EXPIRES else None
    lines = tuple(story.split(b"\n")) if story else ()
    if state is None:
        assert place in WAITING, f"I1: a message is in {place}, without a state"
        return Message(birth, flags, expires, place, due=birth // PER_MS, story=lines)
    says, marked, due, *words = state.decode().split(" ")
    counts, more = words[: len(Counts._fields)], words[len(Counts._fields) + 1 :]
    assert len(words) > len(counts) == len(Counts._fields), f"a state is damaged: {state.decode()}"
    group = next((word.removeprefix(GROUP) for word in more if word.startswith(GROUP)), None)
    rests = next((word.removeprefix(REST) for word in more if word.startswith(REST)), "")
    assert len(more) == (group is not None) + bool(rests), f"a state is damaged: {state.decode()}"
    part, _, reason = says.partition("/")
    held = marked.startswith("+")
    expected = (None,) if held else WAITING if part == "live" else (part,)
    assert place in expected, f"I1: a message is {place or 'nowhere'}: {state.decode()}"
    here = "leased" if place is None else place
    return Message(
        birth, flags, expires, here, True, part, reason, marked[1:],
        int(due) or birth // PER_MS, Counts(*map(int, counts)), lines, group, int(rests or 0),
    )  # fmt: skip


def _claims(
    fields: Mapping[str, bytes], leases: Sequence[bytes], messages: Mapping[str, Message]
) -> dict[str, Claim]:
    holders = [message.holder for message in messages.values()]
    claims = {}
    for token, until in _pairs(leases):
        assert {token, f"{token}:held"} <= fields.keys(), f"I1: {token} has a lease, and no claim"
        assert int(fields[f"{token}:held"]) == holders.count(token) > 0, f"I1: {token} holds {fields}"
        maker, *given = fields[token].decode().split("\n")
        claims[token] = Claim(int(until), tuple(given), maker.endswith("\tworker"))
    assert {*holders} - {""} <= claims.keys(), f"I1: {holders} hold messages, {[*claims]} have a lease"
    known = {f"{token}{field}" for token in claims for field in ("", ":held")}
    assert fields.keys() <= known, f"I13: {fields.keys() - known} of no lease"
    return claims


# What follows from the messages


def _indexes(queue: Queue) -> dict[str, set[tuple[bytes, bytes]]]:
    """The rows of every index."""
    rows: dict[str, set[tuple[bytes, bytes]]] = {name: set() for name in INDEXES}
    for name, message in queue.messages.items():
        if message.place != "leased":
            rows[message.place].add(_row(name, message))
        if message.place == "dead":
            group = f"{message.group or '':12}".encode() + message.due.to_bytes(6)
            rows["groups"].add((group + _row(name, message)[0], b"0"))
        if message.place in WAITING and message.ends is not None:
            rows["expiring"].add((name.encode(), b"%d" % message.ends))
    for token, claim in queue.claims.items():
        rows["leases"].add((token.encode(), b"%d" % claim.until))
    return rows


@lru_cache(100_000)
def _row(name: str, message: Message) -> tuple[bytes, bytes]:
    """Member and score (I8): the member begins with the send order, in one of two forms."""
    order = bytes((9 - message.priority,)) + message.birth.to_bytes(7)
    if message.due == message.born:
        order = bytes((16 + message.birth % PER_MS // 256, message.birth % 256))
    band = (9 - message.priority) * BAND if message.place == "ready" else 0
    return order + name.encode(), b"%d" % (band + message.due)


def write(queue: Queue) -> Cells:
    """The cells of a queue, hashes by the names of their fields."""
    flat: dict[str, dict[str, bytes]] = {name: {} for name in HASHES}
    for name, message in queue.messages.items():
        flat["messages"][name] = _record(message)
        if message.touched:
            flat["states"][name] = _state(message)
        if message.story:
            flat["history"][name] = b"\n".join(message.story)
    for token, claim in queue.claims.items():
        maker = CONSUMER + b"\tworker" * claim.by_worker
        flat["claims"][token] = "\n".join((maker.decode(), *claim.given)).encode()
        flat["claims"][f"{token}:held"] = b"%d" % len(queue.held_by(token))
    flat["counters"] = {name: b"%d" % n for name, n in (*queue.totals.items(), ("birth", queue.last))}
    flat["settings"] = {name: text.encode() for name, text in queue.settings.items()}
    hashes = [
        [cell for name, text in sorted(fields.items()) for cell in (name.encode(), text)]
        for fields in flat.values()
    ]
    indexes = [[cell for row in sorted(rows) for cell in row] for rows in _indexes(queue).values()]
    return (*hashes, *indexes, [b"1"] if queue.woken else [])


def _record(message: Message) -> bytes:
    expires = b"" if message.expires is None else message.expires.to_bytes(6)
    return message.birth.to_bytes(7) + bytes((message.flags,)) + expires + b"x"


def _state(message: Message) -> bytes:
    says = f"{message.part}/{message.reason}" if message.reason else message.part
    mark = "+" if message.place == "leased" else "-"
    words = [says, mark + message.token, *map(str, (message.due, *message.counts, 0))]
    if message.group is not None:
        words.append(GROUP + message.group)
    if message.rests:
        words.append(f"{REST}{message.rests}")
    return " ".join(words).encode()
