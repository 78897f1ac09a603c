"""The mutants themselves: valid Lua, each another."""

from __future__ import annotations

import pytest
from lupa import LuaError, lua51  # type: ignore[import-untyped]

from tests.proofs.mutants.came_by import HEAD, TAIL, telling
from tests.proofs.mutants.lua import statements
from tests.proofs.mutants.mutate import Mutant, files, mutants

LUA = lua51.LuaRuntime()


@pytest.fixture(scope="module")
def every() -> dict[str, list[Mutant]]:
    """Of each file; a lone pattern has no statement to change."""
    return {file: found for file in files() if (found := mutants(file))}


def compiles(text: str) -> bool:
    try:
        LUA.compile(text)
    except LuaError:
        return False
    return True


def test_every_mutant_is_another_lua(every: dict[str, list[Mutant]]) -> None:
    for file, its in every.items():
        assert [str(mutant) for mutant in its if not compiles(mutant.text)] == [], file
        assert len({mutant.text for mutant in its} | {its[0].sound}) == len(its) + 1, file


def test_a_file_that_tells_where_a_test_comes_by_is_lua(every: dict[str, list[Mutant]]) -> None:
    for file, its in every.items():
        assert compiles(telling().texts[file]), file
        told = {line for name, line in telling().numbers.values() if name == file}
        assert told, f"no statement of {file} tells of itself"
        missing = {mutant.statement for mutant in its} - told
        assert not missing, f"nobody would be seen to come by the lines {missing} of {file}"


def changes(text: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr("tests.proofs.mutants.mutate.text_of", lambda _: text)
    return [(mutant.kind, mutant.becomes) for mutant in mutants("any")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local limit = ARGV[1]\n", []),
        ("if a < 2 then\n  b()\nend\n", [
            ("negated", "if not (a < 2) then"), ("comparison", "if a <= 2 then"),
            ("constant", "if a < 1 then"), ("deleted", ""),
        ]),
        ("if not a then\n  return\nend\n", [("logic", "if a then"), ("deleted", "")]),
        ("x[#x + 1] = -y\n", [
            ("deleted", ""), ("arithmetic", "x[#x - 1] = -y"), ("constant", "x[#x + 2] = -y"),
            ("arithmetic", "x[#x + 1] = y"),
        ]),
        ("do\n  a()\nend\n", [("deleted", ""), ("deleted", "")]),
        ("a() -- one\nb({\n  c,\n})\n", [("deleted", ""), ("deleted", ""), ("order", "b({ c, }) a()")]),
        ("local rows = call('Z', k, '-inf', now, 'LIMIT', 0, most)\n", [
            ("constant", "local rows = call('Z', k, '-inf', now, 'LIMIT', 1, most)"),
            ("constant", "local rows = call('Z', k, '-inf', now, 'LIMIT', -1, most)"),
            ("bound", "local rows = call('Z', k, '-inf', now + 1, 'LIMIT', 0, most)"),
            ("bound", "local rows = call('Z', k, '-inf', now - 1, 'LIMIT', 0, most)"),
            ("bound", "local rows = call('Z', k, '-inf', now, 'LIMIT', 0, most + 1)"),
            ("bound", "local rows = call('Z', k, '-inf', now, 'LIMIT', 0, most - 1)"),
        ]),
        ("local a, b = 1000, 4096\n", [
            ("constant", f"local a, b = {a}, {b}")
            for a, b in [(1001, 4096), (999, 4096), (100000, 4096), (10, 4096), (1000, 4097), (1000, 4095)]
        ]),
        ("call('PEXPIRE', key, '5000')\n", [
            ("deleted", ""), ("constant", "call('PEXPIRE', key, '500000')"),
            ("constant", "call('PEXPIRE', key, '50')"),
        ]),
        ("return a and b or 0 == c, true\n", [
            ("deleted", ""), ("logic", "return a or b or 0 == c, true"),
            ("logic", "return a and b and 0 == c, true"), ("constant", "return a and b or 1 == c, true"),
            ("constant", "return a and b or -1 == c, true"), ("comparison", "return a and b or 0 ~= c, true"),
            ("logic", "return a and b or 0 == c, false"),
        ]),
    ],
)  # fmt: skip
def test_what_is_changed(text: str, expected: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert changes(text, monkeypatch) == expected


def test_statements_inside_statements() -> None:
    (outer,) = statements("each(1, function(id)\n  if id then return end\n  stand(id)\nend)\n")
    assert [(it.word, it.line) for it in outer.tree()] == [
        ("each", 1),
        ("if", 2),
        ("return", 2),
        ("stand", 3),
    ]


def test_what_is_no_statement_of_ours_is_said() -> None:
    with pytest.raises(ValueError, match="line 2: end ends nothing"):
        statements("a()\nend\n")
    with pytest.raises(ValueError, match="line 1: what is"):
        statements("a = ?\n")


def test_around_a_verb_that_tells() -> None:
    assert compiles(HEAD + "return 1\n" + TAIL)
