"""The modules of `lua/broker` and the text that is joined of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from rq_dlq._redis.acl import CHANGES
from rq_dlq._scripts import Scripts
from rq_dlq._scripts.joining import MODULES, Part, _parts, class_name, join
from tests.needs import missing
from tests.verbs import VERBS

FOLDER = Path(__file__).parents[2] / "lua" / "broker"
TEXTS = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.lua"))}
PARTS: dict[str, list[Part]] = {module: [*_parts(module, TEXTS[module])] for module in MODULES}
LIBRARY = join(TEXTS)


def test_each_module_is_declared() -> None:
    assert sorted(TEXTS) == sorted(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_short_and_so_are_its_functions(module: str) -> None:
    assert len(TEXTS[module].splitlines()) <= 300
    assert {part.name: len(part.lines) for part in PARTS[module] if len(part.lines) > 40} == {}


@pytest.mark.parametrize("module", MODULES)
def test_a_function_reads_few_names_of_other_modules(module: str) -> None:
    own = class_name(module) + "."
    read = {
        part.name: {name for name, _ in part.calls if "." in name and not name.startswith(own)}
        for part in PARTS[module]
    }
    assert {name: names for name, names in read.items() if len(names) > 12} == {}


@pytest.mark.parametrize("module", MODULES)
def test_a_function_assigns_no_name_that_outlives_a_call(module: str) -> None:
    names = {part.name.partition(":")[2] for part in PARTS[module]} - {""}
    tables = {class_name(one) for one in MODULES} | {"Verbs"}
    for part in PARTS[module]:
        text = "\n".join(part.lines)
        assigned = re.findall(r"^ +([\w.]+(?:, [\w.]+)*) = ", text, re.MULTILINE)
        for name in ", ".join(assigned).split(", "):
            local = re.search(rf"^ *(local |for |(local )?function).*\b{name}\b", text, re.MULTILINE)
            assert name not in names or local, f"{part.name} assigns {name}"
            assert name.partition(".")[0] not in tables, f"{part.name} assigns {name}"


@pytest.mark.skipif(bool(missing("luacheck")), reason=missing("luacheck"))
def test_luacheck_finds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "library.lua"
    file.write_text(LIBRARY.text)
    options = [
        "--std",
        "lua51",
        "--read-globals",
        "redis",
        "cjson",
        "KEYS",
        "ARGV",
        "--no-max-line-length",
        "--",
    ]
    found = subprocess.run(
        ["luacheck", "--no-color", *options, str(file)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", sorted(Scripts().names()))
def test_a_verb_has_the_contract_of_its_script(name: str) -> None:
    """While both forms are alive, calls pass the same keys and arguments to both."""
    script, verb = Scripts(form="scripts")[name], LIBRARY.verbs[name]
    assert (verb.args, verb.items, verb.drains) == (script.args, script.items, script.drains)
    assert set(verb.keys) == set(script.keys)
    assert set(verb.families) == set(script.families)
    assert verb.commands == script.commands


def test_a_verb_that_reads_writes_nothing() -> None:
    reads = {name: verb.commands & CHANGES for name, verb in LIBRARY.verbs.items() if verb.reads}
    assert reads.keys() == {name for name, verb in VERBS.items() if verb.kind == "look"}
    assert not any(reads.values()), reads


def test_the_name_follows_from_the_text() -> None:
    other = join({**TEXTS, "clock": TEXTS["clock"].replace("1000", "1001")})
    assert LIBRARY.name != other.name
    assert join(TEXTS).name == LIBRARY.name
    assert LIBRARY.name in LIBRARY.text
