"""Hides secrets: values of fields with certain names, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

USUAL = ("password", "passwd", "token", "secret", "authorization", "api_key", "cookie")
HIDDEN = "***"
MOST = 100_000  # characters of a text that are shown
_SEPARATORS = re.compile(r"[-_.\s]+")
_IN_URL = re.compile(r"(\w{1,20}://)[^/\s@]{1,300}@")
_VALUE = r"""("[^"]*"|'[^']*'|(?:(?:Bearer|Basic)\s{1,5})?[^\s,;&"'}\])]+)"""


class Masks:
    """Which values are hidden.

    A field is hidden if its name has one of the words in it, whatever its case and its separators:
    `api_key` hides `X-API-Key` and `apiKey`, too.

    Args:
        names: words beside the usual ones.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        words = {tuple(_SEPARATORS.split(name.lower().strip("-_. "))) for name in (*USUAL, *names)} - {("",)}
        self._words = ["".join(word) for word in words]
        spelled = "|".join(sorted(r"[-_. ]?".join(map(re.escape, word)) for word in words))
        named = rf"""((?:{spelled})[\w.-]{{0,40}}\\?["']?\s{{0,5}}(?:[:=]|=>)\s{{0,5}})"""
        self._in_text = re.compile(named + _VALUE, re.IGNORECASE)

    def hides(self, name: str) -> bool:
        """Whether the value of a field of this name is hidden."""
        plain = _SEPARATORS.sub("", name.lower())
        return any(word in plain for word in self._words)

    def value(self, value: Any) -> Any:
        """A JSON value with its secrets hidden."""
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value).items()
            return {key: HIDDEN if self.hides(str(key)) else self.value(part) for key, part in fields}
        if isinstance(value, list | tuple):
            return [self.value(part) for part in cast("Iterable[Any]", value)]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """A text, such as that of an error, with what looks like `password=…` hidden; a long one is cut."""
        cut = text if len(text) <= MOST else f"{text[:MOST]}… ({len(text):,} characters)"
        return _IN_URL.sub(rf"\1{HIDDEN}@", self._in_text.sub(rf"\1{HIDDEN}", cut))
