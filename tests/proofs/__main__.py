"""The proofs: which there are, one of them, or all.

$ python -m tests.proofs                        which there are, what each takes and shows
$ python -m tests.proofs reliability            one: first the tests of its program, then the proof
$ python -m tests.proofs reliability T5 T7      with arguments of its own; --help tells them
$ python -m tests.proofs all                    one after the other, with a table at the end
$ python -m tests.proofs --write                the table of docs/proofs.md, too
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.checkout import ROOT
from tests.proofs.registry import HEADS, PAGE, PROOFS, Proof, with_table

SHOWN, NOT_RUN = "shown", "not run"
STYLES = {SHOWN: "green", NOT_RUN: "yellow"}


def main(arguments: Sequence[str]) -> int:
    """The command line; 0: all that could be run was shown."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the proof that runs is ended, too
    match arguments:
        case []:
            say(table(HEADS, [proof.cells() for proof in PROOFS.values()]))
            return 0
        case ["--write"]:
            PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
            return 0
        case ["all"]:
            return run_all()
        case [name, *words] if name in PROOFS:
            if (result := run(PROOFS[name], words)) != SHOWN:
                say(f"{name}: {result}")
            return int(result != SHOWN)
        case _:
            sys.stderr.write(f"{__doc__}\nThere are {', '.join(PROOFS)}.\n")
            return 2


def run(proof: Proof, words: Sequence[str] = ()) -> str:
    """The tests of its program, then the proof, with these arguments or in all its runs; what came of it."""
    if reason := proof.missing():
        return f"{NOT_RUN}: {reason}"
    if not ended_well("pytest", "-q", f"tests/proofs/{proof.name}"):
        return "the tests of its program failed"
    ended = [ended_well(f"tests.proofs.{proof.name}", *each) for each in ([words] if words else proof.runs)]
    return SHOWN if all(ended) else "not shown"


def run_all() -> int:
    """One after the other; at least one has to be shown, and none may fail."""
    rows: list[tuple[str, str, str]] = []
    for proof in PROOFS.values():
        say(f"\n{proof.name}, {proof.takes}: {proof.shows}")
        began = time.monotonic()
        result = run(proof)
        rows.append((proof.name, result, f"{(time.monotonic() - began) / 60:.1f}"))
    say(table(("proof", "result", "minutes"), rows))
    states = {result.partition(":")[0] for _, result, _ in rows}
    return int(not {SHOWN} <= states <= {SHOWN, NOT_RUN})


def ended_well(module: str, *words: str) -> bool:
    """Run a module; it does not go on when we are ended."""
    with subprocess.Popen([sys.executable, "-m", module, *words], cwd=ROOT) as process:
        try:
            return process.wait() == 0
        finally:
            process.terminate()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """For a terminal."""
    made = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*row, style=STYLES.get(row[1].partition(":")[0]))
    return made


def say(what: str | Table) -> None:
    """Print it."""
    Console(width=None if sys.stdout.isatty() else 200).print(what, markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
