"""The processes that maintain the queues: each stores a report of itself, which the others read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from rq_dlq._calls import upkeep
from rq_dlq._work.steps import Batch, Steps
from rq_dlq.errors import BrokerRefused, MissingRights
from rq_dlq.values.codec import NO_JSON

if TYPE_CHECKING:
    from rq_dlq._work.upkeep import MaintenanceRole

DEAD_AFTER = 60_000  # milliseconds without a report after which a process counts as ended, at the earliest
MISSED = 3  # periods without a report, likewise


@dataclass
class Health:
    """The report of a process.

    Attributes:
        process: host and number.
        period: milliseconds between two reports, at most.
        done: how many messages it swept, promoted, expired, retired, grouped, wrote, fired, redrove.
        longest: the longest round, milliseconds.
        began: by the server's clock, milliseconds; 0: before its first report.
    """

    process: str
    roles: Sequence[MaintenanceRole]
    period: int
    done: Counter[str] = field(default_factory=Counter[str])
    longest: int = 0
    began: int = 0

    def note(self, namespace: str) -> Steps[None]:
        """Store the report, and remove those of ended processes. A server without memory stops nothing."""
        now, _ = yield from _alive(namespace)
        self.began = self.began or now
        report = {
            "roles": self.roles,
            "period": self.period,
            "began": self.began,
            "seen": now,
            "longest": self.longest,
            **self.done,
        }
        try:
            yield upkeep.note_maintainer(namespace, self.process, msgspec.json.encode(report))
        except MissingRights:
            raise
        except BrokerRefused:
            pass

    def leave(self, namespace: str) -> Steps[None]:
        """Remove the report: the process ends."""
        yield upkeep.forget_maintainers(namespace, [self.process])


class Maintainer(msgspec.Struct, frozen=True):
    """The stored report of a process that maintains the queues.

    Attributes:
        process: host and number.
        began: by the server's clock, milliseconds.
        seen: when it last reported; likewise.
        ago: seconds since then.
        longest: its longest round, milliseconds.
        period: how often it looks at the queues at least, milliseconds.
        swept, promoted, expired, retired, grouped, written, fired, redriven: messages, since it began.
    """

    roles: list[str]
    began: int
    seen: int
    longest: int
    period: int = 0
    process: str = ""
    ago: float = 0.0
    swept: int = 0
    promoted: int = 0
    expired: int = 0
    retired: int = 0
    grouped: int = 0
    written: int = 0
    fired: int = 0
    redriven: int = 0


def maintainers(namespace: str) -> Steps[list[Maintainer]]:
    """The processes that are alive, by name."""
    _, alive = yield from _alive(namespace)
    return alive


def _alive(namespace: str) -> Steps[tuple[int, list[Maintainer]]]:
    """The server's clock, and the processes that are alive; reports of the others are removed."""
    entries: Mapping[bytes, bytes]
    now, entries = yield Batch([upkeep.clock(), upkeep.maintainers(namespace)])
    alive: list[Maintainer] = []
    dead: list[bytes] = []
    for process, text in sorted(entries.items()):
        report = _read(text)
        silence = max(DEAD_AFTER, MISSED * report.period) if report else 0
        if report is None or abs(now - report.seen) > silence:  # or the clock was set back meanwhile
            dead.append(process)
        else:
            name, ago = process.decode(errors="replace"), max(0, now - report.seen) / 1000
            alive.append(msgspec.structs.replace(report, process=name, ago=ago))
    if dead:
        with suppress(BrokerRefused):  # a user who may only read
            yield upkeep.forget_maintainers(namespace, dead)
    return now, alive


def _read(text: bytes) -> Maintainer | None:
    try:
        return msgspec.json.decode(text, type=Maintainer)
    except NO_JSON:
        return None
