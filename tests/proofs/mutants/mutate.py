"""The mutants of a Lua module: one small change each."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from tests.proofs.mutants.lua import Statement, Token, statements

LUA = Path(__file__).parents[3] / "lua"
COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "=="}
COUNTED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "^": "*"}
JOINED = {"and": "or", "or": "and", "true": "false", "false": "true"}
BEFORE_A_VALUE = {"(", "{", "[", ",", "=", "return", "and", "or", "not", "then", *COMPARED, *COUNTED, ".."}
BELONGING = {".", "=", "["}
"""Behind a name that is no value by itself: the table of a function or of a value, the name of a field."""


FACTOR = 100  # by which a time or a bound is changed, too: a round number, unlike those of the format
_NUMERAL = re.compile(r"'[1-9]\d+'")  # an argument of a command
# Behind a comparison: the one step that another operator does not do as well; `> 0` is not `> -1` but `>= 0`.
_STEPS = {"<": (-1,), "<=": (1,), ">": (1,), ">=": (-1,), "==": (1,), "~=": (1,)}


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        file: its module, as in `claim`.
        function: in which the change is; empty: in none.
        number: its place among the mutants of the module.
        line: where the change is, from 1.
        statement: the line at which the statement begins that is changed; a test has to come by there.
        kind: what was done.
        was: the changed lines as they were.
        becomes: as they are now; empty: gone.
        nth: counts mutants of a function that read the same.
        text: the file with the change; `sound`: without it.
    """

    file: str
    function: str
    number: int
    line: int
    statement: int
    kind: str
    was: str
    becomes: str
    nth: int
    text: str
    sound: str

    @property
    def name(self) -> str:
        """What `--mutant` calls it."""
        return f"{self.file}:{self.number}"

    @cached_property
    def key(self) -> str:
        """Says what it is; the same as long as the rest of its module is."""
        return hashlib.sha1(f"{self.file}\n{self.text}".encode(), usedforsecurity=False).hexdigest()[:16]

    @cached_property
    def mark(self) -> str:
        """Says what it is, whatever else changes in its module."""
        said = f"{self.file} {self.function}\n{self.was}\n{self.becomes}\n{self.nth}"
        return hashlib.sha1(said.encode(), usedforsecurity=False).hexdigest()[:12]

    def __str__(self) -> str:
        change = f"{self.was}  =>  {self.becomes}" if self.becomes else f"{self.was}  (gone)"
        return f"{self.name} line {self.line}: {change}"


@dataclass(frozen=True, slots=True)
class _Edit:
    kind: str
    start: int
    end: int
    text: str


def files() -> list[str]:
    """Every module, by its name."""
    return sorted(path.stem for path in LUA.glob("*.lua"))


def text_of(file: str) -> str:
    """What stands in it."""
    return (LUA / f"{file}.lua").read_text(encoding="utf-8")


def mutants(file: str, text: str = "") -> list[Mutant]:
    """All mutants of a module, function by function; `text`: of this text of it, not of what it is now."""
    text = text or text_of(file)
    found: list[Mutant] = []
    seen, alike = {text}, Counter[tuple[str, str, str]]()
    for function, statement, edit in _edits(text):
        changed = text[: edit.start] + edit.text + text[edit.end :]
        if changed in seen:
            continue
        seen.add(changed)
        line = text.count("\n", 0, edit.start) + 1
        was = _lines(text, edit.start, edit.end)
        becomes = _lines(changed, edit.start, edit.start + len(edit.text)) if edit.kind != "deleted" else ""
        nth = alike[function, was, becomes]
        alike[function, was, becomes] += 1
        said = (edit.kind, was, becomes, nth, changed, text)
        found.append(Mutant(file, function, len(found), line, statement.line, *said))
    return found


