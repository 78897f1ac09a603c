"""A message of the model, and the numbers that a client draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

GOLDEN = 0.6180339887498949
BLOCKED = 1 << 43  # lua/lanes.lua, BLOCKED

Event = tuple[str, int, int, int]  # what, when, which delivery, the delay that followed


@dataclass
class Asked:
    """What the newest send has that asked for one more run."""

    number: int  # of the first of them
    priority: int
    body: bytes
    due: int | None
    expires: int | None


@dataclass
class Message:
    """One message; `due` is when it is or was due, or when it died."""

    id: str
    number: int  # of all messages of the queue, in send order; the upper bits are the millisecond
    priority: int
    due: int
    expires: int | None
    transient: bool = False
    waits: bool = False  # for `due`
    lane: int | None = None  # of its key
    blocked: bool = False  # due, and without a seat of its lane
    let_in: int | None = None  # where it stands among the ready, if not at `due`
    part: str = "live"
    reason: str = ""
    holder: str | None = None  # the token of who has it
    delay: int = 0  # of the last redelivery
    rests: int = 0  # a dead letter: until then no claim takes it
    passed_on: tuple[int, int, tuple[str, ...]] | None = None  # until when, how often, by which marks
    uncharged: int = 0  # how often in a row it failed without a charge
    body: bytes | None = None  # of a later send with its id; None: as it was sent first
    ends: int | None = None  # its time to live, once it was redriven
    again: Asked | None = None  # one more run follows its ack
    counts: Counter[str] = field(default_factory=Counter[str])
    story: list[Event] = field(default_factory=list[Event])

    @property
    def attempts(self) -> int:
        """How often it was tried."""
        return self.counts["delivered"] - self.counts["untried"]

    @property
    def place(self) -> str:
        """ready, scheduled, leased, dead or expired; who is blocked is scheduled."""
        if self.holder is not None:
            return "leased"
        if self.part != "live":
            return self.part
        return "scheduled" if self.waits or self.blocked else "ready"

    @property
    def stands(self) -> int:
        """Its time in the order of its place; who is blocked stands behind all others, in its lane."""
        if self.blocked and self.lane is not None:
            return BLOCKED + self.lane
        return self.due if self.let_in is None else self.let_in

    @property
    def rank(self) -> tuple[int, int, bool, int, int, str]:
        """I8: priority, due time, send order; the dead and the scheduled by time alone.

        Of equal ones those that came back precede those that were due when they were born: they are older
        (but for a server clock that stepped back). So do those with a key. Elsewhere than among the ready,
        priority decides only between these. Of two queues' messages that have the same number their ids
        decide.
        """
        at_birth = self.lane is None and self.due == self.number // 4096
        first = -self.priority if self.place == "ready" else 0
        return (first, self.stands, at_birth, 0 if at_birth else -self.priority, self.number, self.id)

    @property
    def deadline(self) -> int | None:
        """The end of its time to live; a death ends that for good."""
        return self.ends if self.counts["redriven"] else self.expires

    def take(self, priority: int, body: bytes, expires: int | None) -> None:
        """Take what a later send with its id has; nothing else changes."""
        self.priority, self.body = priority, body
        self.expires = expires
        self.ends = expires if self.counts["redriven"] else None

    @property
    def history(self) -> list[Event]:
        """The first 15 events and the last 15."""
        return self.story if len(self.story) <= 30 else self.story[:15] + self.story[-15:]


def draws(seed: float) -> Iterator[float]:
    """The client draws one number a call; golden-ratio steps spread a batch evenly over [-1, 1)."""
    while True:
        yield 2 * seed - 1
        seed = (seed + GOLDEN) % 1
