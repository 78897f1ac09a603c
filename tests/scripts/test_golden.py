"""The text that Redis gets is reviewed: a change of a fragment shows in every script that includes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assembled_lua import GOLDEN, REFRESH, assembled, luacheck, write
from tests.each import each
from tests.needs import needs

TEXTS = assembled()


@each("name", TEXTS)
def test_the_golden_text_is_current(name: str) -> None:
    golden = GOLDEN / f"{name}.lua"
    assert golden.exists(), f"a new script: {REFRESH}"
    assert golden.read_text(encoding="utf-8") == TEXTS[name], f"to take the change over: {REFRESH}"


def test_no_golden_text_is_without_a_script() -> None:
    assert {file.stem for file in GOLDEN.glob("*.lua")} == TEXTS.keys(), REFRESH


@needs("luacheck")
@pytest.mark.slow  # `python -m tests.assembled_lua`, which `make lint` runs, says the same
def test_luacheck_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    checked = luacheck(tmp_path)
    assert checked is not None
    assert checked.returncode == 0, checked.stdout


MISTAKES = [
    "return nonsense",  # an undefined global
    "left_behind = 1",  # a global that every later script would see
    "local ready, leases = KEYS[1], KEYS[2]\nreturn redis.call('ZCARD', ready)",  # a key without use
    "return math.random()",  # seeded alike in each script
    "return os.time()",  # the client's clock, if it were there
]


@needs("luacheck")
def test_luacheck_finds_each_mistake(tmp_path: Path) -> None:
    for n, mistake in enumerate(MISTAKES):
        (tmp_path / f"mistake{n}.lua").write_text(mistake + "\n")
    checked = luacheck(tmp_path)
    assert checked is not None
    assert checked.returncode == 1, checked.stdout
    missed = [mistake for n, mistake in enumerate(MISTAKES) if f"mistake{n}.lua:" not in checked.stdout]
    assert not missed, checked.stdout
