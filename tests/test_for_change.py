"""The map of rooms to tests: whole, and what it says of some changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import for_change

ROOT = Path(__file__).parent.parent


def test_the_table_has_each_room_and_names_what_is_there() -> None:
    table = for_change.table()
    rooms = {f"rq_dlq/{path.name}" for path in (ROOT / "rq_dlq").iterdir() if (path / "__init__.py").exists()}
    assert rooms | {"lua"} <= table.keys()
    for room, tests in table.items():
        assert (ROOT / room).exists(), room
        assert tests, room
        assert all(for_change.files_in(path) for path in tests), (room, tests)


@pytest.mark.parametrize(
    ("path", "tests", "without"),
    [
        ("rq_dlq/core/redrive/terms.py", ["behaviour/test_redrives.py"], "send"),
        ("rq_dlq/core/settling/calls.py", ["behaviour/test_settle.py"], "redrive"),
        (
            "rq_dlq/core/cancelling/calls.py",
            ["behaviour/test_cancel.py", "model/unseen/test_cut_off.py"],
            "web",
        ),
        ("rq_dlq/cli/top/__init__.py", ["cli/test_top.py"], "dlq"),
        ("rq_dlq/errors/guesses.py", ["test_guesses.py", "test_bad_input.py"], "redrive"),
        ("lua/nack.lua", ["scripts/test_contract.py", "behaviour/test_settle.py"], "redrives"),
        ("tests/behaviour/stepping.py", ["behaviour/test_streaming.py"], "test_send"),
        ("tests/test_ids.py", ["test_ids.py"], "send"),
        ("lua/README.md", ["test_docs.py"], "redrive"),
        ("rq_dlq/_keys.py", ["scripts/test_contract.py"], "tests/proofs"),
        ("tests/proofs/reliability/actors.py", ["proofs/reliability/test_actors.py"], "behaviour"),
        ("tests/cases/expiry_clamp.yaml", ["behaviour/test_ttl_defaults.py"], "redrive"),
        (".ci/run", ["test_environment.py"], "behaviour"),
    ],
)
def test_what_a_change_needs(path: str, tests: list[str], without: str) -> None:
    found = for_change.selected([path])
    assert {f"tests/{test}" for test in tests} <= {*found}
    assert not [test for test in found if without in test]


def test_a_lua_file_has_the_cases_that_killed_its_mutants() -> None:
    file = "lua/lib/judge.lua"
    (cases,) = (tests for reason, tests in for_change.for_path(file).items() if "killed" in reason)
    assert all("::" in case for case in cases)
    selected = for_change.selected([file])
    assert any(case in selected for case in cases)
    for case in cases:
        assert (case in selected) != (case.partition("::")[0] in selected), f"{case} or its file"


def test_nothing_to_run_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = f"{'un' * 2}known.txt"  # not as it is: a test runs for what it names
    assert for_change.main(["--list", unknown]) == 2
    assert (
        f"no tests for {unknown}: see '| change in | tests |' in CONTRIBUTING.md" in capsys.readouterr().err
    )


def test_the_list_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert for_change.main(["--list", "tests/test_ids.py"]) == 0
    assert capsys.readouterr().out == "tests/test_ids.py: itself\n  tests/test_ids.py\n"
