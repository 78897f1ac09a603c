"""The modules of the Lua, and the text that is joined of them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import fakeredis
import pytest

from rq_dlq._redis.acl import CHANGES
from rq_dlq._scripts import Verb
from rq_dlq._scripts.joining import MODULES, Part, class_name, join, parts_of
from tests import joined_lua
from tests.checkout import LUA
from tests.conftest import MOVED_CLOCK, Clock
from tests.joined_lua import WIDEST, found_in_text, texts, too_wide
from tests.model.driver import Driver
from tests.tables import each_row
from tests.verbs import VERBS

TEXTS = texts()
PARTS: dict[str, list[Part]] = {module: [*parts_of(module, TEXTS[module])] for module in MODULES}
FUNCTION = re.compile(r"(local )?function ")
FUNCTIONS = {part.name: part for parts in PARTS.values() for part in parts if FUNCTION.match(part.text)}
LIBRARY = join(TEXTS)


# Modules


def test_each_module_is_declared() -> None:
    assert sorted(TEXTS) == sorted(MODULES)


def test_each_module_is_described() -> None:
    readme = (LUA / "README.md").read_text(encoding="utf-8")
    assert [module for module in MODULES if f"\n| `{module}` | " not in readme] == []


@each_row("module", MODULES)
def test_a_module_is_short_and_so_are_its_functions(module: str) -> None:
    assert len(TEXTS[module].splitlines()) <= 300
    assert {part.name: len(part.lines) for part in PARTS[module] if len(part.lines) > 40} == {}


@each_row("module", MODULES)
def test_a_module_and_each_function_begin_with_a_comment(module: str) -> None:
    lines = ["", *TEXTS[module].splitlines()]
    bare = [line for before, line in pairwise(lines) if FUNCTION.match(line) and before[:2] != "--"]
    assert (lines[1][:2], bare) == ("--", [])


@each_row("module", MODULES)
def test_a_function_reads_few_names_of_other_modules(module: str) -> None:
    own = class_name(module) + "."
    read = {
        part.name: {name for name, _ in part.calls if "." in name and not name.startswith(own)}
        for part in PARTS[module]
    }
    assert {name: names for name, names in read.items() if len(names) > 12} == {}


def test_each_name_of_a_module_is_used() -> None:
    """Luacheck finds the locals that are not."""
    code = re.sub(r"--.*", "", LIBRARY.text)
    named = [part.name for parts in PARTS.values() for part in parts if "." in part.name]
    assert [name for name in named if len(re.findall(rf"\b{re.escape(name)}\b", code)) < 2] == []


# The joined text


def test_the_name_follows_from_the_text() -> None:
    other = join({**TEXTS, "clock": TEXTS["clock"].replace("1000", "1001")})
    assert LIBRARY.name != other.name
    assert join(TEXTS).name == LIBRARY.name
    assert LIBRARY.name in LIBRARY.text


@each_row(
    "modules, error",
    [
        ({"strange": ""}, "not the declared modules: ['strange']"),
        (
            {"clock": "function Clock.read()\n  return Clock.local_time()\nend\n"},
            "Clock.local_time is not defined",
        ),
    ],
)
def test_what_cannot_be_joined_is_an_error(modules: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        join({**TEXTS, **modules})


def test_a_line_of_the_text_is_one_of_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert joined_lua.main([str(tmp_path / "text.lua")]) == 0
    lines = (tmp_path / "text.lua").read_text("utf-8").splitlines()
    number = lines.index("function Verbs.claim(q, ARGV)") + 2  # in Redis a first line comes before them
    assert joined_lua.main(["--line", str(number)]) == 0
    assert (
        capsys.readouterr().out == f"claim.lua:{TEXTS['claim'].splitlines().index(lines[number - 2]) + 1}\n"
    )


def test_no_line_is_too_wide() -> None:
    assert too_wide(TEXTS) == []
    assert too_wide({"claim": f"{'é' * WIDEST}\n{'-' * (WIDEST + 1)}\nend \n"}) == [
        "claim.lua:2: 125 characters",
        "claim.lua:3: 4 characters",
    ]


@pytest.mark.needs("luacheck")
@pytest.mark.slow  # `python -m tests.joined_lua`, which `make lint` runs, says the same
def test_luacheck_finds_nothing() -> None:
    assert found_in_text(LIBRARY) == []


MISTAKES = [
    "nonsense()",  # an undefined global
    "left_behind = 1",  # a global that every later call would see
    "local unused = 1",
    "Clock.read(math.random())",  # seeded alike at each call
    "Clock.read(os.time())",  # the client's clock, if it were there
]


@pytest.mark.needs("luacheck")
def test_luacheck_finds_each_mistake_and_says_where() -> None:
    head = "do -- claim.lua\n"
    text = LIBRARY.text.replace(head, "\n".join([head.rstrip(), *MISTAKES, ""]))
    found = found_in_text(replace(LIBRARY, text=text))
    assert {said.partition(" ")[0] for said in found} == {
        f"claim.lua:{n}:" for n, _ in enumerate(MISTAKES, 1)
    }


# Verbs


def test_a_verb_that_reads_writes_nothing() -> None:
    reads = {name: verb.commands & CHANGES for name, verb in LIBRARY.verbs.items() if verb.reads}
    assert reads.keys() == {name for name, verb in VERBS.items() if verb.kind == "look"}
    assert not any(reads.values()), reads


# Counts the functions from a call of Redis up to the verb, and keeps the most.
DEEPEST = """\
local deepest, redis = 0, (function(redis)
  return {
    call = function(...)
      local depth = 0
      while debug.getinfo(depth + 2) do
        depth = depth + 1
      end
      local known = redis.call('GET', 'deepest') or 0
      redis.call('SET', 'deepest', math.max(depth - 2, known)) -- without what called the verb
      return redis.call(...)
    end,
    pcall = redis.pcall,
  }
end)(redis)
"""


class Deepest:
    """The verbs, which note how deep their calls of Redis are; only fakeredis lets them see that."""

    def __getitem__(self, name: str) -> Verb:
        script = MOVED_CLOCK.as_form("bare")[name]
        return replace(script, source=DEEPEST + script.source)


def test_a_claim_is_a_page_and_calls_little() -> None:
    claim = FUNCTIONS["Verbs.claim"]
    steps = {name for name in FUNCTIONS if name.startswith("claim:")}
    called = {name for part in (*steps, claim.name) for name, _ in FUNCTIONS[part].calls}
    assert len(claim.lines) <= 120
    assert len(called & FUNCTIONS.keys()) <= 25


def test_the_plain_way_of_a_claim_is_at_most_three_calls_deep() -> None:
    raw = fakeredis.FakeRedis()
    Clock(raw)
    driver = Driver(raw)
    driver.run(driver.send_call(("m1", 4), ("m2", 4)))
    assert len(Driver(raw, verbs=Deepest()).run(driver.claim_call("t", 2)).rows) == 2  # type: ignore[arg-type]
    assert 1 < int(raw.get("deepest") or 0) <= 3
