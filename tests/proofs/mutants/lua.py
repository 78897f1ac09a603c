"""Reads Lua as far as its statements; of an expression it knows the tokens only.

It relies on how our files are written: a statement begins on a line of its own, and goes on where a bracket
is open or an operator stands at the break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*)
  | (?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
  | (?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.VERBOSE,
)
_OPEN, _CLOSED = {"(", "{", "["}, {")", "}", "]"}
_ENDS = {"end", "else", "elseif", "until"}
_GOES_ON = {
    "and", "or", "not", "..", "==", "~=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "^", "=",
    ",", ".", ":",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a file; `start`: its first character; `line`: from 1."""

    text: str
    kind: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """Behind its last character."""
        return self.start + len(self.text)


@dataclass(slots=True)
class Statement:
    """A statement.

    Attributes:
        own: its tokens, without those of the statements inside it.
        blocks: the statements inside it, block by block.
    """

    own: list[Token] = field(default_factory=list)
    blocks: list[list[Statement]] = field(default_factory=list)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.own[0].line

    @property
    def word(self) -> str:
        """What it begins with."""
        return self.own[0].text

    def tree(self) -> Iterator[Statement]:
        """It and all inside it."""
        yield self
        for block in self.blocks:
            for inner in block:
                yield from inner.tree()


def tokens(text: str) -> list[Token]:
    """The words of a file, without blanks and comments.

    Raises:
        ValueError: something that is no word.
    """
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            message = f"line {line}: what is {text[at : at + 10]!r}?"
            raise ValueError(message)
        if match.lastgroup != "blank":
            found.append(Token(match[0], match.lastgroup or "", at, line))
        line += match[0].count("\n")
        at = match.end()
    return found


def statements(text: str) -> list[Statement]:
    """The statements of a file.

    Raises:
        ValueError: it is not written as we write.
    """
    reader = _Reader(tokens(text))
    block = reader.block()
    if reader.at < len(reader.tokens):
        message = f"line {reader.tokens[reader.at].line}: {reader.word} ends nothing"
        raise ValueError(message)
    return block


class _Reader:
    def __init__(self, words: list[Token]) -> None:
        self.tokens, self.at = words, 0

    @property
    def word(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def block(self) -> list[Statement]:
        found: list[Statement] = []
        while self.word and self.word not in _ENDS:
            found.append(self.statement())
        return found

    def statement(self) -> Statement:
        it = Statement()
        kind = self.word
        if kind == "local" and self.tokens[self.at + 1].text == "function":
            self.take(it)
            kind = "function"
        if kind == "if":
            while self.word in {"if", "elseif"}:
                self.up_to(it, "then")
                it.blocks.append(self.block())
            if self.word == "else":
                self.inner(it)
            self.take(it)
        elif kind in {"for", "while"}:
            self.up_to(it, "do", keep=True)
            self.inner(it)
            self.take(it)
        elif kind == "do":
            self.inner(it)
            self.take(it)
        elif kind == "function":
            self.function(it)
        else:
            self.simple(it)
        return it

    def take(self, it: Statement) -> None:
        it.own.append(self.tokens[self.at])
        self.at += 1

    def inner(self, it: Statement) -> None:
        """What opens a block, and the block."""
        self.take(it)
        it.blocks.append(self.block())

    def function(self, it: Statement) -> None:
        while self.word != ")":
            self.take(it)
        self.inner(it)
        self.take(it)

    def up_to(self, it: Statement, word: str, *, keep: bool = False) -> None:
        while self.word != word:
            self.function(it) if self.word == "function" else self.take(it)
        if not keep:
            self.take(it)

    def simple(self, it: Statement) -> None:
        """To the end of the line, or to where the last bracket is closed."""
        depth = 0
        while self.word:
            last, here = it.own[-1] if it.own else None, self.tokens[self.at]
            if last and depth == 0:
                broken = here.line > last.line and not {last.text, here.text} & _GOES_ON
                if broken or here.text in _ENDS:
                    return
            depth += (here.text in _OPEN) - (here.text in _CLOSED)
            self.function(it) if here.text == "function" else self.take(it)
