"""The same tests on several versions of something, and which of them passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console


def run(what: str, versions: Iterable[str], run_with: Callable[[str, Console], bool]) -> int:
    """Run the tests on each version; 0 where all passed."""
    console = Console()
    passed = {version: run_with(version, console) for version in versions}
    for version, well in passed.items():
        console.print(f"{what} {version}: {'passed' if well else '[red]FAILED'}")
    return 0 if passed and all(passed.values()) else 1
