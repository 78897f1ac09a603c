"""What `python -m tests.house` counts, and the goals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.effort import calls
from tests.house import (
    DESIGN,
    FIELD,
    GOALS,
    HEAD,
    LONG_FILE,
    Goal,
    Tree,
    of_the_field,
    product,
    with_table,
    written,
)

NOT_YET = {
    "files that a setting touches, `max_in_flight`",
    "lines of `lua` and `rq_dlq` written by hand",
    f"files of more than {LONG_FILE} lines",
}
REACHED = [goal for goal in GOALS if goal.what not in NOT_YET]


def tree(**texts: str) -> Tree:
    return Tree(
        {
            path.replace("__", "/").replace("_py", ".py").replace("_lua", ".lua"): text
            for path, text in texts.items()
        }
    )


@pytest.mark.parametrize(
    "text",
    ["size = 1\n", 'read(b"size")\n', "def f(*, size): pass\n", 'x = {"size": 1}  # so\n', 'f("--size")\n'],
)
def test_a_name_in_code_touches_a_file(text: str) -> None:
    assert tree(rq_dlq__a_py=text).touched_by("size", "--size") == ["rq_dlq/a.py"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # size\n",
        '"""The size."""\n',
        'x = 1\n"""Its size."""\n',
        "resize = size_of = 1\n",
        'x = "max-size"\n',
    ],
)
def test_a_comment_a_docstring_or_another_name_does_not(text: str) -> None:
    assert tree(rq_dlq__a_py=text).touched_by("size") == []


@pytest.mark.parametrize(
    ("line", "touched"), [("-- needs: now; keys: wake", True), ("-- the wake-up: wake", False)]
)
def test_what_the_loader_reads_is_code(line: str, touched: bool) -> None:
    assert bool(tree(lua__a_lua=f"{line}\nreturn 1\n").touched_by("wake")) == touched


def test_a_homonym_is_not_the_field() -> None:
    files = {"rq_dlq/_redis/link.py": "except TRANSIENT: pass\n", "rq_dlq/a.py": "persistent = 1\n"}
    files["rq_dlq/_redis/link.py"] = f"try:\n  pass\n{files['rq_dlq/_redis/link.py']}"
    assert len(Tree(files).touched_by(*FIELD)) == 2
    assert of_the_field(Tree(files)) == ["rq_dlq/a.py"]


def test_what_is_generated_is_left_out() -> None:
    files = {"rq_dlq/a.py": "# Generated from b.py.\nx = 1\n", "rq_dlq/b.py": "x = 1\n# generated\n"}
    assert [*written(files).files] == ["rq_dlq/b.py"]


def test_long_files_and_functions_are_found() -> None:
    body = "    x = 1\n"
    found = tree(
        rq_dlq__a_py="x = 1\n" * (LONG_FILE + 1),
        rq_dlq__b_py="def short():\n" + body * 40 + "def long():\n" + body * 41,
    )
    assert found.long_files == ["rq_dlq/a.py"]
    assert found.long_functions == ["rq_dlq/b.py:42 long"]


@pytest.mark.parametrize(
    ("second", "circle"),
    [
        ("from rq_dlq import a\n", True),
        ("def f():\n    from rq_dlq.a import x\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rq_dlq import a\n", False),
        ("import os\n", False),
    ],
)
def test_a_circle_of_imports_is_found(second: str, circle: bool) -> None:
    found = tree(rq_dlq__a_py="from rq_dlq import b\n", rq_dlq__b_py=second).circle
    assert set(found) == ({"rq_dlq.a", "rq_dlq.b"} if circle else set())


def test_calls_of_the_functions_in_a_folder_are_counted(tmp_path: Path) -> None:
    text = "def steps():\n  yield len('x')\n  yield 2\ndef run():\n  return sum(steps())\n"
    inside: dict[str, Any] = {}
    exec(compile(text, tmp_path / "a.py", "exec"), inside)  # noqa: S102
    assert calls(inside["run"], str(tmp_path)) == 4  # itself, and the steps, which are taken up thrice
    assert calls(inside["run"], str(tmp_path / "b")) == 0


def test_the_table_takes_the_place_of_the_old_one() -> None:
    text = DESIGN.read_text("utf-8")
    new = f"{HEAD}\n|---|---|---|---|\n| lines | 3 | 2 | 1 |\n"
    assert with_table(text, new).count("| goal |") == 1
    assert with_table(text, new).replace(new, "") == with_table(text, "")


@pytest.mark.parametrize("goal", REACHED, ids=lambda goal: goal.what)
def test_a_goal_is_kept(goal: Goal) -> None:
    if goal.missing:
        pytest.skip(f"this needs {goal.missing}")
    count, found = goal.count(product())
    assert count <= goal.most, found
