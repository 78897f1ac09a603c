"""The tests that a change of the package or of the Lua needs, by what each test ran when it was recorded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest

from tests.chosen import edits, lua
from tests.chosen.edits import Unit, units
from tests.chosen.record import ROOT, Record, Tests, file_of, hash_of

MOST = 200
"""How many tests one run has, beside those that a table or a name asks for."""


@dataclass(frozen=True)
class Found:
    """Tests that one part of a change needs.

    Attributes:
        reason: why, in words that follow the number of the tests.
        tests: those that are most likely to see it first.
        near: they ran the very lines, and not only the function around them.
    """

    reason: str
    tests: Sequence[str]
    near: bool = False


@dataclass(frozen=True)
class Changed:
    """A file, as it was and as it is; empty: it was not there, or is gone."""

    path: str
    before: str
    now: str

    def found(self, record: Record) -> list[Found]:
        """The tests that it needs."""
        each = _of_lua(self, record) if self.path.endswith(".lua") else _of_python(self, record)
        return [found for found in each if found.tests]


def is_recorded(path: str) -> bool:
    """Whether the tests of a file are known by what they ran."""
    return path.startswith(("rq_dlq/", "lua/")) and path.endswith((".py", ".lua"))


def _of_python(changed: Changed, record: Record) -> Iterator[Found]:
    path, before = changed.path, changed.before
    for touched in edits.touched(before, changed.now):
        words = stems(f"{path} {touched.unit.name}")
        near = record.by_line(path, before, touched.lines)
        yield Found(f"ran the changed lines of {touched.unit.name}", ranked(record, near, words), near=True)
        whole = record.by_line(path, before, touched.unit.lines)
        yield Found(f"ran {touched.unit.name}", ranked(record, whole, words))
    if names := edits.renamed(before, changed.now):
        sets = [
            tests
            for file, text, unit in _mentioning(names, path, record)
            for tests in record.by_line(file, text, unit.lines)
        ]
        said = ", ".join(sorted(names))
        yield Found(f"ran functions that use {said}", ranked(record, sets, stems(f"{path} {said}")))
    if not before:  # new: those that run what stands beside it
        folder = path.rpartition("/")[0]
        sets = [
            tests
            for file in record.lines
            if file.startswith(f"{folder}/")
            for tests in record.lines[file].values()
        ]
        yield Found(f"ran something else in {folder}", ranked(record, sets, stems(path)))


def _mentioning(names: set[str], path: str, record: Record) -> Iterator[tuple[str, str, Unit]]:
    """The functions that use any of these names, which this file binds."""
    for file, text in record.texts.items():
        used = names if file == path else {name for name in names if name[:1] != "_"}
        if any(name in text for name in used):
            yield from ((file, text, unit) for unit in units(text).values() if used & unit.mentions)


def _of_lua(changed: Changed, record: Record) -> Iterator[Found]:
    module = changed.path.removeprefix("lua/").removesuffix(".lua")
    parts = lua.parts(module, changed.before)
    for name, lines in lua.touched(module, changed.before, changed.now).items():
        near, far = lua.killers_in(module, changed.before, name, lines)
        yield Found(f"killed mutants in the changed lines of {name}", near, near=True)
        yield Found(f"killed other mutants in {name}", far, near=True)
        verbs = lua.verbs_reaching(name, parts)
        sets = [
            tests
            for verb in sorted(verbs)
            for path, lines in lua.lines_calling(verb, record.texts)
            for tests in record.by_line(path, record.texts[path], lines)
        ]
        said = ", ".join(sorted(verbs)) if len(verbs) < 6 else f"{len(verbs)} verbs"
        words = stems(f"{changed.path} {name} {said}")
        yield Found(f"called {said}, which can run {name}", ranked(record, sets, words))


def ranked(record: Record, sets: Iterable[Tests], words: set[str]) -> list[str]:
    """The tests of these sets: first those that ran what few ran, of each file some, named after the subject.

    A line that only few tests run is what these are about; nearly all tests run the first line of a send.
    """
    alike: dict[str, int] = {}
    for tests in sorted({*sets}, key=int.bit_count):
        for name in record.names(tests & ~record.set_of(alike)):
            alike[name] = tests.bit_count().bit_length()
    seconds = record.seconds
    subject = {name: len(words & stems(name)) for name in alike}
    found, taken = list[tuple[int, int, int, float, str]](), Counter[tuple[str, int]]()
    for name in sorted(alike, key=lambda name: (alike[name], -subject[name], seconds[name])):
        group = file_of(name), alike[name]
        taken[group] += 1
        found.append((alike[name], taken[group] // 3, -subject[name], seconds[name], name))
    return [name for *_, name in sorted(found)]


@cache
def stems(text: str) -> set[str]:
    """The words of a name, so that `settling` and `settle` are the same."""
    words = re.findall(r"[a-z]{3,}", re.sub(r"\.\w+$", "", text.lower()))
    return {re.sub(r"(ing|ed|es|e|s)$", "", word) for word in words} - {
        "test",
        "init",
        "call",
        "own",
        "dlq",
        "cor",
    }


def chosen(found: Sequence[Found], most: int) -> list[str]:
    """So many tests: those that ran changed lines, then the others; of each part of the change by turns."""
    tests: dict[str, None] = {}
    for near in (True, False):
        turns = zip_longest(*(one.tests for one in found if one.near is near))
        for test in chain.from_iterable(turns):
            if test is not None and len(tests) < most:
                tests[test] = None
    return [*tests]


def as_arguments(tests: Iterable[str], record: Record) -> list[str]:
    """For pytest: of a file that changed since it was recorded all, since its tests may have other names."""
    same = cache(lambda file: record.files.get(file) == hash_of(ROOT / file))
    found = {
        test if "::" not in test or same(file_of(test)) else file_of(test)
        for test in tests
        if (ROOT / file_of(test)).exists()
    }
    return sorted(test for test in found if "::" not in test or file_of(test) not in found)
