"""What senders and consumers of a few ids noted, and what is wrong with it (T50).

Each send has a body of its own, and all times are of one clock, so what became of each send can be told: it
ran, it is in a dead letter, a later send took its place, or it was lost.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

LEASE = 1.5  # seconds
LATE = 1.0  # seconds for which a call of a sender that was killed may be on its way
ROUNDING = 0.01  # seconds, of the server's clock
DOES = {
    ("replace", "ready"): {"replaced"},
    ("replace", "scheduled"): {"replaced"},
    ("debounce", "ready"): {"replaced"},
    ("debounce", "scheduled"): {"postponed", "replaced"},  # it is due, or it was handed out
    ("redrive", "dead"): {"redriven"},
    ("unique", "dead"): {"redriven"},
    ("again", "leased"): {"again"},
}
"""What a send does to a message that it finds, by its mode and the message's place; elsewhere nothing."""


class Notes:
    """A file of lines, each of which is there at once, whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, *words: object) -> None:
        """Add a line."""
        os.write(self._file, f"{' '.join(map(str, words))}\n".encode())


@dataclass
class Send:
    """A send.

    Attributes:
        began, ended: before and after the call; if its outcome is unknown, when it was over at the latest.
        did: new, or a word of `Sent.did`; "none": nothing; "": unknown.
        known: where the message was.
    """

    id: str
    body: str
    mode: str
    began: float
    ended: float = 0.0
    did: str = ""
    known: str = ""

    @property
    def wrote(self) -> bool:
        """Whether its body was confirmed to be that of the message, or of its next run."""
        return self.did not in {"", "none"}

    @property
    def may_follow(self) -> bool:
        """Whether its body may have taken the place of an earlier one."""
        return self.did not in {"new", "none"}


@dataclass
class Run:
    """A delivery.

    Attributes:
        asked, began: before and after the claim.
        ended: before it was settled; else when its consumer was killed, or its lease lapsed.
        how: ack, nack, poison or leave; settled: whether that was confirmed.
    """

    id: str
    body: str
    asked: float
    began: float
    ended: float
    how: str = "leave"
    settled: bool = False


T = TypeVar("T", Send, Run)


@dataclass
class Story:
    """All that was noted.

    Attributes:
        letters: the bodies of the dead letters, at the end.
        known_for: the ids that stay known, seconds after their first send.
    """

    sends: list[Send] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    letters: set[str] = field(default_factory=set)
    known_for: Mapping[str, float] = field(default_factory=dict)

    def faults(self) -> dict[str, int]:
        """Of what there should be none."""
        sends, runs = _by_id(self.sends), _by_id(self.runs)
        acks = Counter(run.body for run in self.runs if run.how == "ack" and run.settled)
        silent = {send.body for send in self.sends if send.did == "none"}
        ran = {run.body for run in self.runs} | self.letters
        return {
            "sends that are lost": sum(len([*_lost(some, ran)]) for some in sends.values()),
            "runs of an older body": sum(_older(sends[name], some) for name, some in runs.items()),
            "bodies that were done twice": sum(count > 1 for count in acks.values()),
            "bodies that ran although nothing was done with them": len(silent & ran),
            "bodies that nobody sent": len(ran - {send.body for send in self.sends}),
            "runs at once of one id": sum(_at_once(some) for some in runs.values()),
            "runs more than were asked for": sum(_uncalled(sends[name], some) for name, some in runs.items()),
            "answers that the table does not have": sum(not _fits(send) for send in self.sends),
            "ids that were forgotten too soon": sum(
                _forgotten(sends[name], span) for name, span in self.known_for.items()
            ),
        }


def _by_id(some: Iterable[T]) -> defaultdict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for one in some:
        found[one.id].append(one)
    return found


def _lost(sends: list[Send], ran: set[str]) -> Iterator[Send]:
    """Those that neither ran nor made room for another one before the id was new again."""
    for send in sends:
        if not send.wrote or send.body in ran:
            continue
        end = min((new.ended for new in sends if new.did == "new" and new.began > send.ended), default=None)
        if not any(
            other.may_follow and other.ended > send.began and (end is None or other.began < end)
            for other in sends
            if other is not send
        ):
            yield send


def _older(sends: list[Send], runs: list[Run]) -> int:
    """Runs that were claimed after a later send had been confirmed to take their body's place."""
    sent = {send.body: send for send in sends}
    latest = sorted((send.ended, send.began) for send in sends if send.wrote)
    found = 0
    for run in runs:
        of = sent.get(run.body)
        found += of is not None and any(began > of.ended for ended, began in latest if ended < run.asked)
    return found


def _at_once(runs: list[Run]) -> int:
    ordered = sorted(runs, key=lambda run: run.began)
    return sum(later.began < earlier.ended for earlier, later in pairwise(ordered))


def _uncalled(sends: list[Send], runs: list[Run]) -> int:
    """Acks more than messages that were new, and runs during which one more may have been asked for."""
    asked = [send for send in sends if send.mode == "again" and send.did in {"again", ""}]
    acked = [run for run in runs if run.how == "ack" and run.settled]
    new = sum(send.did in {"new", ""} for send in sends)
    more = sum(any(one.ended > run.asked and one.began < run.ended + LEASE for one in asked) for run in acked)
    return max(0, len(acked) - new - more)


def _fits(send: Send) -> bool:
    if send.did in {"", "new"}:
        return True
    return send.did in DOES.get((send.mode, send.known), {"none"})


def _forgotten(sends: list[Send], span: float) -> int:
    """New ones that came less than that after another one, whichever of the two was the first."""
    new = sorted((send for send in sends if send.did == "new"), key=lambda send: send.began)
    return sum(
        max(later.ended - earlier.began, earlier.ended - later.began) < span - ROUNDING
        for earlier, later in pairwise(new)
    )


def story(directory: Path, ends: Mapping[str, float]) -> Story:
    """Read all notes.

    Args:
        ends: when each process was killed, by its name.
    """
    told = Story()
    for path in sorted(directory.glob("*.notes")):
        lines = [line.split() for line in path.read_text().splitlines()]
        told.sends += _sends(lines, ends[path.stem] + LATE)
        told.runs += _runs(lines, ends[path.stem])
    return told


def _sends(lines: Iterable[list[str]], end: float) -> list[Send]:
    found: list[Send] = []
    for word, *rest in lines:
        if word == "send":
            name, body, mode, at = rest
            found.append(Send(name, body, mode, float(at), end))
        elif word == "sent":
            found[-1].did, found[-1].known, found[-1].ended = rest[0], rest[1], float(rest[2])
        elif word == "unknown":
            found[-1].ended = float(rest[0]) + LATE
    return found


def _runs(lines: Iterable[list[str]], end: float) -> list[Run]:
    found: list[Run] = []
    for word, *rest in lines:
        if word == "got":
            name, body, asked, began = rest
            held = min(end, float(asked) + LEASE)
            found.append(Run(name, body, float(asked), float(began), max(held, float(began))))
        elif word == "settle":
            found[-1].how, found[-1].ended = rest[0], min(found[-1].ended, float(rest[1]))
        elif word == "settled":
            found[-1].settled = True
    return found
