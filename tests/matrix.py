"""The same tests on several versions of something, and which of them passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console

VERDICTS = {True: "passed", False: "[red]FAILED", None: "not run: not here"}


def run(what: str, versions: Iterable[str], run_with: Callable[[str, Console], bool | None]) -> int:
    """Run the tests on each version, which may not be here (None); 0 where all that are here passed."""
    console = Console()
    passed = {version: run_with(version, console) for version in versions}
    for version, well in passed.items():
        console.print(f"{what} {version}: {VERDICTS[well]}")
    return 0 if any(passed.values()) and False not in passed.values() else 1
