"""What benchmarks work out, and that one of them runs; the others: `tests/benchmarks/test_programs.py`."""

from __future__ import annotations

import pytest

from tests.benchmarks import collisions, depth


@pytest.mark.redis
def test_depth(capsys: pytest.CaptureFixture[str]) -> None:
    depth.main(["--messages", "10000", "12000"])
    said = capsys.readouterr().out
    assert "10,000 pending ┃ 12,000 pending" in said
    assert all(f"│ {name} " in said for name in ("HMGET, plain", "claim", "ack"))


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
