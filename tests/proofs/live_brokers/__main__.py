"""Compare rq_dlq with ActiveMQ Classic and JetStream, running.

make live-brokers, or

python -m tests.proofs.live_brokers classic             # beside this one alone
python -m tests.proofs.live_brokers fixed exponential   # these scenarios
python -m tests.proofs.live_brokers --write             # the tables go into docs/migrating.md, too
"""

from __future__ import annotations

import signal
import sys

import click
from rich.console import Console
from rich.progress import Progress

from tests.proofs.live_brokers.program import BROKERS, chosen, run
from tests.proofs.live_brokers.programs import missing
from tests.proofs.live_brokers.table import PAGE, with_table


@click.command()
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help=f"Write the tables into {PAGE.name}, too, if all is explained.")
def main(names: tuple[str, ...], *, write: bool) -> None:
    """Run these scenarios, or all. Fails if a result is not explained."""
    known = {name for broker in BROKERS for name in (broker.key, *broker.scenarios)}
    if unknown := [name for name in names if name not in known]:
        message = f"no scenario {', '.join(unknown)}: there are {', '.join(sorted(known))}"
        raise click.BadParameter(message)
    if write and not {*names} <= {broker.key for broker in BROKERS}:
        message = "--write needs all scenarios of a broker"
        raise click.UsageError(message)
    if lacking := missing():
        wanted = "".join(f"\n  {what}: {how}" for what, how in lacking.items())
        message = f"not everything that this needs is installed:{wanted}"
        raise click.ClickException(message)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the directories are removed, too
    console = Console(width=None if sys.stdout.isatty() else 200)
    with Progress(console=Console(stderr=True)) as progress:
        parts = [run(broker, scenarios, progress) for broker, scenarios in chosen(names)]
    for part in parts:
        console.print(part.shown())
        console.print(part.summary(), highlight=False)
    unexplained = not all(row.explained for part in parts for row in part.rows)
    if unexplained:
        console.print("Explain what nothing explains in its scenario, or mend it. Nothing was written.")
    elif write:
        for part in parts:
            PAGE.write_text(with_table(PAGE.read_text("utf-8"), part), "utf-8")
    sys.exit(unexplained)


if __name__ == "__main__":
    main()
