"""XML as a tree with line numbers. It fetches nothing, and refuses a DOCTYPE, which could define entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from rq_dlq.policy_files._reading import Problem

DEEPEST: Final = 100
NAMESPACE: Final = " "
XINCLUDE: Final = "http://www.w3.org/2001/XInclude include"
INCLUDE: Final = "xi:include"
"""The element that includes another file; a broker's own `include` is a different element."""
ATTRIBUTE: Final = re.compile(rb"""\s+([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(eq=False, slots=True)
class Element:
    """An element: its name without the namespace, the line where it begins, its attributes and content."""

    name: str
    line: int
    attributes: Mapping[str, str]
    lines: Mapping[str, int]
    """The lines of its attributes."""
    children: list[Element] = field(default_factory=list["Element"])
    texts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """Its text, without surrounding spaces."""
        return "".join(self.texts).strip()

    def all(self) -> Iterator[Element]:
        """The element and all elements below it, in the order of the file."""
        waiting: list[Element] = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(reversed(element.children))

    def named(self, *names: str) -> list[Element]:
        """All elements with these names, at any depth."""
        return [element for element in self.all() if element.name in names]

    def child(self, name: str) -> Element | None:
        """The first child with a name."""
        return next((child for child in self.children if child.name == name), None)


class _RefusedError(Exception):
    """The parser found a construct that is not allowed."""


def read_xml(data: bytes) -> Element | Problem:
    """The root of a document, or the error in it."""
    parser = expat.ParserCreate(namespace_separator=NAMESPACE)
    builder = _Builder(parser, data)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse_types
    parser.buffer_text = True
    try:
        parser.Parse(data, True)  # noqa: FBT003 - Parse takes only positional arguments
    except _RefusedError as error:
        return Problem(parser.CurrentLineNumber, "", str(error))
    except (expat.ExpatError, ValueError, LookupError) as error:
        what = expat.ErrorString(error.code) if isinstance(error, expat.ExpatError) else str(error)
        return Problem(parser.CurrentLineNumber, "", f"not XML: {what}")
    return builder.root


class _Builder:
    """Builds the tree from what the parser finds."""

    def __init__(self, parser: expat.XMLParserType, data: bytes) -> None:
        self._parser = parser
        self._data = data
        self._open = [Element("", 0, {}, {})]

    @property
    def root(self) -> Element:
        return self._open[0].children[0]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > DEEPEST:
            message = f"its elements are nested deeper than {DEEPEST} levels: it is not a broker's file"
            raise _RefusedError(message)
        plain = {_local(key): value for key, value in attributes.items()}
        line = self._parser.CurrentLineNumber
        element = Element(_local(name), line, plain, self._lines(line) if plain else {})
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, _: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        self._open[-1].texts.append(text)

    def refuse_types(self, *_: object) -> None:
        raise _RefusedError(
            "it has a DOCTYPE, which is not allowed. Remove it from a copy, and import the copy"
        )

    def _lines(self, line: int) -> dict[str, int]:
        """The line of each attribute of the element that begins here."""
        position = self._parser.CurrentByteIndex
        lines: dict[str, int] = {}
        name = re.compile(rb"<[^\s/>]+").match(self._data, position)
        position = name.end() if name else len(self._data)
        while found := ATTRIBUTE.match(self._data, position):
            line += self._data.count(b"\n", position, found.start(1))
            lines[found[1].decode(errors="replace").rpartition(":")[2]] = line
            line += self._data.count(b"\n", found.start(1), found.end())
            position = found.end()
        return lines


def _local(name: str) -> str:
    return INCLUDE if name == XINCLUDE else name.rpartition(NAMESPACE)[2]
