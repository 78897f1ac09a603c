"""How the tests are shared out among processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import distribution
from tests.servers.forms import NAMES, Forms
from tests.tables import each_row

ROOT = Path(__file__).parent.parent


@each_row("path", [*distribution.FIRST, distribution.LAST])
def test_what_begins_first_and_last_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_spark_begins_first_and_in_one_process() -> None:
    files = ["tests/test_docs.py::a", "tests/spark/test_read.py::b[1]", "tests/spark/test_write.py::c[x::y]"]
    assert sorted(files, key=distribution.rank) == [*files[1:], files[0]]
    assert [*map(distribution.share_of, files)] == [
        "tests/test_docs.py",
        distribution.SPARK,
        distribution.SPARK,
    ]


def test_what_only_computes_begins_last() -> None:
    files = [
        f"{distribution.LAST}test_send.py::a",
        "tests/test_docs.py::b",
        f"{distribution.FIRST[-1]}test_urls.py::c",
    ]
    assert sorted(files, key=distribution.rank) == files[::-1]


def test_code_is_compiled_once_where_it_may_not_be_kept_beside_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    distribution.compile_once(tmp_path)
    assert "PYTHONPYCACHEPREFIX" not in os.environ
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    distribution.compile_once(tmp_path)
    assert os.environ["PYTHONPYCACHEPREFIX"] == str(tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_one_file_in_eight_has_the_other_form() -> None:
    files = [f"tests/test_{number}.py" for number in range(800)]
    for draw in ("a", "b"):
        drawn = [Forms(NAMES, draw).form_of(file) for file in files]
        assert 60 < drawn.count("text") < 150
    assert drawn != [Forms(NAMES, "a").form_of(file) for file in files]
    assert {Forms(["text"], "a").form_of(file) for file in files} == {"text"}
