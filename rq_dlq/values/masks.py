"""Hides secrets: values of fields with certain names, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from rq_dlq.values.codec import NO_JSON

USUAL = (
    "password", "passwd", "pwd", "passphrase", "token", "secret", "authorization", "api_key", "private_key",
    "cookie",
)  # fmt: skip
HIDDEN = "***"
MOST = 100_000  # how many characters of a text are shown
DEEPEST = 5  # how many levels of JSON in JSON are decoded; deeper ones are searched as text
WHOLE_LINE = ("authorization", "cookie")  # headers whose values contain spaces, commas and quotes
_NEAR = 60  # characters before a name in which its first word is searched, as in `api key`
_SEPARATORS = re.compile(r"[-_.\s]+")
_NO_NAME = re.compile(r"[^\w.-]+")
_IN_URL = re.compile(r"(\w{1,20}://)[^/\s]*@")  # to the last @, since passwords may contain one
# A possible field: its name, a closing quote, and = or :. It begins only where a name does and never
# backtracks, so that each character is read once, however long the name is. A pair, ["password", "x"], has a
# comma after the name, and an option, --password x, a space. A sentence about an option, "--token is
# required", has no value.
_FIELD = re.compile(
    r"""(?<![\w.-])(?:([\w.-]++)(\\*+["']\]?)?\s*+(?:[:=]{1,3}>?|(,))\s*+"""
    r"""|(--[\w-]++)\s++(?!(?:is|was|must|has|needs|cannot|and|or)\s)(?=[^\s-]))"""
)
_PAIR = re.compile(r"""[\[(]\s{0,9}\\*+["']\Z""")  # the start of a pair
_TAG = re.compile(r"<(?:[\w.-]{1,60}:)?([\w.-]{1,200})(?:\s[^<>]*+)?(?<!/)>")
_NAME = re.compile(r"""\\{0,9}["']?([\w.-]{1,60})""")
SAYS_NAME = frozenset({"name", "key", "field", "header", "option", "param", "parameter", "k"})
SAYS_VALUE = frozenset({"value", "values", "val", "v"})
# A quote may be escaped, once for each level of nesting, and may follow b or SecretStr(.
_OPENS = re.compile(r"""(?:[bruf]{1,2}|[a-z_][\w.]{0,60}\()?(\\*+)(["'])""", re.IGNORECASE)
_QUOTE = re.compile(r"""(?<!\\)(\\*+)(["'])""")
_BEFORE = re.compile(r"""(\\*+)(["'])\Z""")
_PLAIN = re.compile(
    r"""-----BEGIN[^-]{0,80}-----.*?(?:-----END[^-]{0,80}-----|\Z)"""
    r"""|(?:(?:Bearer|Basic|Token|Digest|ApiKey)\s++)?[^\s,;&"'}\])]+""",
    re.IGNORECASE | re.DOTALL,
)
_LINE = re.compile(r"[^\r\n]*")
_BRACKET = re.compile(r"""[\[{(]|[\]})]|(?<!\\)(\\*+)(["'])""")


class Masks:
    """The rules for hidden values.

    A field is hidden if its name contains one of the words, in any case and with any separators: `api_key`
    also hides `X-API-Key` and `apiKey`.

    Args:
        names: words in addition to the default ones.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        words = {tuple(_SEPARATORS.split(name.lower().strip("-_. "))) for name in (*USUAL, *names)} - {("",)}
        self._words = re.compile("|".join(sorted(re.escape("".join(word)) for word in words)))
        spelled = "|".join(sorted(r"[-_. ]?".join(map(re.escape, word)) for word in words))
        self._ends_named = re.compile(rf"""(?:{spelled})[\w.-]*+\Z""", re.IGNORECASE)
        tails = {tail for word in words for tail in _NO_NAME.split(" ".join(word))[1:]}
        self._tails = re.compile("|".join(sorted(map(re.escape, tails))), re.IGNORECASE)

    def hides(self, name: str) -> bool:
        """Whether the value of a field with this name is hidden."""
        return bool(self._words.search(_SEPARATORS.sub("", name.lower())))

    def value(self, value: Any) -> Any:
        """A JSON value with its secrets hidden, including secrets in texts that are themselves JSON."""
        return self._value(value, DEEPEST)

    def text(self, text: str) -> str:
        """A text, such as an error's, with values like `password=…` hidden; a long text is truncated."""
        cut = text if len(text) <= MOST else text[:MOST]
        elements = "".join(self._parts("".join(self._elements(cut))))
        shown = _IN_URL.sub(rf"\1{HIDDEN}@", elements)
        return shown if len(text) <= MOST else f"{shown}… ({len(text):,} characters)"

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            named = any(str(key).lower() in SAYS_NAME and self._names(part) for key, part in fields.items())
            return {
                key: HIDDEN
                if self.hides(str(key)) or (named and str(key).lower() in SAYS_VALUE)
                else self._value(part, depth)
                for key, part in fields.items()
            }
        if isinstance(value, list | tuple):
            parts = cast("Sequence[Any]", value)
            before = (None, *parts)
            return [
                HIDDEN if self._leads(before[n], len(parts)) else self._value(part, depth)
                for n, part in enumerate(parts)
            ]
        return self._decoded(value, depth) if isinstance(value, str) else value

    def _names(self, value: Any) -> bool:
        """Whether a value is the name of a hidden field."""
        return isinstance(value, str) and _NAME.fullmatch(value) is not None and self.hides(value)

    def _leads(self, value: Any, length: int) -> bool:
        """Whether the next item of a list is hidden: in a pair after a name, or after an option."""
        return self._names(value) and (length == 2 or value.startswith("--"))  # noqa: PLR2004

    def _decoded(self, text: str, depth: int) -> str:
        """A text; if it is JSON, the secrets in its fields are hidden."""
        if not (depth and text[:_NEAR].lstrip()[:1] in ("{", "[")):
            return self.text(text)
        try:
            found = msgspec.json.decode(text)
            shown = self._value(found, depth - 1)
            if shown != found:
                text = msgspec.json.encode(shown).decode()
        except NO_JSON:
            return self.text(text)
        return text if len(text) <= MOST else self.text(text)

    def _elements(self, text: str) -> Iterator[str]:
        """A text in parts, with the contents of XML elements replaced."""
        shown = at = 0
        while tag := _TAG.search(text, at):
            at = tag.end()
            if self.hides(tag[1]):
                end = text.find("</", at)
                if end < 0:  # no later element is closed either
                    break
                yield f"{text[shown:at]}{HIDDEN if end > at else ''}"
                shown = at = end
        yield text[shown:]

    def _parts(self, text: str) -> Iterator[str]:
        """A text in parts, with its secrets replaced."""
        shown = at = 0
        named = False  # a field announced the value of a hidden field
        while field := _FIELD.search(text, at):
            at = field.end()
            name = (field[1] or field[4]).lower()
            is_value = named and name in SAYS_VALUE
            if (is_value or self._hides_in(text, field)) and (end := _end_of_value(text, field)) > at:
                yield f"{text[shown:at]}{HIDDEN}"
                shown = at = end
                named = named and not is_value
            elif name in SAYS_NAME:
                said = _NAME.match(text, at)
                named = said is not None and self.hides(said[1])
        yield text[shown:]

    def _hides_in(self, text: str, field: re.Match[str]) -> bool:
        if field[3] and not (field[2] and _PAIR.search(text, max(0, field.start() - 20), field.start())):
            return False
        if self.hides(field[1] or field[4]):
            return True
        if field[1] is None or not self._tails.match(field[1]):
            return False
        return bool(self._ends_named.search(text[max(0, field.start() - _NEAR) : field.end(1)]))


def _end_of_value(text: str, field: re.Match[str]) -> int:
    """Where the value of a field ends. An unclosed quote or bracket extends to the end."""
    at = field.end()
    if opens := _OPENS.match(text, at):
        return _closing(text, opens)
    if not field[2] and any(word in (field[1] or field[4]).lower() for word in WHOLE_LINE):
        line = _LINE.match(text, at, _end_of_quoted(text, field))
        return line.end() if line else at
    if text[at : at + 1] in ("[", "{", "("):
        return _closed(text, at)
    plain = _PLAIN.match(text, at)
    return plain.end() if plain else at


def _end_of_quoted(text: str, field: re.Match[str]) -> int:
    """The end of a quote that begins with a field, as in curl -H 'Cookie: a=b; c=d' https://shop."""
    before = _BEFORE.search(text[max(0, field.start() - _NEAR) : field.start()])
    closed = _closing(text, before, field.end()) if before else len(text)
    return closed - 1 if before and text[closed - 1] == before[2] else closed


def _closing(text: str, opens: re.Match[str], at: int = 0) -> int:
    """The closing quote: the next one of the same kind with no more escapes."""
    for quote in _QUOTE.finditer(text, at or opens.end()):
        if quote[2] == opens[2] and len(quote[1]) <= len(opens[1]):
            return quote.end()
    return len(text)


def _closed(text: str, at: int) -> int:
    """The closing bracket."""
    depth = 0
    while part := _BRACKET.search(text, at):
        at = part.end()
        if part[2]:
            at = _closing(text, part)
            continue
        depth += 1 if part[0] in "[{(" else -1
        if not depth:
            return at
    return len(text)
