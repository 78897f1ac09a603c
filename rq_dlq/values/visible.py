"""Makes foreign text safe to show: on a terminal, in a log, as JSON."""

from __future__ import annotations

import re

# What steers a terminal or begins a line: control characters (C0, DEL, C1), the separators of lines and
# paragraphs, and what changes the direction of text. All of them are one UTF-16 unit, as JSON escapes them.
STEERS = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_IN_LINE = re.compile(f"[{STEERS}]")
_IN_TEXT = re.compile(rf"(?![\n\t])[{STEERS}]")


def visible(text: str) -> str:
    r"""The text with what steers a terminal escaped, as in \x1b; it may have several lines, and tabs."""
    return _IN_TEXT.sub(_escaped, text)


def visible_line(text: str) -> str:
    r"""The same in one line: line breaks and tabs are escaped, too, as in \n."""
    return _IN_LINE.sub(_escaped, text)


def visible_json(text: str) -> str:
    r"""The same JSON with what steers a terminal escaped, as in \u009b."""
    return _IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
