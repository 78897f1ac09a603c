"""What an edit of a Python file touches: functions, and names outside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.chosen.record import compared

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Unit:
    """A function of a module, or a method; what it defines inside belongs to it.

    Attributes:
        name: with its class, as in `Queue.send`.
        node: the function.
    """

    name: str
    node: Function

    @property
    def lines(self) -> range:
        """With its decorators, without its docstring."""
        first = min([self.node.lineno, *(word.lineno for word in self.node.decorator_list)])
        return range(first, (self.node.end_lineno or first) + 1)

    @property
    def said(self) -> str:
        """What it does: comments and its docstring are left out."""
        body = self.node.body[1:] if ast.get_docstring(self.node) is not None else self.node.body
        return ast.dump(ast.Module([ast.Pass(), *body], [])) + _head(self.node)

    @property
    def mentions(self) -> set[str]:
        """The names that it uses."""
        return {word for node in ast.walk(self.node) for word in _words(node)}

    def around(self, line: int) -> range:
        """The statement with this line; of one with a block, its head."""
        found = range(line, line + 1)
        for node in ast.walk(self.node):
            if isinstance(node, ast.stmt) and node is not self.node:
                block = getattr(node, "body", None)
                last = block[0].lineno - 1 if isinstance(block, list) and block else node.end_lineno
                whole = range(node.lineno, max(last or 0, node.lineno) + 1)
                if line in whole:
                    found = whole
        return found


@dataclass(frozen=True)
class Touched:
    """A function that an edit changes.

    Attributes:
        unit: as it was before; for a new method, another one of its class.
        lines: of the file as it was before: what the edit replaces, or stands beside what it adds.
    """

    unit: Unit
    lines: set[int]


@cache
def units(text: str) -> dict[str, Unit]:
    """The functions of a file, by their names."""
    return {unit.name: unit for unit in _units(ast.parse(text), "")}


def _units(node: ast.AST, owner: str) -> Iterator[Unit]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield Unit(f"{owner}{child.name}", child)
        elif isinstance(child, ast.ClassDef):
            yield from _units(child, f"{owner}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from _units(child, owner)


def _head(node: Function) -> str:
    return ast.dump(node.args) + "".join(map(ast.dump, node.decorator_list))


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg


def touched(before: str, now: str) -> list[Touched]:
    """The functions that differ."""
    was, became = units(before), units(now)
    found: list[Touched] = []
    for name in {**was, **became}:
        old, new = was.get(name), became.get(name)
        if old is None:
            owner = name.rpartition(".")[0]
            found += [
                Touched(unit, set()) for unit in was.values() if owner and unit.name.startswith(f"{owner}.")
            ]
        elif new is None or old.said != new.said:
            lines = {line for at in _replaced(before, now) for line in at if line in old.lines}
            found.append(Touched(old, {each for line in lines for each in old.around(line)}))
    return found


def _replaced(before: str, now: str) -> list[range]:
    """The lines of a text that an edit replaces; where it only adds, those on both sides."""
    _, other = compared(before, now)
    return [old or range(old.start - 1, old.start + 1) for _, old in other]


def renamed(before: str, now: str) -> set[str]:
    """The names outside functions that are bound to something else, or new, or gone."""
    was, became = (dict(_bound(ast.parse(text), "")) for text in (before, now))
    return {name for name in was.keys() | became.keys() if was.get(name) != became.get(name)}


def _bound(node: ast.AST, owner: str) -> Iterator[tuple[str, str]]:
    """What is defined outside functions: the last part of a name, and what it is."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.expr):
            continue
        if isinstance(child, ast.ClassDef):
            head = [*child.bases, *child.keywords, *child.decorator_list]
            yield child.name, owner + "".join(map(ast.dump, head))
            yield from _bound(child, f"{owner}{child.name}.")
        elif isinstance(child, ast.Import | ast.ImportFrom):
            for name in child.names:
                yield name.asname or name.name, f"{owner}{ast.dump(name)}{getattr(child, 'module', '')}"
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for word in (word for target in targets for part in ast.walk(target) for word in _words(part)):
                yield word, owner + ast.dump(child)
        elif not isinstance(child, ast.Expr) and "TYPE_CHECKING" not in _words_of_test(child):
            yield from _bound(child, owner)


def _words_of_test(node: ast.AST) -> list[str]:
    """The names in the condition of an `if`."""
    return [*_words(node.test)] if isinstance(node, ast.If) else []
