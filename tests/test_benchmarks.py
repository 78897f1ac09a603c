"""The benchmarks run, with numbers too small to mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import collisions, depth, groups, idle, scale, shared, start, web
from tests.needs import need

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
def test_depth(capsys: pytest.CaptureFixture[str]) -> None:
    depth.main(["--messages", "10000", "12000"])
    said = capsys.readouterr().out
    assert "10,000 pending ┃ 12,000 pending" in said
    assert all(f"│ {name} " in said for name in ("HMGET, plain", "claim", "ack"))


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


def test_what_a_round_comes_to() -> None:
    """Four messages fail; they come back in one slot, and two win; then the others, each in its own."""
    firsts = [collisions.Attempt(0.0, 0.01, 1, won=False)] * 4
    seconds = [collisions.Attempt(0.55, 0.56, 2, won=number < 2) for number in range(4)]
    thirds = [collisions.Attempt(0.75 + number / 10, 0.76 + number / 10, 3, won=True) for number in range(2)]
    seen = collisions.Round(0.5, (*firsts, *seconds, *thirds))
    assert (seen.seconds, seen.wasted) == (0.86, 6)
    assert seen.slots() == {5: 4, 7: 1, 8: 1}
    assert seen.slots(won=True) == {5: 2, 7: 1, 8: 1}
    assert seen.largest == pytest.approx(4 / 6)
    assert seen.mean == pytest.approx((16 + 1 + 1) / 36)
    assert seen.together == pytest.approx((4 * 4 / 4 + 1 / 2 + 1 / 1) / 6)


def test_the_work_is_the_same_for_the_same_seed() -> None:
    work = collisions.Work(
        messages=5, rows=4, touched=2, think=0, first_wait=1, longest_wait=1, processes=1, threads=1
    )
    assert work.bodies(1) == work.bodies(1) != work.bodies(2)
    assert all(len(set(rows)) == 2 for rows in work.bodies(1))
