"""Fragments of scripts by themselves, with all that they ask for given."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rq_dlq._scripts import Scripts
from tests.each import each

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
        "rate": """\
-- needs: interval_of
return string.format('%.17g', interval_of(ARGV[1]) or -1)
""",
        "read": """\
local record, of = ARGV[1], ARGV[2]
-- needs: text_in
return text_in(record, of)
""",
        "break": """\
local said = ARGV[1]
local redis = { call = function() return { [5] = said } end }
-- needs: breaker
local found = {}
for n, name in ipairs({ 'distinct', 'within', 'share', 'probe', 'longest' }) do
  found[n] = string.format('%.17g', breaker[name])
end
return found
""",
        "pace": """\
local rate, reached = ARGV[1], ARGV[2]
local redis = { call = function() return { '1000', '0' } end }
-- needs: pace
local found = pace(rate, reached ~= '' and reached)
return found and {
  string.format('%.17g', found.interval), string.format('%.17g', found.from), tostring(found.most),
  tostring(found.at),
}
""",
        "recheck": """\
local server = redis
local redis = { call = function(command, ...)
  return command == 'TIME' and { '1000', '0' } or server.call(command, ...)
end }
-- needs: recheck
recheck(7)
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


@each(
    "rate, milliseconds",
    [
        ("1/ms", 1), ("100/s", 10), ("1/m", 60_000), ("1/h", 3_600_000), ("1/d", 86_400_000),
        ("5/10m", 120_000), ("3/2s", 2_000 / 3), ("1000/1ms", 0.001),
        (f"1/{2**42}ms", 2**42), (f"1/{2**42 + 1}ms", -1),
        *[(rate, -1) for rate in ("", "0/s", "5/0s", "5/10", "5/x", "/s", "-1/s", "1.5/s", " 1/s", "1/s ")],
        ("9" * 400 + "/s", -1),
    ],
)  # fmt: skip
def test_the_interval_of_a_rate(raw: Any, rate: str, milliseconds: float) -> None:
    assert float(raw.eval(SCRIPTS["rate"].source, 0, rate)) == milliseconds


NOW = 1_000_000
BREAKER = "distinct=3 within=10000ms share=0.25 probe=500ms longest_probe=30000ms"


@each(
    "said, found",
    [
        (BREAKER, (3, 10_000, 0.25, 500, 30_000)),
        ("", (math.inf, 0, 1, 1_000, 30_000)),
        ("damaged", (math.inf, 0, 1, 1_000, 30_000)),
        ("distinct=4 damaged", (4, 0, 1, 1_000, 30_000)),
    ],
)
def test_the_breaker_of_a_setting(raw: Any, said: str, found: tuple[float, ...]) -> None:
    assert tuple(map(float, raw.eval(SCRIPTS["break"].source, 0, said))) == found


@each(
    "rate, ahead, then",
    [
        ("10/s", None, (100, 0, 10, 100)),
        ("10/s", -1, (100, 0, 10, 100)),
        ("10/s", 1, (100, 1, 9, 1)),
        ("10/s", 450, (100, 450, 5, 50)),
        ("10/s", 1_000, (100, 1_000, 0, 100)),
        ("10/s", 1_100, (100, 1_100, -1, 100)),
        ("10/s", 1_101, (100, 0, 10, 100)),
        ("3/s", 2_000 / 3, (1_000 / 3, 2_000 / 3, 1, 334)),
        ("2/10m", None, (300_000, 0, 1, 300_000)),
        ("2/10m", 200_000, (300_000, 200_000, 0, 200_000)),
    ],
)
def test_how_many_a_rate_allows(raw: Any, rate: str, ahead: float | None, then: tuple[float, ...]) -> None:
    """The interval, from when they count, how many, when one more is allowed; milliseconds from now."""
    reached = "" if ahead is None else repr(NOW + ahead)
    interval, begins, most, at = map(float, raw.eval(SCRIPTS["pace"].source, 0, rate, reached))
    assert (interval, begins, most, at) == (then[0], NOW + then[1], then[2], NOW + then[3])


def test_no_rate_no_pace(raw: Any) -> None:
    assert raw.eval(SCRIPTS["pace"].source, 0, "damaged", "") is None


@each(
    "lane, gate, breaker, then",
    [
        ({"open": 1}, NOW + 30_000, BREAKER, NOW + 30_000),
        ({"open": 1}, NOW + 30_001, BREAKER, NOW),
        ({"open": 1}, None, BREAKER, NOW),
        ({"open": 1}, NOW + 1, None, NOW),
        ({"drains": 1}, None, BREAKER, NOW),
        ({"drains": 1}, NOW + 30_000, BREAKER, NOW + 30_000),
        ({"drains": 1}, NOW + 30_001, BREAKER, NOW),
        ({"drains": 1}, NOW + 1, None, NOW + 1),
        ({"open": 1, "paused": 1}, None, BREAKER, None),
        ({"open": 1, "paused": 1}, NOW + 30_001, BREAKER, NOW + 30_001),
        ({"open": 1, "paused": 1}, NOW + 30_001, None, NOW + 30_001),
        ({"paused": 1}, None, None, None),
        ({"trusts": 1}, NOW + 600_000, BREAKER, NOW + 600_000),
    ],
)
def test_a_gate_that_is_missing_or_too_far_away(
    raw: Any, lane: dict[str, int], gate: int | None, breaker: str | None, then: int | None
) -> None:
    """Is due now, of a lane that is open or drains, without a pause, or whose queue has no breaker."""
    script = SCRIPTS["recheck"]
    raw.delete("settings", "gates", "lanes")
    raw.hset("lanes", "7", json.dumps(lane))
    if gate:
        raw.zadd("gates", {"7": gate})
    if breaker:
        raw.hset("settings", "breaker", breaker)
    raw.eval(script.source, len(script.keys), *script.keys)
    assert raw.zscore("gates", "7") == then


def packed_record(fields: dict[int, bytes], *, expires: bool, priority: int = 4) -> bytes:
    """A record with these fields, as lua/README.md has it, and a body."""
    block = b"".join(
        bytes((n,)) + (6 + len(text)).to_bytes(2) + b"lane--" + text for n, text in fields.items()
    )
    expiry = (1 << 40).to_bytes(6) if expires else b""
    flags = priority | (0x10 if expires else 0) | 0x20
    return bytes(7) + bytes((flags,)) + expiry + len(block).to_bytes(2) + block + b'"body"'


@each(
    "fields, of, text",
    [
        ({1: b"customer-7"}, "key", b"customer-7"),
        ({1: b"customer-7"}, "dependency", b""),
        ({2: b"payments"}, "dependency", b"payments"),
        ({2: b"payments"}, "key", b""),
        ({1: b"a", 2: b"b" * 300}, "key", b"a"),
        ({1: b"a" * 300, 2: b"b"}, "dependency", b"b"),
    ],
)
def test_the_text_of_a_lane(raw: Any, fields: dict[int, bytes], of: str, text: bytes) -> None:
    for expires in (False, True):
        for priority in (0, 9):
            record = packed_record(fields, expires=expires, priority=priority)
            assert raw.eval(SCRIPTS["read"].source, 0, record, of) == text
