"""What an edit of a Lua module touches: functions, the verbs that reach them, the mutants in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from rq_dlq._scripts.joining import MODULES, Part, parts_of
from tests.chosen.edits import units
from tests.chosen.record import compared
from tests.proofs.mutants.mutate import mutants, text_of
from tests.proofs.mutants.results import killers

CALLS = "rq_dlq/core/"
"""The rooms that make the calls."""


def touched(module: str, before: str, now: str) -> dict[str, set[int]]:
    """The functions of a module that differ, and what it defines beside them; the lines of each before."""
    was, became = ({part.name: part for part in parts_of(module, text)} for text in (before, now))
    _, other = compared(before, now)
    replaced = {line for _, lines in other for line in lines}
    return {
        name: replaced & set(lines_of(was[name], before)) if name in was else set()
        for name in {**was, **became}
        if name not in was or name not in became or was[name].text != became[name].text
    }


def lines_of(part: Part, text: str) -> range:
    """Where it is in the text of its module."""
    whole = part.text.rstrip()
    first = text.count("\n", 0, text.index(whole)) + 1
    return range(first, first + whole.count("\n") + 1)


def parts(module: str, before: str) -> dict[str, Part]:
    """What all modules define: as they are now, this one as it was, too."""
    every = [part for name in MODULES for part in parts_of(name, text_of(name))]
    return {part.name: part for part in [*every, *parts_of(module, before)]}


def verbs_reaching(name: str, known: Mapping[str, Part]) -> set[str]:
    """The verbs that can run what has this name."""
    users: dict[str, set[str]] = {}
    for part in known.values():
        for call, _ in part.calls:
            users.setdefault(call, set()).add(part.name)
    found, more = {name}, [name]
    while more:
        new = users.get(more.pop(), set()) - found
        found |= new
        more += new
    return {user.removeprefix("Verbs.") for user in found if user.startswith("Verbs.")}


def killers_in(module: str, before: str, name: str, lines: set[int]) -> tuple[list[str], list[str]]:
    """The tests that killed mutants of a function: those in these lines, and the others."""
    known = killers()
    near: dict[str, None] = {}
    far: dict[str, None] = {}
    for mutant in mutants(module, before):
        if mutant.function == name.rpartition(":")[2] and mutant.mark in known:
            (near if mutant.line in lines else far)[known[mutant.mark]] = None
    return [*near], [test for test in far if test not in near]


@cache
def _callers(text: str) -> dict[str, list[range]]:
    """By a verb: the functions of a file of the package that call it."""
    found: dict[str, list[range]] = {}
    for unit in units(text).values():
        for node in ast.walk(unit.node):
            for verb in _called(node):
                found.setdefault(verb, []).append(unit.lines)
    return found


def _called(node: ast.AST) -> Iterator[str]:
    """The verb of `Call("claim", …)`, any text that is the first argument of a call, and `verb="claim"`."""
    if isinstance(node, ast.Call):
        words = [*node.args[:1], *(given.value for given in node.keywords if given.arg == "verb")]
        yield from (str(word.value) for word in words if isinstance(word, ast.Constant))


def lines_calling(verb: str, texts: Mapping[str, str]) -> Iterator[tuple[str, range]]:
    """The functions of the package that call a verb: the file and the lines."""
    for path, text in texts.items():
        if path.startswith(CALLS):
            yield from ((path, lines) for lines in _callers(text).get(verb, []))
