"""The text of an error, without the parts that may differ between failures of one kind.

First, all text from the failing message (its id, headers, the strings of its body) is removed, since no
pattern can tell that "anna" is a name. Then one pattern goes through the text. It keeps status numbers, error
numbers and codes of databases, names of schemas (`column "a"`), and, for errors that are about names
(KeyError, AttributeError, NameError, ImportError, TypeError), quoted identifiers. A quoted sentence (three
words, most in lower case) states the problem, so the pattern goes through it in turn; so do words of a
protocol (`mapper_parsing_exception`), types, and a place in what was given (`$.lines[?].qty`). What a library
prints of its input is cut out first: parameters and rows of SQL, the line with a caret, a body. Items that
follow each other alike are one, so lists may have any length.

It is worse to keep a word that varies than to lose one that does not, since the place still tells two kinds
apart. The forms are in `tests/kinds_of_error.yaml`, to be extended: each is filled in 400 times and has to be
one kind, and texts that only look alike have to be several. Only the first 2,000 characters of a text count,
so no text takes long. Words of a message shorter than three characters, and names that stand in no message
and in no quotation marks, stay in the text: `Broker(fingerprint=…)` is for these.
"""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 2_000  # how many characters of a text are examined
SHORTEST = 3  # characters; shorter values are not replaced, since they occur in many texts
VALUES = 10_000  # the most values that are examined, of messages that failed together
LONGEST_NAME, DIGITS_OF_A_NAME = 60, 2

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_PHRASE = "|".join(["Client Error", "Server Error", *(re.escape(status.phrase) for status in HTTPStatus)])
_UNIT = (
    r"(?:[kKMGT]i?B|B|bytes?|[nuµm]?s|sec(?:ond)?s?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|%|[AaPp][Mm])"
)
_SCHEMA = (
    "attribute|column|table|relation|view|constraint|index|field|property|parameter|argument|option|"
    "function|method|module|operator|schema|template|class|keyword|for\\skey"
)
_QUOTED = (
    r"""(?<!\w)[bru]{0,2}(?:'(?:\\.|[^\\]){0,500}?'(?!\w)|"(?:\\.|[^\\]){0,500}?"(?!\w))|`[^`]{0,500}`"""
    "|[„“][^“”]{0,500}[“”]|«[^»]{0,500}»|»[^«]{0,500}«|[‘‚][^‘’]{0,500}[‘’]|「[^」]{0,500}」"
)
# The first alternative that matches wins.
_PART = rf"""
    (?P<code>                                                   # numbers that identify the problem
        (?i:\b(?:http\w*(?:/[\d.]+)?|status(?:_?code)?|code|returned|responded|response|answered)
            (?:\W{{1,3}}(?:status|error|code|with))*\W{{1,3}}[1-5]\d\d\b(?![.,:/-]?\d))
      | (?i:\b(?:got|received|gave|saw)\s(?:an?\s|the\s)?(?:http\s|status\s|code\s)*[1-5]\d\d
            (?=\s(?:from|response|error|status|instead|when|while)\b))
      | (?i:\b(?:errno|sqlstate|signal|(?:exit|error)\W(?:code|status))\W{{1,3}}-?\w*\d\w*)
      | (?i:\b(?:request|call|server|upstream|gateway|webhook|api)\sfailed\W{{1,3}}[45]\d\d\b(?![.,:/-]?\d))
      | (?<![\w.,:/-])[1-5]\d\d(?=\s(?:{_PHRASE}))
      | \A[45]\d\d(?=[,:]\s|\Z)
      | \A(?:\([\w.]+\)\s)?\((?:\d{{1,5}}|'[\dA-Z]{{3}}\d\d')(?=,\s?b?["'])
      | \A\d{{4,5}}\s\([\dA-Z]{{5}}\)(?=:)
      | \b(?:(?:DPI|DPY|ORA|PLS|TNS)-\d{{4,5}}|SQL\d{{4,5}}[CNW])\b
    )
    | (?P<url>[A-Za-z][\w+.-]*://[^\s'"<>]+ | (?<!\w)/[\w./%-]+\?[^\s'"<>]+)
    | (?P<base64>(?<![\w+/=-])[\w+/-]{{8,}}={{1,2}}(?=[\s.,;)\]]|\Z))
    | (?P<named>\b(?:{_SCHEMA})\s+)(?P<name>{_QUOTED})
    | (?P<required>{_QUOTED})(?=\sis\s(?:a\srequired\sproperty|(?:undefined|not\sdefined))\b)
    | (?P<field>{_QUOTED})(?=:\s?\[(?:ErrorDetail\(string=)?["'`“])      # a form's errors, field by field
    | (?<=[\w\]]\[)(?P<key>{_QUOTED})(?=\])                              # a place in what was given
    | (?P<quoted>{_QUOTED})
    | (?P<constant>(?:(?<=["'\w]:)|(?<=["'\w]:\s)|(?<=\w=)|(?<=,\s)|(?<=\[))
        (?:true|false|null|True|False|None)(?=\s*[],}}>)]))
    | (?P<date>(?:{_DAY})?\b(?:\d{{1,2}}(?:\.|st|nd|rd|th)?[ -]{_MONTH}|{_MONTH}\s+\d{{1,2}}\b)
        (?:,?[ -]\d{{4}})?(?:\s+[\d:.]+\d)?(?:\s(?:UTC|GMT|[AaPp][Mm])\b)?)
    | (?P<measure>(?<![\w.,:/-])[-+]?\d[\d.,:]*\s?{_UNIT}(?!\w))
    | (?P<token>[^\s'"`„“”«»‘’‚「」()\[\]{{}}<>,;=|]+)
    """
