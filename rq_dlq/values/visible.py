"""Makes foreign text safe to show on a terminal."""

from __future__ import annotations

import re

# Control characters (C0 except newline and tab, DEL, C1), and characters that change the direction of text.
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text with its control characters escaped, as in \x1b."""
    return _STEERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
