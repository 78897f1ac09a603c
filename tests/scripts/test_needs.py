"""Each Lua file needs and gives what luacheck finds in it; what the loader makes of that."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rq_dlq import _keys
from rq_dlq._scripts import Scripts
from rq_dlq._scripts.fragments import Needs, needs, read
from rq_dlq._scripts.script import bound
from tests.assembled_lua import ROOT, fragments
from tests.each import each
from tests.needs import missing

LUA = ROOT / "lua"
FILES = {file.relative_to(LUA).as_posix().removesuffix(".lua"): file for file in fragments()}
FRAGMENTS = [name for name in FILES if name.startswith("lib/")]
SCRIPTS = [name for name in FILES if name not in FRAGMENTS]
KEYS = {*_keys.NAMES, *(f"to_{key}" for key in _keys.NAMES), *_keys.OTHERS}

HEADS: dict[str, list[Needs]] = {}
"""By what a fragment gives: what it needs itself."""
for _name in FRAGMENTS:
    _gives, _lines = read(_name, FILES[_name].read_text(encoding="utf-8"))
    _head = [line for line in _lines if isinstance(line, Needs) and not line.indent]
    HEADS |= dict.fromkeys(_gives, _head)

pytestmark = pytest.mark.skipif(bool(missing("luacheck")), reason=missing("luacheck"))


@dataclass
class Names:
    """Of one file, as luacheck finds them.

    Attributes:
        free: those that it uses and does not define.
        unused: those that it defines and does not use.
    """

    free: set[str] = field(default_factory=set[str])
    unused: set[str] = field(default_factory=set[str])


def found(directory: Path) -> dict[str, Names]:
    """The names in the files of a directory, by their names without the ending."""
    command = ["luacheck", "--no-config", "--std", "lua51", "--codes", "--formatter", "plain", "--no-color"]
    command += ["--only", "11[123]", "211", "--exclude-files", "broker/*", "**/broker/*"]
    command += ["--read-globals", "redis", "cjson", "KEYS", "ARGV", "--"]
    ran = subprocess.run([*command, "."], cwd=directory, capture_output=True, text=True, check=False)
    assert "(E" not in ran.stdout, ran.stdout
    names: dict[str, Names] = defaultdict(Names)
    for line in ran.stdout.splitlines():
        file, code, name = re.match(r"(?:\./)?(.+)\.lua:\d+:\d+: \(W(\d+)\) .*'(\w+)'", line).groups()  # type: ignore[union-attr]
        (names[file].unused if code == "211" else names[file].free).add(name)
    return names


@pytest.fixture(scope="module")
def by_file() -> dict[str, Names]:
    """Of all files."""
    return found(LUA)


def locals_of(given: str) -> set[str]:
    """The locals that the fragment which gives this works on."""
    return {key for line in HEADS.get(given, ()) for key in line.locals}


def lines_of(name: str, text: str) -> list[Needs]:
    return [said for line in text.splitlines() if (said := needs(name, line))]


def wrong(name: str, text: str, names: Names) -> list[str]:
    """What a file says of its needs, and luacheck does not."""
    lines = lines_of(name, text)
    declared = [key for line in lines for key in (*line.names, *line.keys, *line.args, *line.locals)]
    missing, superfluous = names.free - set(declared), set(declared) - names.free
    inner = [head for line in lines if line.indent for one in line.names for head in HEADS.get(one, ())]
    superfluous -= {key for head in inner for key in head.names}  # here, so that it stands before a function
    superfluous -= {key for key in superfluous if locals_of(key)}  # needed for what it does
    if {*_keys.NAMES} <= {*declared}:  # `keys: all`
        superfluous -= {*_keys.NAMES}
    twice = {key for line in lines for key in line.names if declared.count(key) > 1 and not line.indent}
    strange = {key for line in lines for key in line.keys} - KEYS
    return [
        f"{what} {sorted(which)}"
        for what, which in (
            ("does not declare", missing), ("declares and does not use", superfluous),
            ("declares twice", twice), ("needs keys that do not exist", strange),
        )
        if which
    ]  # fmt: skip


@each("name", FILES)
def test_a_file_declares_what_it_uses(name: str, by_file: dict[str, Names]) -> None:
    assert wrong(name, FILES[name].read_text(encoding="utf-8"), by_file[name]) == []


@each("name", FRAGMENTS)
def test_a_fragment_gives_what_it_says(name: str, by_file: dict[str, Names]) -> None:
    text = FILES[name].read_text(encoding="utf-8")
    gives, lines = read(name, text)
    passed = {
        key for line in lines if isinstance(line, Needs) for one in line.names for key in locals_of(one)
    }
    defined = set(re.findall(r"^local function (\w+)", text, re.MULTILINE))
    for names in re.findall(r"^local ((?:\w+, )*\w+)(?: =|$)", text, re.MULTILINE):
        defined |= set(names.split(", "))
    assert set(gives) <= defined
    assert by_file[name].unused <= {*gives, *passed}, "it defines what nobody can use"


@each("name", FRAGMENTS)
def test_a_fragment_is_called_as_what_it_gives(name: str) -> None:
    file = name.removeprefix("lib/")
    gives, _ = read(name, FILES[name].read_text(encoding="utf-8"))
    assert file in gives or file in {"record", "state", "order"}, gives  # families of several functions


def test_every_fragment_and_each_name_is_needed_somewhere() -> None:
    texts = {name: file.read_text(encoding="utf-8") for name, file in FILES.items()}
    used = {key for name, text in texts.items() for line in lines_of(name, text) for key in line.names}
    given = {key for name in FRAGMENTS for key in read(name, texts[name])[0]}
    assert given - used <= {"LOST", "SETTLED"}  # verdicts, all of them in one place
    assert used <= given


DECLARATIONS = [
    ("-- needs: put; keys: dead\n-- gives: x\nlocal function x()\n  put(dead)\nend\n", []),
    ("-- gives: x\nlocal function x()\n  put()\nend\n", ["does not declare ['put']"]),
    ("-- needs: put\n-- gives: x\nlocal x = 1\n", ["declares and does not use ['put']"]),
    ("-- needs: keys: dead\n-- gives: x\nlocal x = 1\n", ["declares and does not use ['dead']"]),
    ("-- gives: x\nlocal x = limit\n", ["does not declare ['limit']"]),
    ("-- needs: locals: limit\n-- gives: x\nlocal x = limit\n", []),
    ("-- needs: locals: limit\n-- gives: x\nlocal x = 1\n", ["declares and does not use ['limit']"]),
    (
        "-- needs: now\n-- gives: x\nlocal function x()\n  -- needs: is_later\n  is_later()\nend\n",
        ["declares and does not use ['now']"],
    ),
    (
        "-- needs: now\n-- gives: x\nlocal function x()\n  -- needs: set_alarm\n  set_alarm()\nend\n",
        [],
    ),
    ("-- needs: keys: deaf\n-- gives: x\nlocal x = deaf\n", ["needs keys that do not exist ['deaf']"]),
    ("-- needs: a\nlocal x = a\nif x then\n  -- needs: a\n  a()\nend\n", ["declares twice ['a']"]),
]


def test_a_wrong_declaration_is_found(tmp_path: Path) -> None:
    for n, (text, _) in enumerate(DECLARATIONS):
        (tmp_path / f"x{n}.lua").write_text(text)
    names = found(tmp_path)
    said = [(text, wrong("x", text, names[f"x{n}"])) for n, (text, _) in enumerate(DECLARATIONS)]
    assert said == DECLARATIONS


# What the loader makes of it


def assembled(script: str, **fragments: str) -> str:
    """The text of a script under the name `ask`, with fragments in place of real ones."""
    return Scripts({"ask": script, **{f"lib/{name}": text for name, text in fragments.items()}})["ask"].source


GO = "-- gives: now\nlocal now = 0\n"
GO_ON = "-- needs: now; keys: dead\n-- gives: wake_one\nlocal function wake_one()\n  return now, dead\nend\n"


def test_a_fragment_stands_once_in_a_scope_after_what_it_needs() -> None:
    text = assembled(
        "-- needs: wake_one, now; keys: wake\nreturn wake_one(wake), now\n", now=GO, wake_one=GO_ON
    )
    assert text == (
        "local dead, wake = KEYS[1], KEYS[2]\nlocal now = 0\n"
        "local function wake_one()\n  return now, dead\nend\nreturn wake_one(wake), now\n"
    )


def test_a_block_has_what_stands_outside_it() -> None:
    script = (
        "-- needs: now\nif now then\n  -- needs: wake_one\n  wake_one()\n"
        "  if x then\n    -- needs: wake_one\n    wake_one()\n  end\nend\n"
        "if now then\n  -- needs: wake_one\n  wake_one()\nend\n"
    )
    text = assembled(script, now=GO, wake_one=GO_ON)
    assert text.count("local now") == 1
    assert text.count("local function wake_one") == 2, "once in each of the two blocks side by side"
    assert (
        "  local function wake_one()\n    return now, dead\n  end\n  wake_one()\n  if x then\n    wake_one()"
        in text
    )


def test_what_stands_in_another_block_already_comes_without_its_comments() -> None:
    block = "if x then\n  -- needs: wake_one\n  wake_one()\nend\n"
    commented = GO_ON.replace("local", "-- Wakes one.\nlocal", 1)
    text = assembled(f"-- needs: now\n{block}{block}", now=GO, wake_one=commented)
    assert (text.count("local function wake_one"), text.count("-- Wakes one.")) == (2, 1)


def test_another_family_has_fragments_of_its_own() -> None:
    script = (
        "-- needs: wake_one; keys: wake\nlocal function there()\n  -- needs: wake_one; family: to_\nend\n"
    )
    text = assembled(script, now=GO, wake_one=GO_ON)
    assert text.startswith("local dead, wake, to_dead = KEYS[1], KEYS[2], KEYS[3]\n")
    assert "  local dead = to_dead\n  local function wake_one()\n" in text
    assert text.count("local now") == 1, "what touches no key is there already"


def test_one_of_several_families() -> None:
    script = (
        "-- needs: keys: sender\nlocal function queue(n)\n  -- needs: wake_one; keys: ready; family: n\nend\n"
    )
    text = assembled(script, now=GO, wake_one=GO_ON)
    assert text.startswith("local sender = KEYS[1]\n-- families from KEYS[2]: ready, dead\nlocal now = 0\n")
    assert "  local base = 1 + (n - 1) * 2\n  local ready, dead = KEYS[base + 1], KEYS[base + 2]\n" in text


def test_a_block_in_the_block_of_a_family_is_about_the_same_queue() -> None:
    script = (
        "-- needs: keys: ready\nlocal function there()\n  -- needs: keys: dead; family: to_\n"
        "  if dead then\n    -- needs: wake_one; keys: wake\n  end\nend\n"
        "if ready then\n  -- needs: wake_one\nend\n"
    )
    text = assembled(script, now=GO, wake_one=GO_ON)
    assert text.startswith("local ready, dead, to_dead, to_wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n")
    assert "  local dead, wake = to_dead, to_wake\n  if dead then\n" in text
    assert text.count("local function wake_one") == 2, "the block behind is about the script's own queue"


@each(
    "script, fragment, error",
    [
        ("-- needs: nothing_such\n", "", "ask.lua needs nothing_such, which no fragment gives"),
        ("-- needs: keys: deaf\n", "", "ask.lua needs keys that do not exist: deaf"),
        ("-- needs: now\n", "-- needs: holder, seed\n-- gives: now\n", "needs seed, which no fragment gives"),
        ("-- needs: now\n", "-- needs: args: seed\n-- gives: now\n", "arguments that it does not bind: seed"),
        ("-- needs: now\n", "-- needs: remember\n-- gives: now\n", "lib/remember needs lib/now: a cycle"),
        ("-- needs: now\n", "-- gives: now, holds\n", "both give holds"),
        ("-- needs: now\n", "local now = 1\n", "lib/now.lua does not say what it gives"),
        ("-- needs: now, keys: dead\n", "", "ask.lua needs 'now, keys: dead': not names, keys, args"),
        ("if x then\n  -- needs: now\nend\n", "", "ask.lua does not begin with the needs of the whole file"),
    ],
)  # fmt: skip
def test_what_cannot_be_assembled_is_an_error(script: str, fragment: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        assembled(script, **({"now": fragment} if fragment else {}))


@each("name", SCRIPTS)
def test_a_script_binds_no_key_by_hand(name: str) -> None:
    assert bound(name, FILES[name].read_text(encoding="utf-8"))["KEYS"] == []


@each("name", SCRIPTS)
def test_keys_stand_in_one_order(name: str) -> None:
    script = Scripts()[name]
    order = [*_keys.NAMES, *(f"to_{key}" for key in _keys.NAMES), *_keys.OTHERS]
    for keys in (script.keys, script.families):
        assert list(keys) == sorted(keys, key=order.index)
