"""Flights are settled while the payment service fails and a worker is killed. `rq-dlq demo` runs it.

`payments` is the service that fails, `workers` are the processes, `stage` sets both up, `play` is the
sequence of events, `view` shows it, `sums` checks the result.
"""

from rich.console import Console

from .play import perform
from .stage import Stage
from .sums import Figures
from .view import view_of


def run(rows: int | None, seconds: float, out: Console, err: Console) -> Figures:
    """Send this many flights (None: all) within the seconds, and measure their outcomes."""
    stage = Stage(rows)
    with stage.up(), view_of(stage, out, err) as view:
        return perform(stage, view, seconds)
