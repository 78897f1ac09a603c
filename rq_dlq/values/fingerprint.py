"""Which failures are of one kind: where it failed, and what its text says without its variable parts."""

from __future__ import annotations

import hashlib
import re
import sysconfig
import traceback
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

PLACE = 6  # of the twelve digits: those for the class and the place
LONGEST = 2_000  # characters of a text that are looked at
SHORTEST = 3  # characters of a value of the message that is looked for: shorter ones are parts of many texts
VALUES = 10_000  # of messages that failed together
FRAMES = 10
LONGEST_NAME, DIGITS_OF_A_NAME = 60, 2

# Errors whose quoted names say what is wrong: without them all missing keys would be one kind.
NAMING = (KeyError, AttributeError, NameError, ImportError, TypeError)
_NAMING = frozenset(kind.__name__ for kind in (*NAMING, ModuleNotFoundError, UnboundLocalError))

_OWN = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_PHRASE = "|".join(["Client Error", "Server Error", *(re.escape(status.phrase) for status in HTTPStatus)])
_UNIT = (
    r"(?:[kKMGT]i?B|B|bytes?|[nuµm]?s|sec(?:ond)?s?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|%|[AaPp][Mm])"
)
_SCHEMA = (
    "attribute|column|table|relation|view|constraint|index|field|property|parameter|argument|option|"
    "function|method|module|operator|schema|template|class"
)
_QUOTED = (
    r"""(?<!\w)[bru]{0,2}(?:'(?:\\.|[^\\]){0,500}?'(?!\w)|"(?:\\.|[^\\]){0,500}?"(?!\w))|`[^`]{0,500}`"""
    "|[„“][^“”]{0,500}[“”]|«[^»]{0,500}»|»[^«]{0,500}«|[‘‚][^‘’]{0,500}[‘’]|「[^」]{0,500}」"
)
# The first that fits at a place wins.
_PART = re.compile(
    rf"""
    (?P<code>                                                   # numbers that say what is wrong
        (?i:\b(?:http\w*(?:/[\d.]+)?|status|code|returned|responded|response|answered)
            (?:\W{{1,3}}(?:status|error|code|with))*\W{{1,3}}[1-5]\d\d\b(?![.,:/-]?\d))
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
    | (?P<required>{_QUOTED})(?=\sis\sa\srequired\sproperty\b)
    | (?P<quoted>{_QUOTED})
    | (?P<constant>(?:(?<=["']:)|(?<=["']:\s)|(?<=,\s)|(?<=\[))
        (?:true|false|null|True|False|None)(?=\s*[],}}]))
    | (?P<date>(?:{_DAY})?\b(?:\d{{1,2}}(?:\.|st|nd|rd|th)?[ -]{_MONTH}|{_MONTH}\s+\d{{1,2}}\b)
        (?:,?[ -]\d{{4}})?(?:\s+[\d:.]+\d)?(?:\s(?:UTC|GMT|[AaPp][Mm])\b)?)
    | (?P<measure>(?<![\w.,:/-])[-+]?\d[\d.,:]*\s?{_UNIT}(?!\w))
    | (?P<token>[^\s'"`„“”«»‘’‚「」()\[\]{{}}<>,;=|]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_STATUS = re.compile(rf"[1-5]\d\d\s(?:{_PHRASE})")
_NAME = re.compile(r"[^\W\d][\w .-]*")
_PATH = re.compile(r"(?:~|\.{0,2}|[A-Za-z]:)[/\\]\w|[^/\\]*[/\\][^/\\]+[/\\]")
_HEX_LETTERS = re.compile(r"[a-f]{6,}|[A-F]{6,}")
_HOST = re.compile(r"(?:[\w-]+\.){2,}(?:com|net|org|io|dev|app|cloud|local|internal|[a-z]{2})")
_CAMEL = re.compile(r"[A-Z]{0,6}[a-z]*(?:[A-Z][a-z]{2,})*[A-Z]{0,4}")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_UNPRONOUNCEABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}")
RANDOM, HUMP = 12, 3.6  # characters of a random text; the mean of letters for each capital that names have
_SEVERAL = re.compile(r"\?(?:[\s,;:|/&+-]*\?)+")
_PLURAL = re.compile(r"\? (\w{3,}?)s\b")


def fingerprint(
    error: str, text: str, place: str = "", values: Iterable[str] = (), *, naming: bool = False
) -> str:
    """Twelve hex digits that failures of one kind share.

    The first six say which class of error was raised in which functions of the user's code; the rest, what
    the text says without its variable parts.

    Args:
        error: the class, with its module unless it is a built-in.
        place: see `place_of`.
        values: texts from the message itself: its id, its headers, the scalars of its body.
        naming: the quoted names of the text say what is wrong, as in a KeyError.
    """
    naming = naming or error.rpartition(".")[2] in _NAMING
    return _digest(f"{error}|{place}")[:PLACE] + _digest(wording(text, values, naming=naming))[PLACE:]


def chosen(word: str) -> str:
    """The fingerprint for what the user says the kind is."""
    return _digest(f"chosen|{word}")


def is_of(mark: str, group: str) -> bool:
    """Whether a fingerprint is of a group: the same, or that of its class and place."""
    return mark == group or (len(group) == PLACE and mark.startswith(group))


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(errors="replace"), usedforsecurity=False).hexdigest()[:12]


def place_of(trace: TracebackType | None) -> str:
    """The functions of the user's code that were running; where in a library it failed does not matter.

    The outermost function, which is the handler, is the user's wherever it is installed, and so is the rest
    of its package.
    """
    frames = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_tb(trace)]
    own = [(file, name) for file, name in frames if not file.startswith((_OWN, "<frozen"))]
    while len(own) > 1 and _is_standard(own[0][0]):  # what runs a handler, such as a thread pool
        own.pop(0)
    package = _package(own[0][0]) if own else ""
    users = [
        (file, name) for file, name in own if not file.startswith(_LIBRARIES) or _package(file) == package
    ]
    told = [f"{Path(file).name}:{name}" for file, name in users]
    once = [frame for n, frame in enumerate(told) if n == 0 or told[n - 1] != frame]  # recursion counts once
    return "|".join(once[-FRAMES:])


def _is_standard(file: str) -> bool:
    return file.startswith(_LIBRARIES) and not _package(file)


def _package(file: str) -> str:
    """The installed package that a file belongs to; empty: it is not in site-packages."""
    return file.partition("-packages/")[2].partition("/")[0]


def wording(text: str, values: Iterable[str] = (), *, naming: bool = False) -> str:
    """An error's text with a question mark for all that may differ between failures of one kind."""
    text = _without(text[:LONGEST], values)

    def told(part: re.Match[str]) -> str:
        kind, found = part.lastgroup, part.group()
        if kind == "code":
            return found
        if kind == "name":
            return part["named"] + _quoted(part["name"], keep=True)
        if kind in {"quoted", "required"}:
            return _quoted(found, keep=naming or kind == "required")
        return _token(found) if kind == "token" else "?"

    return _PLURAL.sub(r"? \1", _SEVERAL.sub("?", _PART.sub(told, text)))


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
    inner = text.strip("bru")[1:-1]
    return text if (keep and _is_name(inner)) or _STATUS.match(inner) else "?"


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
