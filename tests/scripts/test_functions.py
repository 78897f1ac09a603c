"""Functions of the Lua modules by themselves."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.joined_lua import texts
from tests.scripts.asked import Asked
from tests.tables import each_row

NOW = 1_000_000
CLOCK = {"clock": f"function Clock.read()\n  return {NOW}\nend\n"}

ask_the_time = Asked(
    "return string.format('%.17g', q.now)",
    modules={"clock": texts()["clock"].replace("redis.call('TIME')", "{ ARGV[1], ARGV[2] }")},
)
pack = Asked(
    """\
local packed = {}
for n, cell in ipairs(ARGV) do
  packed[n] = { Values.packed(tonumber(cell), 6), Values.packed(tonumber(cell), 7) }
end
return packed"""
)
interval_of = Asked("return string.format('%.17g', Values.interval_of(ARGV[1]) or -1)")
text_in = Asked("return Record.text_in(ARGV[1], ARGV[2])")
rule_of_breaker = Asked(
    """\
local rule = Breaker.rule(ARGV[1])
local found = {}
for n, name in ipairs({ 'distinct', 'within', 'share', 'probe', 'longest' }) do
  found[n] = string.format('%.17g', rule[name])
end
return found"""
)
pace = Asked(
    """\
local rate, reached = ARGV[1], ARGV[2]
redis.call('HSET', q.counters, 'rate_until', reached)
local found = Rates.bucket(q, rate)
return found and {
  string.format('%.17g', found.interval), string.format('%.17g', found.from), tostring(found.most),
  tostring(found.at),
}""",
    modules=CLOCK,
)
recheck = Asked("recheck(q, 7)", module="tend", modules=CLOCK)
last_failure = Asked("return History.last_failure(ARGV[1])")


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
    assert ask_the_time(raw, *time) == milliseconds.encode()


def test_numbers_in_bytes(raw: Any) -> None:
    numbers = [digit * 256**place for digit in (1, 2, 127, 254, 255) for place in range(6)]
    numbers += [256**place - 1 for place in range(1, 7)] + [0, 1_790_000_000_123, 65_279, 65_280, 65_535]
    births = [number + low for number in numbers for low in (0, 255, 256, 65_280, 65_535)]
    found = pack(raw, *births)
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
    assert last_failure(raw, story) == line.encode()


@each_row(
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
    assert float(interval_of(raw, rate)) == milliseconds


BREAKER = "distinct=3 within=10000ms share=0.25 probe=500ms longest_probe=30000ms"


@each_row(
    "said, found",
    [
        (BREAKER, (3, 10_000, 0.25, 500, 30_000)),
        ("", (math.inf, 0, 1, 1_000, 30_000)),
        ("damaged", (math.inf, 0, 1, 1_000, 30_000)),
        ("distinct=4 damaged", (4, 0, 1, 1_000, 30_000)),
    ],
)
def test_the_breaker_of_a_setting(raw: Any, said: str, found: tuple[float, ...]) -> None:
    assert tuple(map(float, rule_of_breaker(raw, said))) == found


@each_row(
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
    interval, begins, most, at = map(float, pace(raw, rate, reached))
    assert (interval, begins, most, at) == (then[0], NOW + then[1], then[2], NOW + then[3])


def test_no_rate_no_pace(raw: Any) -> None:
    assert pace(raw, "damaged", "") is None


@each_row(
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
    raw.delete("settings", "gates", "special")
    raw.hset("special", "7", json.dumps(lane))
    raw.hset("settings", "gated", "special")
    if gate:
        raw.zadd("gates", {"7": gate})
    if breaker:
        raw.hset("settings", "breaker", breaker)
    recheck(raw)
    assert raw.zscore("gates", "7") == then


def packed_record(fields: dict[int, bytes], *, expires: bool, priority: int = 4) -> bytes:
    """A record with these fields, as lua/README.md has it, and a body."""
    block = b"".join(
        bytes((n,)) + (6 + len(text)).to_bytes(2) + b"lane--" + text for n, text in fields.items()
    )
    expiry = (1 << 40).to_bytes(6) if expires else b""
    flags = priority | (0x10 if expires else 0) | 0x20
    return bytes(7) + bytes((flags,)) + expiry + len(block).to_bytes(2) + block + b'"body"'


@each_row(
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
            assert text_in(raw, record, of) == text
