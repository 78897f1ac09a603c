"""What processes did, written down as they did it, and the sums over it.

The sums are those of Jepsen's checker for queues (`total-queue`): lost, unexpected, duplicated, recovered;
and beside them what was settled twice, and what came early.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, TypedDict

Event = Literal[
    "send", "sent", "unconfirmed", "refused", "got", "early", "ack", "indeterminate", "acked", "stale"
]
"""send, ack: is about to; sent, acked: was told that it is done; unconfirmed: was told that a failover may
undo it; refused: was told that it is not done, nor by an earlier try of its own; got: was delivered; early:
before its time; indeterminate: repeats an ack whose reply was lost; stale: was told that its lease is
lost."""

LONGEST = 1 << 16  # bytes of a line of which one asks whether it is the last


class Journal:
    """The journal of one process: what is noted is in the file before `note` returns.

    Args:
        name: of the process, and of no other.
    """

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = os.open(directory / f"{name}.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, event: Event, ids: Iterable[str]) -> None:
        """Write down what happened to these messages, whose ids have no blanks."""
        line = " ".join((event, *ids))
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Counts(TypedDict):
    """By the names that the table has for them."""

    acknowledged: int
    lost: int
    duplicated: int
    recovered: int


@dataclass
class Sums:
    """What all journals and the queue come to.

    Attributes:
        acknowledged: messages of which a sender was told that they are in the queue.
        lost: of them, those that are nowhere: nobody was told that they are acked, or may have acked them
            unknowingly, and they do not remain.
        unexpected: messages that nobody sent, or that a sender was told are not in the queue.
        duplicated: deliveries beyond the first of a message.
        settled_twice: messages of which more were told that they are acked than began to send them. A program
            that sends an id again after its ack, not knowing of its first send, sends a new message; and who
            repeats an ack of what is gone is told that it is acked, whoever did it.
        recovered: messages whose sending had an unknown outcome, and that were there.
        early: deliveries before their time.
        undelivered: messages that were acked, and that nobody was given.
        stale: acks that were refused.
        indeterminate: acks that were repeated, since their reply was lost.
        resent: sends by a program of an id that another one has begun to send.
        entered: messages that were there, so that the queue should have counted as many as sent; and of the
            resent those, too, that came after the ack.
        settled: messages that were acked, so that it should have counted as many as acked; likewise.
    """

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    duplicated: int = 0
    settled_twice: list[str] = field(default_factory=list)
    recovered: int = 0
    early: int = 0
    undelivered: list[str] = field(default_factory=list)
    stale: int = 0
    indeterminate: int = 0
    resent: int = 0
    entered: int = 0
    settled: int = 0

    @property
    def counts(self) -> Counts:
        """What a row's figures tell of them."""
        return {
            "acknowledged": self.acknowledged,
            "lost": len(self.lost),
            "duplicated": self.duplicated,
            "recovered": self.recovered,
        }

    @property
    def faults(self) -> dict[str, int]:
        """Of what there should be none."""
        return {
            "lost": len(self.lost),
            "unexpected": len(self.unexpected),
            "settled twice": len(self.settled_twice),
            "early": self.early,
            "acked and never delivered": len(self.undelivered),
        }

    @property
    def well(self) -> bool:
        """There is none of these."""
        return not any(self.faults.values())


def sums(directory: Path, remaining: Iterable[str]) -> Sums:
    """Add up all journals of a directory.

    Args:
        remaining: what is still in the queue, whatever its state.
    """
    remain = set(remaining)
    sent = set(noted(directory, "sent"))
    _, resent = repeated(noted(directory, "send"))
    unknown = undecided(directory, "send", "sent", "refused") - sent
    got, again = repeated(noted(directory, "got"))
    acked, twice = repeated(noted(directory, "acked"))
    indeterminate = Counter(noted(directory, "indeterminate"))
    perhaps = undecided(directory, "ack", "acked", "stale") - remain
    there = got | remain
    return Sums(
        acknowledged=len(sent),
        lost=sorted(sent.difference(acked, perhaps, remain)),
        unexpected=sorted(there.difference(sent, unknown)),
        duplicated=again.total(),
        settled_twice=sorted(
            name for name, times in twice.items() if times > resent[name] + indeterminate[name]
        ),
        recovered=len(unknown & there),
        early=sum(1 for _ in noted(directory, "early")),
        undelivered=sorted(acked - got),
        stale=sum(1 for _ in noted(directory, "stale")),
        indeterminate=indeterminate.total(),
        resent=resent.total(),
        entered=len(there),
        settled=len(acked | perhaps),
    )


def repeated(names: Iterable[str]) -> tuple[set[str], Counter[str]]:
    """The names, and how often each came beyond its first time."""
    seen: set[str] = set()
    again: Counter[str] = Counter()
    for name in names:
        if name in seen:
            again[name] += 1
        else:
            seen.add(name)
    return seen, again


def noted(directory: Path, event: Event) -> Iterator[str]:
    """The ids of an event, as often as it happened."""
    return chain.from_iterable(
        ids.split() for path in journals(directory) for said, ids in lines(path) if said == event
    )


def undecided(directory: Path, begun: Event, *ended: Event) -> set[str]:
    """What a process began, and was not told the end of."""
    names: set[str] = set()
    for path in journals(directory):
        pending: set[str] = set()
        for said, ids in lines(path):
            if said == begun:
                pending.update(ids.split())
            elif said in ended:
                pending.difference_update(ids.split())
        names |= pending
    return names


def journals(directory: Path) -> list[Path]:
    """Those of all processes."""
    return sorted(directory.glob("*.journal"))


def lines(path: Path, start: int = 0) -> Iterator[tuple[str, str]]:
    """Events and their ids, from a byte on; a line that its writer did not live to end says nothing."""
    with path.open() as text:
        text.seek(start)
        for line in text:
            if line.endswith("\n"):
                said, _, ids = line[:-1].partition(" ")
                yield said, ids


def last(directory: Path, name: str) -> tuple[str, list[str]]:
    """What a process noted last, and of which messages; an empty word where it noted nothing yet."""
    path = directory / f"{name}.journal"
    if not path.exists():
        return "", []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LONGEST))
        whole = file.read().decode().rpartition("\n")[0]
    said, _, ids = whole.rpartition("\n")[2].partition(" ")
    return said, ids.split()
