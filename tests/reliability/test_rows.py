"""Every row, on its short scale. The whole: `make reliability`."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from tests.needs import lack
from tests.reliability.row import Row, Run
from tests.reliability.rows import all_rows

SEED = 20_261_121


@pytest.mark.parametrize("row", all_rows().values(), ids=all_rows())
def test_a_row_holds(row: Row, tmp_path: Path) -> None:
    reason = row.missing()
    if reason and row.unbuilt:
        pytest.skip(reason)
    if reason:
        lack(reason)
    with Progress(console=Console(quiet=True)) as progress:
        run = Run("short", SEED, tmp_path, progress, progress.add_task(row.name, what=""))
        figures = row.run(run)
    assert figures.trials > 0
    assert figures.met, figures.note
