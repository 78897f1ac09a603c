"""Compare rq_dlq with ActiveMQ Classic and Artemis, NATS Streaming and JetStream, running.

make live-brokers, or

python -m tests.proofs.live_brokers classic artemis     # beside these alone
python -m tests.proofs.live_brokers fixed exponential   # these scenarios
python -m tests.proofs.live_brokers --write             # results/ and docs/live-brokers.md, too
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.progress import Progress

from tests.proofs.live_brokers import brokers, results
from tests.proofs.live_brokers.program import Asked, chosen, run_all
from tests.proofs.live_brokers.results import PAGE


@click.command()
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help=f"Write the results, and {PAGE.name}, if all is explained.")
def main(names: tuple[str, ...], *, write: bool) -> None:
    """Run these scenarios, or all. Fails if a result is not explained."""
    known = {name for broker in brokers.BROKERS for name in (broker.key, *broker.scenarios)}
    if unknown := [name for name in names if name not in known]:
        message = f"no scenario {', '.join(unknown)}: there are {', '.join(sorted(known))}"
        raise click.BadParameter(message)
    if write and not {*names} <= {broker.key for broker in brokers.BROKERS}:
        message = "--write needs all scenarios of a broker"
        raise click.UsageError(message)
    asked, skipped = installed(chosen(names), all_of_them=bool(names))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the directories are removed, too
    console = Console(width=None if sys.stdout.isatty() else 200)
    with Progress(console=Console(stderr=True)) as progress:
        parts = run_all(asked, progress)
    for part in parts:
        console.print(part.shown())
    for line in (*skipped, *(part.summary() for part in parts)):
        console.print(line, highlight=False)
    unexplained = not parts or not all(row.explained for part in parts for row in part.rows)
    if unexplained:
        console.print("Explain what nothing explains in its scenario, or mend it. Nothing was written.")
    elif write:
        results.write(parts)
    sys.exit(unexplained)


def installed(asked: Sequence[Asked], *, all_of_them: bool) -> tuple[list[Asked], list[str]]:
    """What can be run here, and a line for each broker that cannot.

    Raises:
        ClickException: nothing can, or something of what was named.
    """
    lacking = brokers.missing()
    here = [each for each in asked if each[0].name not in lacking]
    wanted = {what: how for what, how in lacking.items() if what in {each[0].name for each in asked}}
    if "redis-server" in lacking or not here or (wanted and all_of_them):
        wanted = {what: how for what, how in lacking.items() if what in {*wanted, "redis-server"}}
        told = "".join(f"\n  {what}: {how}" for what, how in wanted.items())
        message = f"not everything that this needs is installed:{told}"
        raise click.ClickException(message)
    return here, [f"skipped: {what}, which {how} brings" for what, how in wanted.items()]


if __name__ == "__main__":
    main()