_STATUS = re.compile(rf"[1-5]\d\d\s(?:{_PHRASE})")
_NAME = re.compile(r"[^\W\d][\w .-]*")
_PATH = re.compile(r"(?:~|\.{0,2}|[A-Za-z]:)[/\\]\w|[^/\\]*[/\\][^/\\]+[/\\]")
_HEX_LETTERS = re.compile(r"[a-f]{6,}|[A-F]{6,}")
_HOST = re.compile(r"(?:[\w-]+\.){2,}(?:com|net|org|io|dev|app|cloud|local|internal|[a-z]{2})")
_CAMEL = re.compile(r"[A-Z]{0,6}[a-z]*(?:[A-Z][a-z]{2,})*[A-Z]{0,4}")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_UNPRONOUNCEABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}")
RANDOM, HUMP = 12, 3.6  # the length of a random text; the mean number of letters per capital in names
WORDS_OF_A_SENTENCE = 3  # a quoted text this long identifies the problem; shorter ones may be names of people
_WORD = re.compile(r"(?<![^\s(])[a-z]{2,}(?![^\s.,;:!?)])")
_ESCAPED, _UNESCAPED = re.compile(r"""\\(["'])"""), r"\1"
_CODE_WORD = re.compile(
    r"""
    [a-z]{2,}(?:_[a-z]{2,})+ | [A-Z]{2,}(?:_[A-Z]{2,})+          # as mapper_parsing_exception
    | int|str|float|bool|bytes|list|dict|tuple|set|NoneType|object|array|number|integer|string|boolean
    """,
    re.VERBOSE,
)
_PLACE = re.compile(r"\$(?:\.[A-Za-z_]\w*|\[[^\]]*\])*")
_INDEX = re.compile(r"\[[^\]]*\]")
# Input that a library quotes in its errors; the group begins where the library's own words end.
_DUMP = re.compile(
    r"""
    \[parameters:\s(?P<parameters>.*?)(?:\](?=\s*(?:\n|\Z))|\Z)     # SQLAlchemy
    | Failing\srow\scontains\s(?P<row>\(.*?\)(?=\.?\s*(?:\n|\Z))|.*\Z)  # PostgreSQL, like the next ones
    | \)=(?P<row_key>\([^\n]*\))
        (?=\s(?:already\sexists|is\s(?:not\spresent|still\sreferenced)|conflicts\swith))
    | (?P<caret>\n[ \t]*[\^~]+[ \t]*(?=\n|\Z))
    | input_value=(?P<input>.*?)(?=,\sinput_type=)                    # pydantic
    | \nOn\s[\w ]*instance[^\n]*:(?P<instance>\n.*)\Z                # jsonschema
    | <!--(?P<comment>.*?)(?:-->|\Z)                                  # HTML
    """,
    re.VERBOSE | re.DOTALL,
)
_SEVERAL = re.compile(r"\?(?:(?:[\s,;:|/&+-]|\bor\b|\band\b)*\?)+")
_REPEATED = re.compile(r"(?<![^\s\[({,])((?=\S)[^\n]{4,600}?)(?:,\s?\1)+(?![^\s\])},.;>])")
_PLURAL = re.compile(r"\? ([\w-]{3,}?)s\b")


