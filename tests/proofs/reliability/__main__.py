"""Show what is promised under faults.

make reliability, make soak, or

python -m tests.proofs.reliability T5 T7 --seed 42
python -m tests.proofs.reliability --write            # what comes of them goes into docs/reliability.md, too
"""

from __future__ import annotations

import json
import signal
import sys

import click
from rich.console import Console

from tests.proofs.reliability.program import PAGE, failed, run_rows, write_page
from tests.proofs.reliability.row import SCALES, Scale
from tests.proofs.reliability.rows import all_rows
from tests.proofs.reliability.table import shown, summary


@click.command()
@click.argument("names", nargs=-1)
@click.option("--scale", type=click.Choice(SCALES), default="whole", show_default=True)
@click.option(
    "--seed", type=int, help="What is drawn follows from it; unless given it is drawn, and printed."
)
@click.option("--write", is_flag=True, help=f"Write these rows into {PAGE.name}, too.")
@click.option("--json", "as_json", is_flag=True, help="The results as JSON, a line each.")
def main(names: tuple[str, ...], scale: Scale, seed: int | None, *, write: bool, as_json: bool) -> None:
    """Run these rows, or all, and print what came of them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and hosts are ended, too
    rows = all_rows()
    unknown = [name for name in names if name not in rows]
    if unknown:
        message = f"no row {', '.join(unknown)}: there are {', '.join(rows)}"
        raise click.BadParameter(message)
    results = run_rows([rows[name] for name in names or rows], scale, seed)
    if as_json:
        for result in results:
            click.echo(json.dumps({"row": result.row.name, "state": result.state, "note": result.note}))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(shown(results))
        console.print(summary([result.cells() for result in results]), highlight=False)
    if write:
        write_page(results, whole=not names)
    sys.exit(failed(results))


if __name__ == "__main__":
    main()
