"""The progress bar of commands that take long."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.console import Console


@contextmanager
def progress_bar(console: Console, what: str, *, shown: bool = True) -> Generator[Callable[[int, int], None]]:
    """A progress bar, if this is a terminal; call it with the number done and the total."""
    columns = (TextColumn(what, markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