@cache
def _part() -> re.Pattern[str]:
    """The pattern of the parts, made at the first failure: it takes a twentieth of the import."""
    return re.compile(_PART, re.VERBOSE | re.DOTALL)


def wording(text: str, values: Iterable[str] = (), *, naming: bool = False) -> str:
    """An error's text with a question mark for each part that may differ between failures of one kind.

    Args:
        values: texts from the message.
        naming: the quoted names in the text identify the problem, as in a KeyError.
    """
    text = _DUMP.sub(
        lambda part: f"{part[0][: part.start(part.lastgroup or 0) - part.start()]}?", text[:LONGEST]
    )
    said = _said(_without(text, values), naming=naming)
    return _PLURAL.sub(r"? \1", _SEVERAL.sub("?", _REPEATED.sub(r"\1", said)))


def _said(text: str, *, naming: bool) -> str:
    def told(part: re.Match[str]) -> str:
        kind, found = part.lastgroup, part.group()
        if kind == "code":
            return found
        if kind == "name":
            return part["named"] + _quoted(part["name"], keep=True)
        if kind in {"quoted", "required", "field", "key"}:
            return _quoted(found, keep=naming or kind != "quoted")
        return _token(found) if kind == "token" else "?"

    return _part().sub(told, text)


def _without(text: str, values: Iterable[str]) -> str:
    texts = {
        value
        for value in islice(values, VALUES)
        if len(value) >= SHORTEST and not value.isdigit() and value in text
    }
    if not texts:
        return text
    longest_first = sorted(texts, key=len, reverse=True)
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", "?", text)


def _quoted(text: str, *, keep: bool) -> str:
    """A quoted text: a name, a word of a protocol, a place or a sentence stays; anything else is a value."""
    inner = text.strip("bru")[1:-1]
    if (keep and _is_name(inner)) or _STATUS.match(inner) or _CODE_WORD.fullmatch(inner):
        return text
    if _PLACE.fullmatch(inner):
        return _INDEX.sub("[?]", text)
    if len(_WORD.findall(inner)) >= WORDS_OF_A_SENTENCE - 1 and len(inner.split()) >= WORDS_OF_A_SENTENCE:
        return f'"{_said(_ESCAPED.sub(_UNESCAPED, inner), naming=False)}"'
    return "?"


def _is_name(text: str) -> bool:
    return (
        len(text) <= LONGEST_NAME
        and _NAME.fullmatch(text) is not None
        and sum(map(str.isdigit, text)) <= DIGITS_OF_A_NAME
        and not any(map(_is_random, text.split()))
    )


def _token(text: str) -> str:
    token = text.rstrip(".:!?")
    variable = (
        any(map(str.isdigit, token))
        or "@" in token.strip("@")
        or _PATH.match(token)
        or "://" in token
        or _HOST.fullmatch(token)
        or _is_random(token)
    )
    return "?" + text[len(token) :] if variable else text


def _is_random(word: str) -> bool:
    if _HEX_LETTERS.fullmatch(word):
        return True
    if len(word) < RANDOM or word.islower() or word.isupper():
        return False
    is_camel = all(map(_CAMEL.fullmatch, re.findall(r"[A-Za-z]+", word)))
    return not is_camel or len(word) < HUMP * len(_HUMP.findall(word)) or bool(_UNPRONOUNCEABLE.search(word))
