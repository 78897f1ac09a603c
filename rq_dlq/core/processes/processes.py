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
from rq_dlq.core.steps.step import Batch, Steps
from rq_dlq.errors import BrokerRefused, MissingRights
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.failure import moment
from rq_dlq.values.process import ProcessReport

APART = "/"  # separates the name of a process from its own part, which no other process of that name has
FORGET_EVERY = 3_600_000  # milliseconds between two looks of a process for reports of ended ones


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
        if self._forgot is None or now - self._forgot > FORGET_EVERY:
            self._forgot = now
            yield from processes(namespace)
        self.report = msgspec.structs.replace(self.report, seen_at=moment(now), **news)
        try:
            yield calls.note_process(namespace, self.key, msgspec.json.encode(self.report))
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


def processes(namespace: str) -> Steps[list[ProcessReport]]:
    """The processes that are alive, by name; reports of the others are removed."""
    entries: Mapping[bytes, bytes]
    now, entries = yield Batch([queue_calls.clock(), calls.processes(namespace)])
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
