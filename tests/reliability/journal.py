"""What processes did, written down as they did it, and the sums over it.

The sums are those of Jepsen's checker for queues (`total-queue`): lost, unexpected, duplicated, recovered;
and beside them what was settled twice, and what came early.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Event = Literal["send", "sent", "refused", "got", "early", "ack", "acked", "stale"]
"""send, ack: is about to; sent, acked: was told that it is done; refused: was told that it is not; got: was
delivered, and early: before its time; stale: was told that the lease is lost."""


class Journal:
    """The journal of one process: what is noted is in the file before `note` returns."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = os.open(directory / f"{name}.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, event: Event, ids: Iterable[str]) -> None:
        """Write down what happened to these messages."""
        line = " ".join((event, *ids))
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass
class Sums:
    """What all journals and the queue come to.

    Attributes:
        acknowledged: messages of which a sender was told that they are in the queue.
        lost: of them, those that are nowhere: nobody was about to ack them, and they do not remain.
        unexpected: messages that nobody sent, or that a sender was told are not in the queue.
        duplicated: deliveries beyond the first of a message.
        settled_twice: acks beyond the first of a message.
        recovered: messages whose sending had an unknown outcome, and that were there.
        early: deliveries before their time.
        stale: acks that were refused.
    """

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    duplicated: int = 0
    settled_twice: list[str] = field(default_factory=list)
    recovered: int = 0
    early: int = 0
    stale: int = 0

    @property
    def well(self) -> bool:
        """Nothing lost, from nowhere, settled twice, or early."""
        return not (self.lost or self.unexpected or self.settled_twice or self.early)


def sums(directory: Path, remaining: Iterable[str]) -> Sums:
    """Add up all journals of a directory.

    Args:
        remaining: what is still in the queue, whatever its state.
    """
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for path in directory.glob("*.journal"):
        for line in path.read_text().splitlines():
            event, *ids = line.split(" ")
            seen[event].update(ids)
    remain = set(remaining)
    there = seen["got"].keys() | remain
    unknown = seen["send"].keys() - seen["sent"].keys() - seen["refused"].keys()
    return Sums(
        acknowledged=len(seen["sent"]),
        lost=sorted(seen["sent"].keys() - seen["ack"].keys() - remain),
        unexpected=sorted(there - seen["sent"].keys() - unknown),
        duplicated=sum(seen["got"].values()) - len(seen["got"]),
        settled_twice=sorted(name for name, times in seen["acked"].items() if times > 1),
        recovered=len(unknown & there),
        early=sum(seen["early"].values()),
        stale=sum(seen["stale"].values()),
    )
