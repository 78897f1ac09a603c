"""What the workers of a queue hold, while other messages wait long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rq_dlq.core.processes.processes import workers
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import BrokerRefused
from rq_dlq.values.readable import many, span

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.process import ProcessReport


LONG: Final = 60.0  # seconds that a call may take without a report while messages wait for its place


@dataclass(frozen=True, slots=True)
class Busy:
    """What the live workers of a queue have reported.

    Attributes:
        workers: the processes that hold messages.
        places: how many messages all processes handle concurrently, at most.
        held: how many messages they hold: being processed, claimed ahead, or about to be acked.
        oldest: how long the oldest of these has been held, seconds.
    """

    workers: int = 0
    places: int = 0
    held: int = 0
    oldest: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether they hold as many messages as they handle at once."""
        return self.held >= self.places

    @property
    def is_held_long(self) -> bool:
        """Whether a call has lasted long beside which no other message has a place.

        `looking/trouble` looks at what waits instead: messages may wait long although each call is short.
        """
        return self.is_full and self.oldest >= LONG

    def __str__(self) -> str:
        does = "worker holds" if self.workers == 1 else "workers hold"
        said = f"{self.workers:,} {does} {many(self.held, 'message')}, the oldest for {span(self.oldest)}"
        usual = ": if that is usual, start more workers; if not, their calls are slow or hang"
        return said + usual if self.is_full else said


def busy(namespace: str) -> Steps[Mapping[str, Busy]]:
    """What the workers of each queue hold, by its name; queues whose workers hold nothing are left out.

    It is empty if the user may not read the reports, or if their node does not answer.
    """
    try:
        return of_reports((yield from unrepeated(workers(namespace))))
    except (BrokerRefused, NodeUnavailable):
        return {}


def of_reports(reports: Iterable[ProcessReport]) -> Mapping[str, Busy]:
    """The same by the reports; a process that is silent may be dead."""
    found: dict[str, Busy] = {}
    for report in reports:
        for name, own in report.queues.items() if report.state != "silent" else ():
            before = found.get(name, Busy())
            found[name] = Busy(
                before.workers + (own.held > 0),
                before.places + own.concurrency,
                before.held + own.held,
                max(before.oldest, own.oldest or 0.0),
            )
    return {name: one for name, one in found.items() if one.held}
