"""Finds the example that the demo runs."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import rq_dlq
from rq_dlq.errors import ConfigurationError


@dataclass(frozen=True)
class App:
    """The module `examples.flights`, and the directory from which a worker can import it."""

    name: str
    directory: Path

    @property
    def module(self) -> Any:
        """The imported module."""
        if str(self.directory) not in sys.path:
            sys.path.insert(0, str(self.directory))
        return import_module(self.name)

    def flights(self, most: int | None) -> list[Any]:
        """The flights of the file, or `most` of them, evenly spread."""
        with Path(self.module.__file__).with_name("flights.csv").open(newline="") as file:
            rows = [{key: cell or None for key, cell in row.items()} for row in csv.DictReader(file)]
        most = min(most or len(rows), len(rows))
        chosen = [rows[i * len(rows) // most] for i in range(most)]
        kind: Any = list[self.module.Flight]  # type: ignore[name-defined]
        flights: list[Any] = msgspec.convert(chosen, kind, strict=False)
        return flights

    def by_hand(self) -> str:
        """The commands that do the same."""
        file = Path(self.module.__file__).with_name("flights.csv")
        shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
        return (
            "\nThe same by hand:\n"
            f"  rq-dlq send flights {shown} --csv\n"
            f"  rq-dlq worker {self.name}:broker --burst\n"
            "  rq-dlq dlq groups flights"
        )


def find() -> App:
    """The example: inside an installed package, beside the package in a checkout.

    Raises:
        ConfigurationError: it is in neither.
    """
    package = Path(rq_dlq.__file__).resolve().parent
    if (package / "examples" / "flights.py").exists():
        return App("rq_dlq.examples.flights", package.parent)
    if (package.parent / "examples" / "flights.py").exists():
        return App("examples.flights", package.parent)
    raise ConfigurationError("the example examples/flights.py is not installed: reinstall rq-dlq")
