"""The output of the demo: a live picture on a terminal, plain lines elsewhere."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rq_dlq import QueueStats

from .play import Scene, View
from .stage import Stage
from .workers import Worker

EVERY = 2.0  # seconds between two plain lines
FRAME = 0.1  # seconds between two pictures
STATES = (
    ("ready", "", "can be claimed now"),
    ("leased", "cyan", "held by a worker"),
    ("scheduled", "yellow", "waiting for the next try, or the service"),
    ("dead", "red", "dead letters"),
    ("acked", "green", "done"),
)


@contextmanager
def view_of(stage: Stage, out: Console, err: Console) -> Generator[View]:
    """The view for this terminal, or for no terminal."""
    if out.is_terminal and err.is_terminal:
        with Live(console=err, auto_refresh=False, vertical_overflow="visible") as live:
            yield Picture(live, stage)
    else:
        yield Lines(err, stage)


def counts(stats: QueueStats) -> dict[str, int]:
    """The counts of the states that are shown."""
    acked = stats.totals.get("acked", 0)
    return {name: acked if name == "acked" else getattr(stats, name) for name, *_ in STATES}


class Lines:
    """Prints a line for each event, and from time to time one with the counts."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self._console = console
        self._stage = stage
        self._next = 0.0

    def told(self, scene: Scene) -> None:
        """Print the newest event."""
        when, what = scene.events[-1]
        self._say(f"{when:5.1f} s  {what}")

    def show(self, scene: Scene) -> None:
        """Print the counts, if it is time again."""
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + EVERY
            states = ", ".join(f"{count:,} {name}" for name, count in counts(scene.stats).items())
            sent = f"{self._stage.sent:,} sent"
            self._say(f"{scene.elapsed:5.1f} s  {sent}: {states} ({scene.rate:,.0f}/s)")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class Picture:
    """A picture that is redrawn."""

    def __init__(self, live: Live, stage: Stage) -> None:
        self._live = live
        self._stage = stage
        self._next = 0.0

    def told(self, scene: Scene) -> None:
        """Draw the picture with the newest event."""
        self._live.update(self._paint(scene), refresh=True)

    def show(self, scene: Scene) -> None:
        """Draw the picture, if it is time again."""
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + FRAME
            self.told(scene)

    def _paint(self, scene: Scene) -> RenderableType:
        title = Text.assemble(("rq-dlq demo", "bold"), f"  {scene.elapsed:.1f} s")
        trouble = self._stage.payments.down or "dead" in scene.now
        now = Text(f"▶ {scene.now}", "bold yellow" if trouble else "bold green")
        sent = Table.grid(padding=(0, 2))
        total = len(self._stage.flights)
        bar = ProgressBar(total=total, completed=self._stage.sent, width=30)
        sent.add_row("sent", bar, f"{self._stage.sent:,} of {total:,} flights", f"{scene.rate:,.0f} done/s")
        sides = Table.grid(padding=(0, 4))
        sides.add_row(self._states(scene), self._workers())
        return Group(title, now, "", sent, "", sides, "", self._events(scene))

    def _states(self, scene: Scene) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(justify="right", min_width=5)
        known = counts(scene.stats)
        for name, style, meaning in STATES:
            table.add_row(name, Text(f"{known[name]:,}", f"bold {style}"), Text(meaning, "dim"))
        return table

    def _workers(self) -> Table:
        table = Table.grid(padding=(0, 2))
        paid = self._stage.payments.paid_by
        for worker in self._stage.workers.all:
            table.add_row(
                f"worker {worker.number}",
                _state_of(worker),
                Text(f"{paid[worker.process.pid]:,} paid", "dim"),
            )
        down = self._stage.payments.down
        table.add_row("payments", Text("● down", "bold red") if down else Text("● up", "green"))
        return table

    def _events(self, scene: Scene) -> Table:
        table = Table.grid(padding=(0, 2))
        for when, what in scene.events:
            table.add_row(Text(f"{when:.1f} s", "dim"), what)
        return table


def _state_of(worker: Worker) -> Text:
    if worker.killed:
        return Text("✗ killed", "bold red")
    return Text("● runs", "green") if worker.started else Text("○ starts", "dim")
