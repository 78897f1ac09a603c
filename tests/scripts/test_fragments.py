"""Fragments of scripts by themselves, with all that they ask for given."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq._scripts import Scripts

SCRIPTS = Scripts(
    {
        "ask": """\
local seconds, microseconds = ARGV[1], ARGV[2]
local redis = { call = function(command) return command == 'TIME' and { seconds, microseconds } end }
-- needs: now
return string.format('%.17g', now)
""",
        "pack": """\
-- needs: pack_number
local packed = {}
for n, cell in ipairs(ARGV) do
  packed[n] = { pack_number(tonumber(cell), 6), pack_number(tonumber(cell), 7) }
end
return packed
""",
        "fail": """\
local story = ARGV[1]
-- needs: last_failure
return last_failure(story)
""",
    }
)


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [
        (("1790000000", "0"), "1790000000000"),
        (("1790000000", "999"), "1790000000000"),
        (("1790000000", "1000"), "1790000000001"),
        (("1790000001", "999000"), "1790000001999"),
        (("1790000001", "999999"), "1790000001999"),
    ],
)
def test_the_server_s_time_in_whole_milliseconds(raw: Any, time: tuple[str, str], milliseconds: str) -> None:
    assert raw.eval(SCRIPTS["ask"].source, 0, *time) == milliseconds.encode()


def test_numbers_in_bytes(raw: Any) -> None:
    numbers = [digit * 256**place for digit in (1, 2, 127, 254, 255) for place in range(6)]
    numbers += [256**place - 1 for place in range(1, 7)] + [0, 1_790_000_000_123, 65_279, 65_280, 65_535]
    births = [number + low for number in numbers for low in (0, 255, 256, 65_280, 65_535)]
    found = raw.eval(SCRIPTS["pack"].source, 0, *births)
    assert found == [[(it % 256**6).to_bytes(6), it.to_bytes(7)] for it in births]


@pytest.mark.parametrize(
    ("story", "line"),
    [
        ("", ""),
        ("acked\t1", ""),
        ("nacked\t1\tx", "nacked\t1\tx"),
        ("nacked\t1\tx\n", "nacked\t1\tx"),
        ("nacked\t1\tx\nlapsed\t2\ty", "lapsed\t2\ty"),
        ("poisoned\t1\tx\nredriven\t2\ty\nreleased\t3", "poisoned\t1\tx"),
        ("nacked\t1\nnacked\t2\ndead_lettered\t3\nredriven\t4", "dead_lettered\t3"),
    ],
)
def test_the_last_failure_of_a_history(raw: Any, story: str, line: str) -> None:
    assert raw.eval(SCRIPTS["fail"].source, 0, story) == line.encode()
