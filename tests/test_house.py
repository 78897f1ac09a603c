"""What `python -m tests.house` counts, and the goals; the changes that it makes apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import house, servers
from tests.assembled_lua import ROOT
from tests.changes import CHANGES, Change, DoesNotApply
from tests.each import each
from tests.effort import calls
from tests.house import DESIGN, GOALS, HEAD, LONG_FILE, LUACHECK, Goal, Tree, product, with_table
from tests.needs import need_program, needs
from tests.rooms import Rooms

EACH = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return product()


def rooms(**texts: str) -> Rooms:
    return Rooms({f"rq_dlq.{name.replace('__', '.')}": text for name, text in texts.items()})


# Changes


@needs("git")
@EACH
def test_a_change_applies_and_is_counted(change: Change, tree: Tree) -> None:
    code = [path for path in change.touches if path.endswith((".lua", ".py"))]
    assert change.product() == sorted(path for path in code if not path.startswith("tests/"))
    new = [path for path in change.product() if path not in tree.files]
    assert not any((ROOT / path).exists() for path in new), "it changes a generated file"


@needs("git")
@EACH
def test_a_change_says_what_it_adds_and_names_its_tests(change: Change) -> None:
    assert change.adds.lower().startswith(f"a {change.file.stem}")
    named = [word for word in change.tests if word.startswith("tests/")]
    assert named
    assert all((ROOT / path).exists() for path in named)
    assert any(path.startswith("tests/") for path in change.touches)


@needs("git")
def test_a_change_that_does_not_apply_is_an_error(tmp_path: Path) -> None:
    text = CHANGES["verb"].file.read_text("utf-8")
    rotten = tmp_path / "verb.patch"
    rotten.write_text(
        text.replace(" def reset(", " def renew(").replace('"pause_lane", "reset"', '"reset"'), "utf-8"
    )
    with pytest.raises(DoesNotApply, match=r"verb\.patch does not apply"):
        Change.read(rotten).product()


# Rooms


@each(
    "second, circle",
    [
        ("from rq_dlq import a\n", True),
        ("def f():\n    from rq_dlq.a import x\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rq_dlq import a\n", False),
        ("import os\n", False),
    ],
)
def test_a_circle_of_imports_is_found(second: str, circle: bool) -> None:
    found = rooms(a="from rq_dlq import b\n", b=second).circle
    assert set(found) == ({"rq_dlq.a", "rq_dlq.b"} if circle else set())


@each(
    "up",
    [
        "from rq_dlq.top import x\n",
        "def f():\n    from rq_dlq.top.inner import x\n",
        "if TYPE_CHECKING:\n    import rq_dlq.top.inner\n",
    ],
)
def test_an_arrow_up_is_found_however_it_is_imported(up: str) -> None:
    below = {"middle": "from rq_dlq import ground\n", "top__inner": "from rq_dlq import middle\n", "top": ""}
    assert rooms(ground="", **below).arrows_up == []
    assert rooms(ground="", **below).floors == ["top", "middle", "ground"]
    found = rooms(ground=up, **below).arrows_up
    assert sorted(found) == ["ground -> top", "middle -> ground", "top -> middle"]


def test_the_rooms_of_a_subject_import_it_or_have_its_name() -> None:
    found = rooms(
        core__redrive__start="",
        core__redriven="",
        asyncio__redrive="from rq_dlq.core.redrive import start\n",
        client__own="def f():\n    from rq_dlq.core.redrive.start import x\n",
        web__pages__redrives="",
        cli__dlq="from rq_dlq.asyncio import redrive\n",
        spark__query="from rq_dlq.core import redriven\n",
        _public="from rq_dlq.core.redrive import start\n",
    )
    assert found.lives_in("redrive") == ["client", "core", "web"]


# Sizes


def test_calls_of_the_functions_in_a_folder_are_counted(tmp_path: Path) -> None:
    text = "def steps():\n  yield len('x')\n  yield 2\ndef run():\n  return sum(steps())\n"
    inside: dict[str, Any] = {}
    exec(compile(text, tmp_path / "a.py", "exec"), inside)  # noqa: S102
    assert calls(inside["run"], str(tmp_path)) == 4  # itself, and the steps, which are taken up thrice
    assert calls(inside["run"], str(tmp_path / "b")) == 0


def test_what_is_generated_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rq_dlq").mkdir()
    (tmp_path / "rq_dlq" / "a.py").write_text("# Generated from b.py.\nx = 1\n", "utf-8")
    (tmp_path / "rq_dlq" / "b.py").write_text("x = 1\n# generated\n", "utf-8")
    assert [*product(tmp_path).files] == ["rq_dlq/b.py"]


def test_long_files_and_functions_are_found() -> None:
    body = "    x = 1\n"
    found = Tree(
        {
            "rq_dlq/a.py": "x = 1\n" * (LONG_FILE + 1),
            "rq_dlq/b.py": "def short():\n" + body * 40 + "def long():\n" + body * 41,
        }
    )
    assert found.long_files == ["rq_dlq/a.py"]
    assert found.long_functions == ["rq_dlq/b.py:42 long"]


def test_a_subject_has_the_lines_of_its_room() -> None:
    found = Tree({"rq_dlq/core/a/b.py": "x\n", "rq_dlq/core/a/c.py": "x\ny\n", "rq_dlq/core/d.py": "x\n"})
    assert found.subjects == {"a": 3, "d": 1}


# The goals


def test_without_luacheck_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    monkeypatch.setenv("PATH", "")
    goal = next(goal for goal in GOALS if "fragment" in goal.what)
    assert goal.count(tree) == (None, [LUACHECK])
    monkeypatch.setattr(house, "GOALS", (goal,))
    assert [*house.report(tree, verbose=False)][1].strip() == LUACHECK


def test_the_table_takes_the_place_of_the_old_one() -> None:
    text = DESIGN.read_text("utf-8")
    new = f"{HEAD}\n|---|---|---|\n| lines | 2 | 1 |\n"
    assert with_table(text, new).count("| goal |") == 1
    assert with_table(text, new).replace(new, "") == with_table(text, "")


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_a_goal_is_kept(goal: Goal, tree: Tree) -> None:
    if "new" in goal.what:
        need_program("git")
    count, found = goal.count(tree)
    if count is None:
        need_program("luacheck")
        servers.needed()
    assert count is not None, found
    assert count <= goal.most, found
