"""The rows, each in a module of its own; a module says them in `ROWS`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tests.proofs.reliability.row import Row


def all_rows() -> dict[str, Row]:
    """Every row by its name, in order."""
    modules = (import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    rows: list[Row] = [twin for module in modules for row in module.ROWS for twin in row.twins()]
    return {row.name: row for row in sorted(rows, key=lambda row: row.number)}
