"""Patterns with `*` for anything, as rules and settings have them."""

from __future__ import annotations

import re


def fits(pattern: str, text: str) -> bool:
    """Whether a text is as the pattern says; `*` stands for anything."""
    return re.fullmatch(expression(pattern), text) is not None


def expression(pattern: str) -> str:
    """A pattern as a regular expression, of Python and of Spark."""
    return ".*".join(re.sub(r"(\W)", r"\\\1", part) for part in pattern.split("*"))
