"""The mutants themselves: valid Lua, each another."""

from __future__ import annotations

import pytest
from lupa import LuaError, lua51  # type: ignore[import-untyped]

from rq_dlq import _scripts
from rq_dlq._scripts import Joined
from rq_dlq._scripts.verb import PAIRS
from tests.proofs.mutants.came_by import telling
from tests.proofs.mutants.forks import use
from tests.proofs.mutants.lua import statements
from tests.proofs.mutants.mutate import Mutant, files, mutants, text_of

LUA = lua51.LuaRuntime()


@pytest.fixture(scope="module")
def every() -> dict[str, list[Mutant]]:
    """Of each module."""
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


def test_a_module_that_tells_where_a_test_comes_by_is_lua(every: dict[str, list[Mutant]]) -> None:
    told = set(telling().numbers.values())
    led = {line for lines in telling().leads.values() for line in lines}
    for file, its in every.items():
        assert compiles(telling().texts[file]), file
        missing = {(file, mutant.statement) for mutant in its} - told - led
        assert not missing, f"nobody would be seen to come by {missing}"


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


def test_a_change_is_in_what_tests_join_and_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("join", "_library"):
        monkeypatch.setattr(_scripts, name, vars(_scripts)[name])
    held, own = Joined(), Joined({"clock": text_of("clock")})
    before = [verbs["ack"].source for verbs in (held, own)]
    use(lambda name, text: text + "x = 1\n" if name == "acks" else text, lambda text: text + "y = 1\n")
    for verbs, text in zip((held, own), before, strict=True):
        assert text.count("x = 1\n") == 0
        assert verbs["ack"].source.count("x = 1\n") == 1
        assert verbs["ack"].source.endswith("y = 1\n")


def test_each_verb_of_the_joined_text_tells() -> None:
    library = Joined().library
    text = telling().joined(library.text)
    assert compiles(text)
    assert text.count("telling(Verbs.") == len(library.verbs) + len(PAIRS)  # a pair runs two


def test_who_comes_by_a_use_comes_by_what_it_uses() -> None:
    """`Reply.SETTLED` has a local name in `acks`, which its functions use."""
    told = telling()
    use = next(number for number, at in told.numbers.items() if "if verdict == SETTLED then" in line_of(at))
    found = [line_of(at) for at in told.read(b"came by %d" % use)]
    assert any(line.startswith("local SETTLED = Reply.SETTLED") for line in found)
    assert any(line.startswith("Reply.SETTLED =") for line in found)


def line_of(at: tuple[str, int]) -> str:
    return text_of(at[0]).splitlines()[at[1] - 1]
