"""The cases of `tests/cases/*.yaml`: what other systems do, and what is done here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).with_name("cases")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # all files are read when tests are collected


def load(group: str) -> list[dict[str, Any]]:
    """The rows of a group, in the order of its file."""
    content = yaml.load((FOLDER / f"{group}.yaml").read_text(encoding="utf-8"), LOADER)  # noqa: S506 - both are safe
    rows: list[dict[str, Any]] = content if isinstance(content, list) else content["cases"]  # no name on top
    return rows
