"""The tests that a change needs: what they ran is recorded, and what a change touches is found there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rq_dlq._scripts import JOINED
from rq_dlq._scripts.verb import PAIRS
from tests import for_change
from tests.chosen import edits, lua
from tests.chosen.choice import Changed, Found, as_arguments, chosen, ranked, stems
from tests.chosen.record import ROOT, Record, hash_of
from tests.chosen.recording import texts
from tests.proofs.mutants.mutate import text_of
from tests.tables import each_row

BEFORE = '''\
"""A module."""
import os
MOST = 3

class Queue:
    """A queue."""
    limit: int = 4

    def send(self, body):
        """Send."""
        if body is None:
            raise ValueError(
                "none",
            )
        return os.fspath(body)

    def take(self):
        return MOST

def alone():
    return 1
'''


@each_row(
    ("old", "new", "expected"),
    [
        ('"none"', '"nothing"', {"Queue.send": {12, 13, 14}}),
        ("        if body is None:", "        if not body:", {"Queue.send": {11}}),
        (
            "        return os.fspath(body)",
            "        body += 1\n        return os.fspath(body)",
            {"Queue.send": {12, 13, 14, 15}},
        ),
        ("        return MOST", "        # three\n        return MOST", {}),
        ('"""Send."""', '"""Send one."""', {}),
        ("    return 1", "    return 2", {"alone": {21}}),
        ("    def take", "    @staticmethod\n    def take", {"Queue.take": {17}}),
        ("def alone():\n    return 1\n", "", {"alone": {20, 21}}),
        (
            "    def take",
            "    def put(self):\n        pass\n\n    def take",
            {"Queue.send": set(), "Queue.take": set()},
        ),
        ("MOST = 3", "MOST = 4", {}),
    ],
)
def test_what_an_edit_touches(old: str, new: str, expected: dict[str, set[int]]) -> None:
    assert BEFORE.count(old) == 1
    found = edits.touched(BEFORE, BEFORE.replace(old, new))
    assert {one.unit.name: {*one.lines} for one in found} == expected


@each_row(
    ("old", "new", "expected"),
    [
        ("MOST = 3", "MOST = 4", {"MOST"}),
        ("import os", "import os.path as os", {"os"}),
        ("limit: int = 4", "limit: int = 5", {"limit"}),
        ("class Queue:", "class Queue(dict):", {"Queue"}),
        ("return MOST", "return 4", set()),
    ],
)
def test_names_outside_functions(old: str, new: str, expected: set[str]) -> None:
    assert edits.renamed(BEFORE, BEFORE.replace(old, new)) == expected


def recorded(**tests: set[int]) -> Record:
    """A record of BEFORE, by the lines that each test ran."""
    record = Record()
    add(record, BEFORE, **tests)
    return record


def add(record: Record, text: str, **tests: set[int]) -> None:
    """Record these tests."""
    lines = {line: [f"t.py::{name}" for name, ran in tests.items() if line in ran] for line in range(1, 30)}
    record.add({f"t.py::{name}": 1.0 for name in tests}, {"rq_dlq/a.py": lines}, {"rq_dlq/a.py": text})


def names(found: list[Found]) -> list[list[str]]:
    return [[test.removeprefix("t.py::") for test in one.tests] for one in found]


def test_tests_that_ran_the_changed_lines_come_first() -> None:
    record = recorded(fails={11, 12, 13, 14}, works={11, 15}, other={21})
    found = Changed("rq_dlq/a.py", BEFORE, BEFORE.replace('"none"', '""')).found(record)
    assert names(found) == [["fails"], ["fails", "works"]]
    assert [one.near for one in found] == [True, False]


def test_a_constant_has_the_tests_of_the_functions_that_use_it() -> None:
    record = recorded(sends={11, 15}, takes={18})
    assert names(Changed("rq_dlq/a.py", BEFORE, BEFORE.replace("MOST = 3", "MOST = 4")).found(record)) == [
        ["takes"]
    ]


def test_a_new_file_has_the_tests_of_its_folder() -> None:
    record = recorded(sends={11, 15})
    assert names(Changed("rq_dlq/b.py", "", "def new(): ...").found(record)) == [["sends"]]
    assert Changed("rq_dlq/web/b.py", "", "def new(): ...").found(record) == []


def test_lines_are_found_in_an_older_record() -> None:
    record = recorded(works={11, 15}, fails={11, 12})
    moved = BEFORE.replace("MOST = 3", "MOST = 3\nLEAST = 1\n")
    found = Changed("rq_dlq/a.py", moved, moved.replace("fspath", "fsdecode")).found(record)
    assert names(found)[0] == ["works"]


def test_what_is_recorded_again_replaces_what_was_known_of_those_tests_alone() -> None:
    record = recorded(works={11, 15}, fails={11, 12})
    add(record, f"# first\n{BEFORE.replace('os.fspath(body)', 'body')}", works={12})
    rows = {line: record.names(tests) for line, tests in record.lines["rq_dlq/a.py"].items()}
    assert rows == {12: ["t.py::works", "t.py::fails"], 13: ["t.py::fails"]}
    again = recorded(works={11, 15}, fails={11, 12})
    add(again, BEFORE.replace("os.fspath(body)", "body"), fails={12})
    kept = again.by_line("rq_dlq/a.py", again.texts["rq_dlq/a.py"], [15])
    assert [again.names(tests) for tests in kept] == [["t.py::works"]], "it may run the new line as well"


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record, file = recorded(works={11, 15}), tmp_path / "recorded"
    record.write(file)
    assert Record.read(file) == record
    assert Record.read(tmp_path / "none") is None


def test_a_few_tests_of_each_file_and_first_those_named_after_the_subject() -> None:
    record = Record({f"tests/test_{file}.py::test_{n}": 1.0 for file in ("a", "send") for n in range(9)})
    everybody, first = record.set_of(record.seconds), record.set_of(["tests/test_a.py::test_8"])
    found = ranked(record, [everybody, first], stems("rq_dlq/core/sending/send.py"))
    assert len(found) == 18
    assert found[0] == "tests/test_a.py::test_8", "the only one that ran that line"
    assert [test.partition("::")[0][11:-3] for test in found[1:5]] == ["send", "send", "a", "a"]


def test_no_more_than_so_many_of_each_part_by_turns() -> None:
    found = [Found("", ["c", "d"]), Found("", ["a", "b"], near=True), Found("", ["x", "y"], near=True)]
    assert chosen(found, 3) == ["a", "x", "b"]
    assert chosen(found, 9) == ["a", "x", "b", "y", "c", "d"]


def test_a_file_that_changed_since_it_was_recorded_runs_whole() -> None:
    same, other = "tests/test_ids.py", "tests/test_tables.py"
    record = Record(files={same: hash_of(ROOT / same), other: "another"})
    tests = [f"{same}::a", f"{other}::b", f"{other}::c", "tests/test_gone.py::d"]
    assert as_arguments(tests, record) == [f"{same}::a", other]


def test_each_verb_is_called_somewhere() -> None:
    known = texts()
    alone = {*JOINED.names()} - {*PAIRS}  # who calls the verbs of a pair calls it
    assert [verb for verb in alone if not [*lua.lines_calling(verb, known)]] == []


def test_a_function_of_the_lua() -> None:
    before = text_of("cancel")
    line = "Leases.take_off(q, { [token] = 1 })"
    touched = lua.touched("cancel", before, before.replace(line, ""))
    assert {*touched} == {"Verbs.cancel"}
    near, far = lua.killers_in("cancel", before, "Verbs.cancel", touched["Verbs.cancel"])
    assert near, "a mutant was that"
    assert not {*near} & {*far}
    parts = lua.parts("cancel", before)
    assert lua.verbs_reaching("Verbs.cancel", parts) == {"cancel"}
    assert lua.verbs_reaching("cancel:cancellable", parts) == {"cancel"}
    assert {"ack", "cancel", "nack", "send"} <= lua.verbs_reaching("State.parse", parts)


def test_the_table_names_what_is_there() -> None:
    table = for_change.table()
    assert "lua" in table
    for room, tests in table.items():
        assert (ROOT / room).exists(), room
        assert tests, room
        assert all(for_change.files_in(path) for path in tests), (room, tests)


@pytest.mark.parametrize(
    ("path", "tests", "without"),
    [
        ("lua/settle.lua", ["scripts/test_contract.py", "model/test_model.py"], "behaviour"),
        ("tests/behaviour/stepping.py", ["behaviour/batches/test_streaming.py"], "test_send"),
        ("tests/test_ids.py", ["test_ids.py"], "send"),
        ("lua/README.md", ["test_docs.py"], "redrive"),
        ("tests/proofs/reliability/actors.py", ["proofs/reliability/test_actors.py"], "behaviour"),
        ("tests/cases/expiry_clamp.yaml", ["behaviour/policies/test_ttl_defaults.py"], "redrive"),
        (".ci/run", ["test_environment.py"], "behaviour"),
        ("rq_dlq/errors/guesses.py", ["test_guesses.py"], "redrive"),
    ],
)
def test_what_a_name_or_the_table_asks_for(path: str, tests: list[str], without: str) -> None:
    found = {test for one in for_change.by_name(path, Record()) for test in one.tests}
    assert {f"tests/{test}" for test in tests} <= found
    assert not [test for test in found if without in test]


def test_without_a_record_nothing_is_chosen_for_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert for_change.main(["--list", "rq_dlq/_keys.py"], tmp_path / "none") == 2
    assert capsys.readouterr() == ("", f"{for_change.NO_RECORD}\n")
    assert for_change.main(["--list", "tests/test_ids.py"], tmp_path / "none") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "tests/test_ids.py"


def test_what_is_left_out_and_what_is_not_known_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, path = tmp_path / "recorded", "rq_dlq/_keys.py"
    record = Record()
    tests = {f"tests/test_ids.py::test_{n}": 1.0 for n in range(7)}
    text = (ROOT / path).read_text("utf-8")
    record.add(tests, {path: dict.fromkeys(range(200), tests)}, {path: text, "rq_dlq/__init__.py": "older"})
    record.write(file)
    assert for_change.main(["--list", "--most", "3", path], file) == 0
    said = capsys.readouterr().out
    assert "4 of these tests are left out; --most 7 runs all\n" in said
    assert "1 other files of the package have changed since it was recorded: " in said
    assert "files of tests are not recorded as they are: python -m tests.for_change --record\n" in said
    assert said.count("\ntests/test_ids.py::") == 3


def test_nothing_to_run_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = f"{'un' * 2}known.txt"  # not as it is: a test runs for what it names
    assert for_change.main(["--list", unknown]) == 2
    assert (
        f"no tests for {unknown}: see '| change in | tests |' in CONTRIBUTING.md" in capsys.readouterr().err
    )


def test_a_file_that_python_cannot_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "recorded"
    Record().write(record)
    changed = [Changed("rq_dlq/_keys.py", "", "def f(:")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(for_change, "changes", lambda _: changed)
        assert for_change.main(["--list"], record) == 2
    assert "a changed file is no Python: " in capsys.readouterr().err


def test_a_run_is_recorded(tmp_path: Path) -> None:
    file, tests = tmp_path / "recorded", ["tests/test_ids.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.chosen.recording",
        "--recorded-in",
        str(file),
    ]
    done = subprocess.run([*command, tests[0]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    record = Record.read(file)
    assert record is not None
    assert {name.partition("::")[0] for name in record.seconds} == {tests[0]}
    assert record.texts["rq_dlq/_keys.py"] == (ROOT / "rq_dlq/_keys.py").read_text("utf-8")
    assert record.files == {tests[0]: hash_of(ROOT / tests[0])}
    ran = record.lines["rq_dlq/values/codec.py"].values()
    assert {name for tests in ran for name in record.names(tests)} <= {*record.seconds}
    assert any(ran)
