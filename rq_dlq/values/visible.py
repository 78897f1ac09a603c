"""Makes untrusted text safe to show: on a terminal, in a log, as JSON."""

from __future__ import annotations

import json
import re

# Characters that control a terminal or begin a line: control characters (C0, DEL, C1), line and paragraph
# separators, and characters that change the direction of text.
_STEERS = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
# Invisible characters: they make two ids look alike, and hide text within a text.
_HIDDEN = r"\xad\u180e\u200b-\u200d\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
STEERS = _STEERS + _HIDDEN
_IN_LINE = re.compile(f"[{STEERS}]")
_FURTHER_LINE = re.compile(r"\n(?=[^\n])")
_IN_TEXT = re.compile(rf"(?![\n\t])[{STEERS}]")


def visible(text: str) -> str:
    r"""The text with terminal control characters escaped, as in \x1b; line breaks and tabs stay."""
    return _IN_TEXT.sub(_escaped, text)


def visible_entry(text: str) -> str:
    """The same as a log entry: further lines are indented, so that none looks like a new entry."""
    return _FURTHER_LINE.sub("\n    ", visible(text))


def visible_line(text: str) -> str:
    r"""The same in one line: line breaks and tabs are also escaped, as in \n."""
    return _IN_LINE.sub(_escaped, text)


def visible_json(text: str) -> str:
    r"""The same JSON with terminal control characters escaped, as in \u009b."""
    return _IN_TEXT.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
