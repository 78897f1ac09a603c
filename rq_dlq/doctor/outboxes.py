"""Checks how far the relays of outboxes are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.core.processes import processes
from rq_dlq.doctor.check import Check
from rq_dlq.values.readable import many, span
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.process import ProcessReport

PATIENCE: Final = 60.0  # seconds that a row may wait, and a relay may be silent
ADVICE: Final = "`rq-dlq outbox MODULE:OUTBOX` sends them; the log of a relay says what it waits for"


def outboxes(settings: BrokerSettings) -> Steps[Check]:
    """Whether rows wait long in an outbox, or its relay does not report; by the reports of a day."""
    reports = yield from processes.outboxes(settings.namespace)
    said = [visible_line(line) for report in reports if (line := _behind(report))]
    if said:
        return Check("outboxes", "warn", "; ".join(said), ADVICE)
    well = f"{many(len(reports), 'outbox', 'outboxes')}: no row waits long"
    found = well if reports else "no relay of an outbox has reported for a day"
    return Check("outboxes", "ok", found)


def _behind(report: ProcessReport) -> str:
    """What is wrong with an outbox; empty: nothing."""
    outbox = report.outbox
    if outbox is None:
        return ""
    rows = f"{many(outbox.rows, 'row')} waited" if outbox.rows else "no row waited"
    if report.ago > PATIENCE:
        how = "ended" if report.stopping else "last reported"
        return f"{outbox.name}: its relay {how} {span(report.ago)} ago, when {rows}"
    if outbox.rows and outbox.oldest + report.ago > PATIENCE:
        return f"{outbox.name}: {many(outbox.rows, 'row')} wait, the oldest for {span(outbox.oldest)}"
    return ""
