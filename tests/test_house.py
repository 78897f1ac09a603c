"""What `python -m tests.house` counts, and the goals; the changes that it makes apply."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.call_counts import calls
from tests.changes import CHANGES, Change, DoesNotApply, code_in
from tests.checkout import ROOT
from tests.class_names import KNOWN, defined_twice
from tests.house import DESIGN, GOALS, HEAD, LONG_FILE, Goal, Tree, product, with_table
from tests.needs import need_program, needs
from tests.room_imports import Rooms
from tests.sizes import FIGURES, Figures, figures, too_high, too_large
from tests.tables import each_row

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
    rotten.write_text(re.sub(r"^ .+", r"\g<0>, as it was once", text, flags=re.MULTILINE), "utf-8")
    with pytest.raises(DoesNotApply, match=r"verb\.patch does not apply"):
        Change.read(rotten).product()


# Rooms


@each_row(
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


@each_row(
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
            "rq_dlq/b.py": "def short():\n" + body * 39 + "def long(\n  a,\n):\n" + body * 38,
            "rq_dlq/c.py": "def long():\n    # Long: one loop\n" + body * 40,
        }
    )
    assert found.long_files == ["rq_dlq/a.py"]
    assert found.long_functions == ["rq_dlq/b.py:41 long"]


def test_a_room_has_the_lines_of_its_files() -> None:
    files = {
        "lua/ack.lua": 4, "rq_dlq/__init__.py": 1, "rq_dlq/_keys.py": 2, "rq_dlq/core/__init__.py": 1,
        "rq_dlq/core/a/b.py": 1, "rq_dlq/core/a/c.py": 2, "rq_dlq/core/d.py": 1, "rq_dlq/cli/top/x.py": 1,
    }  # fmt: skip
    found = Tree({path: "x\n" * lines for path, lines in files.items()})
    assert found.lines == {"cli": 1, "core": 1, "core/a": 3, "core/d": 1, "lua": 4, "rq_dlq": 3}


@each_row(
    "lines, large, high",
    [(1_000, [], []), (1_020, [], []), (1_021, ["cli"], []), (981, [], []), (979, [], ["cli"])],
)
def test_a_room_is_near_its_figure(lines: int, large: list[str], high: list[str]) -> None:
    known = Figures({"cli": 1_000})
    assert [one.partition(":")[0] for one in too_large({"cli": lines}, known)] == large
    assert too_high({"cli": lines}, known) == high
    assert too_large({"new": 3}, known) == ["new: 3 of 0; `python -m tests.house --grew new 'what came'`"]


def test_a_figure_falls_by_itself_and_rises_with_a_word() -> None:
    known = Figures({"cli": 1_000, "web": 100, "gone": 7})
    shrunk = known.shrunk({"cli": 900, "web": 150})
    assert shrunk == Figures({"cli": 900, "web": 100})
    grown = shrunk.after("web", 'a "page" of gathers', {"web": 150})
    assert grown.lines == {"cli": 900, "web": 150}
    assert Figures.of(grown.text()) == grown
    assert grown.raised_since(shrunk) == []
    assert Figures(grown.lines).raised_since(shrunk) == ["web"]
    assert Figures({**grown.lines, "new": 1}, grown.grown).raised_since(grown) == ["new"]


# Names


def test_a_class_name_of_two_modules_is_found() -> None:
    files = {
        "rq_dlq/core/a.py": "class Page:\n    pass\n",
        "rq_dlq/web/b.py": "class _Page:\n    class Meta:\n        pass\n",
        "rq_dlq/asyncio/c.py": "class Queue:\n    pass\n",
        "rq_dlq/client/c.py": "class Queue:\n    pass\n",
        "rq_dlq/django/d.py": "class Queue(rq_dlq.Queue[T]):\n    class Meta:\n        pass\n",
    }
    assert defined_twice(files) == {"Page": ["rq_dlq/core/a.py:1 Page", "rq_dlq/web/b.py:1 _Page"]}


def test_no_class_has_the_name_of_another_one() -> None:
    package = {path: text for path, text in code_in(ROOT).items() if path.startswith("rq_dlq/")}
    found = defined_twice({path: text for path, text in package.items() if path.endswith(".py")})
    assert {name: places for name, places in found.items() if name not in KNOWN} == {}
    assert sorted(KNOWN) == [*found], "take the name out of KNOWN"


# The goals


def test_the_table_takes_the_place_of_the_old_one() -> None:
    text = DESIGN.read_text("utf-8")
    new = f"{HEAD}\n|---|---|---|\n| lines | 2 | 1 |\n"
    assert with_table(text, new).count("| goal |") == 1
    assert with_table(text, new).replace(new, "") == with_table(text, "")


@needs("git")
def test_no_figure_has_risen_since_the_commit_before_without_a_word() -> None:
    command = ["git", "-C", str(ROOT), "show", f"HEAD~1:{FIGURES.relative_to(ROOT)}"]
    before = subprocess.run(command, capture_output=True, text=True, check=False)
    if before.returncode:
        pytest.skip("the commit before is not in this clone")
    assert figures().raised_since(Figures.of(before.stdout)) == []


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_a_goal_is_kept(goal: Goal, tree: Tree) -> None:
    if "new" in goal.what:
        need_program("git")
    count, found = goal.count(tree)
    if count is None:
        servers.needed()
    assert count is not None, found
    assert count <= goal.most, found
