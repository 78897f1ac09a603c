"""The step of CI that counts instructions: when it fails, when a commit may say why, when it is left out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import servers
from tests.benchmarks import instructions
from tests.benchmarks.instructions import Counts, again, of_client, reasons, verdict, without_need

BEFORE: Counts = {"ack:1 off": 100.0, "ack:100 off": 1_000.0}


def test_a_count_that_grew_fails_the_commit_unless_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    this = {"ack:1 off": 103.0, "ack:100 off": 1_020.0}
    said = verdict(this, BEFORE, 1.02, "")
    assert said.startswith("more than 1.02 times the instructions of the commit before: ack:1 off 1.030\n")
    assert "`Instructions: `" in said
    assert verdict(this, BEFORE, 1.02, "results are kept") == ""
    assert capsys.readouterr().out == "more than 1.02: ack:1 off 1.030\nsince: results are kept\n"
    assert verdict({"ack:1 off": 101.0, "ack:100 off": 900.0}, BEFORE, 1.02, "") == ""
    assert capsys.readouterr().out == ""


def test_what_seems_to_have_grown_is_counted_again() -> None:
    asked: list[list[str]] = []

    def measure(only: list[str]) -> tuple[Counts, Counts]:
        asked.append(only)
        return {"ack:1 off": 101.0}, {"ack:1 off": 102.0}

    this = {"ack:1 off": 104.0, "ack:100 off": 1_000.0}
    assert again(measure, this, BEFORE, 1.02) == ({**this, "ack:1 off": 101.0}, BEFORE)
    assert asked == [["ack:1 off"]]
    asked.clear()
    assert (
        again(measure, {**this, "ack:1 off": 104.0}, {**BEFORE, "ack:1 off": 90.0}, 1.02)[0]["ack:1 off"]
        == 101.0
    )
    assert len(asked) == instructions.AGAIN


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, which stands for the checkout."""
    monkeypatch.setattr(instructions, "HERE", tmp_path)
    monkeypatch.setattr(shutil, "which", str)
    git(tmp_path, "init", "-q")
    (tmp_path / "lua").mkdir()
    commit(tmp_path, "first", "1")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *names, *words], check=True)


def commit(folder: Path, message: str, text: str) -> None:
    (folder / "lua" / "ack.lua").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def test_without_a_commit_before_or_a_change_there_is_nothing_to_count(clone: Path) -> None:
    assert without_need("HEAD~1") == "there is no HEAD~1 in this clone"
    commit(clone, "the same", "1")
    assert without_need("HEAD~1") == "lua and rq_dlq are those of HEAD~1"
    commit(clone, "another", "2")
    assert without_need("HEAD~1") == ""


def test_a_commit_says_why_in_a_trailer(clone: Path) -> None:
    commit(clone, "Acks keep results\n\nThey were lost.\n\nInstructions: a result is written", "2")
    assert reasons("HEAD~1") == "a result is written"
    commit(clone, "Instructions are counted\n\nInstructions: no trailer, since\n\ntext follows it", "3")
    assert reasons("HEAD~1") == ""


@pytest.mark.redis
@pytest.mark.parametrize("what", ["worker:1", "worker:100"])
def test_bytecodes_are_the_same_each_time(what: str) -> None:
    """But for a few: a reply may come in two reads."""
    with servers.running() as path:
        first, second = (of_client(f"unix://{path}", what, "off", 100) for _ in range(2))
    assert first == pytest.approx(second, rel=0.002)
