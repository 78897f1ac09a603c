"""The programs run, with numbers too small to mean anything: `make bench` begins with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.benchmarks import (
    cancels,
    collisions,
    groups,
    idle,
    outage,
    outbox,
    renumber,
    scale,
    settings,
    shared,
    start,
    tasks,
    web,
)
from tests.benchmarks.instructions import NO_VALGRIND
from tests.needs import lack, need
from tests.servers.postgres import programs

TINY = "--rounds 1 --messages 8 --rows 2 --think 0.005 --first-wait 0.01 --longest-wait 0.04 --threads 4"


@pytest.mark.redis
def test_collisions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    need("matplotlib", extra="bench")
    picture = tmp_path / "collisions.png"
    collisions.main([*TINY.split(), "--plot", str(picture)])
    said = capsys.readouterr().out
    assert f"$ python -m tests.benchmarks.collisions {TINY}" in said
    assert all(f"│ {spread:<6g} │" in said for spread in collisions.SPREADS)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.redis
def test_idle(capsys: pytest.CaptureFixture[str]) -> None:
    idle.main(["--messages", "2", "--rounds", "1", "--hz", "50"])
    said = capsys.readouterr().out
    assert "hz 50" in said
    assert all(way in said for way in idle.WAYS)


@pytest.mark.redis
def test_tasks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MESSAGES", 2_000)
    tasks.main(["--rounds", "1"])
    said = capsys.readouterr().out
    assert all(f"{name}, bytecodes" in said for name in tasks.SIDES)


@pytest.mark.redis
def test_renumber(capsys: pytest.CaptureFixture[str]) -> None:
    renumber.main(3_000)
    assert re.match(r"3,000 blocked messages of 1,000 keys: \d+ steps, median ", capsys.readouterr().out)


@pytest.mark.redis
def test_outbox(capsys: pytest.CaptureFixture[str]) -> None:
    if programs() is None:
        lack("no postgresql here: apt-get install postgresql")
    outbox.main(["--transactions", "5", "--rounds", "1"])
    said = capsys.readouterr().out
    assert re.search(r"with a message in the outbox: .* times .* the relay sent 10 rows", said)


@pytest.mark.redis
def test_shared(capsys: pytest.CaptureFixture[str]) -> None:
    shared.main(["--queues", "7", "--seconds", "0.1", "--beside", str(shared.HERE)])
    said = capsys.readouterr().out
    assert f"$ python -m tests.benchmarks.shared --queues 7 --seconds 0.1 --beside {shared.HERE}" in said
    assert "letters before older ones  │ 0.00" in said


@pytest.mark.redis
def test_start(capsys: pytest.CaptureFixture[str]) -> None:
    need("hatchling", extra="dev")
    start.main(["--rounds", "1", "--beside", str(start.HERE)])
    said = capsys.readouterr().out
    assert f"$ python -m tests.benchmarks.start --rounds 1 --beside {start.HERE}" in said
    assert all(f"│ {step} " in said for step in start.STEPS)


@pytest.mark.redis
def test_settings(capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("valgrind"):
        pytest.skip(NO_VALGRIND)
    settings.main(["outcomes", "--size", "1"])
    said = capsys.readouterr().out
    assert "| none of them |" in said
    assert re.search(r"\| `outcomes=10_000` \| [\d,]+ \(1\.\d\) \|", said)


@pytest.mark.redis
def test_outage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    need("matplotlib", "bench")
    words = ["--draws", "1", "--minutes", "2", "--rounds", "1", "--plot", str(tmp_path / "outage.png")]
    outage.main(words)
    said = capsys.readouterr().out
    assert "healthy messages that died" in said
    assert "one by one, 1 % fail" in said
    assert all(
        (tmp_path / f"outage-{page}.png").read_bytes().startswith(b"\x89PNG") for page in outage.STYLES
    )


@pytest.mark.redis
def test_cancels(capsys: pytest.CaptureFixture[str]) -> None:
    cancels.main(["--calls", "2"])
    said = capsys.readouterr().out
    assert "$ python -m tests.benchmarks.cancels --calls 2" in said
    assert all(f"│ {colour} " in said for colour in ("async def", "def"))


@pytest.mark.redis
def test_groups(capsys: pytest.CaptureFixture[str]) -> None:
    groups.main(["--letters", "50", "--size", "9"])
    said = capsys.readouterr().out
    assert "50 letters of 9 bytes in 3 groups" in said
    assert all(name in said for name in (*groups.LOOKS, *groups.CHANGES))


@pytest.mark.redis
def test_scale(capsys: pytest.CaptureFixture[str]) -> None:
    scale.main(["--messages", "20000", "--seconds", "0.1"])
    said = capsys.readouterr().out
    assert "8 threads of 5 ms: of the ideal" in said
    assert "memory of a worker" in said


@pytest.mark.redis
def test_web(capsys: pytest.CaptureFixture[str]) -> None:
    need("starlette", "web")
    web.main(["--queues", "3", "--pages", "2", "--letters", "50", "--size", "9", "--seconds", "0.5"])
    said = capsys.readouterr().out
    assert "3 queues" in said
    assert "50 letters: the page of a group of half of them" in said
