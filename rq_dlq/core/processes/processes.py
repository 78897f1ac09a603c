"""The processes that work on queues or maintain them: each stores a report of itself, which others read."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rq_dlq.core.processes import calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.errors import BrokerRefused, MissingRights
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.failure import moment
from rq_dlq.values.process import ProcessReport

APART = "/"  # separates the name of a process from its own part, which no other process of that name has
FORGET_EVERY = 3_600_000  # milliseconds between two looks of a process for reports of ended ones
LIBRARY = f"library{APART}"
"""Before the name of a library, in place of a process: when one last reported that it uses it."""
LIBRARY_EVERY = 8 * 3_600_000
"""Milliseconds after which a library is reported again. Three of them later, a day, all forget the report."""
OUTBOX = f"outbox{APART}"
"""Before the name of an outbox, in place of a process: what its relay last reported."""
OUTBOX_EVERY = 8 * 3_600_000
"""Milliseconds; all forget such a report three times as long after the last one, a day."""
SETTLED = 60_000  # milliseconds after which a process is no mere trial, and reports its library


@dataclass
class Reporter:
    """Stores the report of this process.

    Attributes:
        report: as it was stored last.
        key: under which it is stored: two containers may have one host name, and process id 1.
    """

    report: ProcessReport
    key: str = field(init=False)
    _forgot: int | None = None  # when it last removed reports of ended processes
    _library_due: int = 0  # when it reports its library

    def __post_init__(self) -> None:
        self.key = f"{self.report.process}{APART}{secrets.token_hex(4)}"

    def note(self, namespace: str, **news: Any) -> Steps[None]:
        """Store the report with these news. A server without memory stops nothing.

        Reports of ended processes are removed at first, and every hour: each reader does so, but there may
        be none.
        """
        now: int = yield queue_calls.clock()
        if self._forgot is None:
            self.report = msgspec.structs.replace(self.report, started_at=moment(now))
            self._library_due = now + SETTLED
        if self._forgot is None or now - self._forgot > FORGET_EVERY:
            self._forgot = now
            yield from processes(namespace)
        self.report = msgspec.structs.replace(self.report, seen_at=moment(now), **news)
        try:
            yield calls.note_process(namespace, self.key, msgspec.json.encode(self.report))
            if self.report.library and now >= self._library_due:
                self._library_due = now + LIBRARY_EVERY // 3
                report = ProcessReport(seen_at=moment(now), period=LIBRARY_EVERY, library=self.report.library)
                key = f"{LIBRARY}{report.library}"
                yield calls.note_process(namespace, key, msgspec.json.encode(report))
        except MissingRights:
            raise
        except BrokerRefused:
            pass

    def leave(self, namespace: str) -> Steps[None]:
        """Remove the report: the process ends."""
        yield calls.forget_processes(namespace, [self.key])


def maintainers(namespace: str) -> Steps[list[ProcessReport]]:
    """The maintenance processes that are alive, by name."""
    return [report for report in (yield from processes(namespace)) if report.roles]


def workers(namespace: str) -> Steps[list[ProcessReport]]:
    """The worker processes that are alive, by name."""
    return [report for report in (yield from processes(namespace)) if report.queues]


def takers(namespace: str, queue: str, task: str) -> Steps[list[tuple[str, str]]]:
    """The live workers of a queue that may take messages of this task, each with its mark.

    Args:
        task: the task in the header; empty: it names none.
    """
    alive = yield from processes(namespace)
    return [(report.process, mark) for report in alive if (mark := report.mark_for(queue, task))]


def libraries(namespace: str) -> Steps[dict[str, float]]:
    """The libraries that processes have reported within a day: how long ago, seconds."""
    found: dict[str, float] = {}
    for report in (yield from _reports(namespace)):
        if report.library:
            found[report.library] = min(report.ago, found.get(report.library, report.ago))
    return found


def processes(namespace: str) -> Steps[list[ProcessReport]]:
    """The processes that are alive, by name; reports of the others are removed."""
    return [report for report in (yield from reported(namespace)) if report.outbox is None]


def outboxes(namespace: str) -> Steps[list[ProcessReport]]:
    """What the relays of outboxes have reported within a day, also of those that have ended."""
    return [report for report in (yield from reported(namespace)) if report.outbox is not None]


def reported(namespace: str) -> Steps[list[ProcessReport]]:
    """Both of these."""
    reports = yield from _reports(namespace)
    return [report for report in reports if f"{report.process}{APART}" != LIBRARY]


def _reports(namespace: str) -> Steps[list[ProcessReport]]:
    entries: Mapping[bytes, bytes]
    now, entries = yield Pipeline([queue_calls.clock(), calls.processes(namespace)])
    alive: list[ProcessReport] = []
    dead: list[bytes] = []
    for process, text in sorted(entries.items()):
        report = _read(process, text, now)
        if report is None or report.gone:
            dead.append(process)
        else:
            alive.append(msgspec.structs.replace(report, ago=max(0.0, report.ago)))
    if dead:
        with suppress(BrokerRefused):  # a user who may only read
            yield calls.forget_processes(namespace, dead)
    return alive


def _read(process: bytes, text: bytes, now: int) -> ProcessReport | None:
    try:
        report = msgspec.json.decode(text, type=ProcessReport)
    except NO_JSON:
        return None
    ago = (moment(now) - report.seen_at).total_seconds()
    name = process.decode(errors="replace").partition(APART)[0]
    return msgspec.structs.replace(report, process=name, ago=ago)