def _lines(text: str, start: int, end: int) -> str:
    """The whole lines from one place to another, as one, without comments."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    return " ".join(re.sub(r"--.*", "", text[first : last if last >= 0 else len(text)]).split())


def _edits(text: str) -> Iterator[tuple[str, Statement, _Edit]]:
    """Each change, the statement that it is of, and the function."""
    whole = statements(text)
    for outer in whole:
        function = _function(outer)
        for statement in outer.tree():
            if _binds(statement):
                continue
            for edit in (
                *_deleted(statement),
                *_negated(statement, text),
                *_words(statement),
                *_bounds(statement),
            ):
                yield function, statement, edit
        for block in outer.blocks:
            yield from ((function, *found) for inner in _blocks(block) for found in _order(inner, text))
    yield from (("", *found) for found in _order(whole, text))


def _function(statement: Statement) -> str:
    """The name of the function that a statement defines; empty: it defines none."""
    words = [token.text for token in statement.own]
    if "function" not in words[:2]:
        return ""
    return "".join(words[words.index("function") + 1 : words.index("(")])


def _order(block: list[Statement], text: str) -> Iterator[tuple[Statement, _Edit]]:
    """Two calls, one after the other, in the other order."""
    for one, other in pairwise(block):
        if _is_call(one) and _is_call(other):
            between = text[one.own[-1].end : other.own[0].start]
            first, second = (text[it.own[0].start : it.own[-1].end] for it in (one, other))
            yield one, _Edit("order", one.own[0].start, other.own[-1].end, second + between + first)


def _blocks(block: list[Statement]) -> Iterator[list[Statement]]:
    yield block
    for statement in block:
        for inner in statement.blocks:
            yield from _blocks(inner)


def _binds(statement: Statement) -> bool:
    """Names keys or arguments: no part of what is done, and its numbers are checked by themselves."""
    words = [token.text for token in statement.own]
    return words[0] == "local" and any(
        words[i : i + 2] in (["KEYS", "["], ["ARGV", "["]) and words[i + 3 : i + 4] == ["]"]
        and words[i + 2].isdigit() for i in range(len(words))
    )  # fmt: skip


def _is_call(statement: Statement) -> bool:
    """A call for what it does, as a write."""
    depth, words = 0, [token.text for token in statement.own]
    if words[0] in {"local", "if", "for", "while", "function", "return", "break"}:
        return False
    for word in words:
        depth += (word in {"(", "[", "{"}) - (word in {")", "]", "}"})
        if word == "=" and depth == 0:
            return False
    return True


def _deleted(statement: Statement) -> Iterator[_Edit]:
    if statement.word not in {"local", "if", "for", "while", "function"}:
        yield _Edit("deleted", statement.own[0].start, statement.own[-1].end, "")


def _negated(statement: Statement, text: str) -> Iterator[_Edit]:
    if statement.word not in {"if", "while"}:
        return
    inside: list[Token] = []
    for token in statement.own:
        if token.text in {"if", "elseif", "while"}:
            inside = []
        elif token.text in {"then", "do"}:
            words = {inner.text for inner in inside}
            small = not words & {"and", "or"}
            if not small or not (
                inside[0].text == "not" or words & {"==", "~="}
            ):  # else _words does the same
                start, end = inside[0].start, inside[-1].end
                yield _Edit("negated", start, end, f"not ({text[start:end]})")
        else:
            inside.append(token)


def _words(statement: Statement) -> Iterator[_Edit]:
    depth = 0
    for last, token in zip(["", *(token.text for token in statement.own)], statement.own, strict=False):
        start, end, word = token.start, token.end, token.text
        depth += (word == "[") - (word == "]")
        if token.kind == "number":
            value = float(word) if "." in word else int(word, 0)
            by = _STEPS.get(last, (1,) if depth else (1, -1))
            yield from (_Edit("constant", start, end, str(value + step)) for step in by)
            if word.isdigit() and value >= 10 and value % 5 == 0 and not depth and last not in _STEPS:
                yield from (_Edit("constant", start, end, str(other)) for other in _multiples(value))
        elif _NUMERAL.fullmatch(word):
            yield from (_Edit("constant", start, end, f"'{other}'") for other in _multiples(int(word[1:-1])))
        elif word == "-" and last in BEFORE_A_VALUE:
            yield _Edit("arithmetic", start, end, "")
        elif word in COUNTED:
            yield _Edit("arithmetic", start, end, COUNTED[word])
        elif word in COMPARED:
            yield _Edit("comparison", start, end, COMPARED[word])
        elif word in JOINED:
            yield _Edit("logic", start, end, JOINED[word])
        elif word == "not":
            yield _Edit("logic", start, end, "")


def _multiples(value: float) -> tuple[float, float]:
    """A hundred times as much, and a hundredth."""
    return value * FACTOR, (value // FACTOR if isinstance(value, int) else value / FACTOR)


def _bounds(statement: Statement) -> Iterator[_Edit]:
    """The highest score and the number of rows that a command asks for."""
    own = statement.own
    for i, token in enumerate(own):
        bound = own[i + 2 : i + 4] if token.text == "'-inf'" else []
        bound = own[i + 4 : i + 6] if token.text == "'LIMIT'" else bound
        for name, after in pairwise(bound):
            if name.kind == "name" and after.text not in BELONGING:
                yield _Edit("bound", name.end, name.end, " + 1")
                yield _Edit("bound", name.end, name.end, " - 1")
