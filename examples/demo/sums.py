"""The result, and whether it adds up."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rq_dlq import ErrorGroup

from .payments import TAKES

SLACK = 1.0  # seconds; a dead worker's messages must be redelivered within the lease and this


def many(number: int, what: str, more: str = "") -> str:
    """1 message, 2 messages."""
    return f"{number:,} {what if number == 1 else more or f'{what}s'}"


@dataclass(frozen=True, kw_only=True)
class Outage:
    """The effects of an outage while the queue had a breaker.

    Attributes:
        seconds: how long it was.
        refused: payments that the service refused.
        waited: messages that waited for it when it was back.
        died: messages that ran out of tries.
        drained: seconds until all that had waited were done.
    """

    seconds: float
    refused: int
    waited: int
    died: int
    drained: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The measurements.

    Attributes:
        left: messages that are neither acked nor dead nor expired.
        groups: the dead letters by kind, before the redrive.
        rescued: seconds from the kill to the redelivery, for each message of the killed worker.
        redrive_took: seconds until all redriven messages were done.
        second_outage: the one with a breaker.
        p50, p99: seconds from when a message was due until it was paid, except for redriven messages and
            those that waited for the service.
    """

    rows: int
    sent: int
    acked: int
    dead: int
    expired: int
    left: int
    groups: tuple[ErrorGroup, ...]
    redriven: int
    redrive_took: float
    second_outage: Outage
    payments_owed: int
    dollars_owed: int
    payments: int
    dollars: int
    twice: int
    asked_again: int
    lease: float
    rescued: tuple[float, ...]
    p50: float
    p99: float
    seconds: float

    @property
    def lost(self) -> int:
        """Rows of the file that are no longer in the queue, and were not done."""
        return self.rows - self.acked - self.dead - self.expired - self.left


@dataclass(frozen=True)
class Check:
    """One sum: whether it holds, and its text."""

    name: str
    holds: bool
    text: str


def checks(f: Figures) -> list[Check]:
    """The sums that a sceptic would check."""
    second = f.second_outage
    again = f"{many(f.asked_again, 'payment')} {'was' if f.asked_again == 1 else 'were'}"
    return [
        Check("sent", f.sent == f.rows, f"{f.sent:,} messages for {f.rows:,} rows of the file"),
        Check(
            "sent = acked + dead + expired",
            f.sent == f.acked + f.dead + f.expired and f.left == 0,
            f"{f.sent:,} = {f.acked:,} + {f.dead:,} + {f.expired:,}",
        ),
        Check("lost", f.lost == 0, f"{f.lost:,}"),
        Check(
            "settled, by the book",
            (f.payments, f.dollars) == (f.payments_owed, f.dollars_owed),
            f"{f.payments:,} of {f.payments_owed:,} payments, ${f.dollars:,} of ${f.dollars_owed:,}",
        ),
        Check(
            "settled twice",
            f.twice == 0,
            f"{f.twice:,}; {again} requested twice and recognised by the message's id",
        ),
        Check(
            "died with a breaker",
            second.died == 0 < second.waited,
            f"{second.died:,} in {second.seconds:.1f} s; {many(second.waited, 'message')} waited, "
            f"{many(second.refused, 'try', 'tries')} failed, all was paid {second.drained:.1f} s later",
        ),
        Check(
            "redriven",
            f.redriven > 0,
            f"{many(f.redriven, 'dead letter')} that had run out of tries, done {f.redrive_took:.1f} s later",
        ),
    ]


def show(out: Console, figures: Figures) -> None:
    """Print the dead letters, the sums and the times."""
    out.print(Text("\nDead letters before the redrive", "bold"))
    out.print(_groups(figures))
    out.print(Text("\nThe sums", "bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for check in checks(figures):
        mark = Text("✓", "green") if check.holds else Text("✗", "bold red")
        table.add_row(mark, check.name, Text(check.text))
    for mark, name, text in _times(figures):
        table.add_row(mark, name, Text(text))
    out.print(table)


def _groups(figures: Figures) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("group", "count", "reason", "error", "then"):
        table.add_column(name, justify="right" if name == "count" else "left", overflow="fold")
    for group in figures.groups:
        back = group.reason == "exhausted"
        then = Text("redriven", "green") if back else Text("stays", "dim")
        reason = Text(group.reason, "yellow" if back else "red")
        table.add_row(Text(group.fingerprint, "cyan"), f"{group.count:,}", reason, Text(group.error), then)
    return table


def _times(f: Figures) -> list[tuple[Text, str, str]]:
    slowest, limit = max(f.rescued), f.lease + SLACK
    in_time = Text("✓", "green") if slowest <= limit else Text("!", "yellow")
    held = many(len(f.rescued), "message")
    rescue = f"{held}, the last after {slowest:.2f} s (lease {f.lease:g} s + {SLACK:g} s = {limit:g} s)"
    waits = (
        f"p50 {f.p50 * 1000:.0f} ms, p99 {f.p99 * 1000:.0f} ms, of which paying takes {TAKES * 1000:.0f} ms"
    )
    return [
        (in_time, "kill to redelivery", rescue),
        (Text(" "), "due to settled", waits),
        (Text(" "), "run time", f"{f.seconds:.1f} s"),
    ]
