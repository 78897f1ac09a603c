"""When a schedule is due, also where clocks are put forward and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rq_dlq.core.schedules.schedule import Missed, Record, Rule, text_of
from rq_dlq.errors import InvalidInput
from tests.tables import each_row

HOUR = 3_600_000


def at(text: str) -> int:
    """A time in milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def cron(expression: str, timezone: str = "Europe/Berlin", missed: Missed = "last") -> Rule:
    return Rule.of(expression, None, timezone, missed)


def ticks(rule: Rule, start: str, number: int) -> list[str]:
    """The first ticks after a time."""
    found = [at(start)]
    for _ in range(number):
        found.append(rule.following(found[-1]))
    return [text_of(tick) for tick in found[1:]]


@each_row(
    "expression, start, expected",
    [
        ("0 7 * * mon-fri", "2026-11-20T12:00Z", ["2026-11-23T06:00:00Z", "2026-11-24T06:00:00Z"]),
        ("*/20 * * * * *", "2026-11-20T12:00Z", ["2026-11-20T12:00:20Z", "2026-11-20T12:00:40Z"]),
        ("0 0 L * *", "2026-02-01T00:00Z", ["2026-02-27T23:00:00Z", "2026-03-30T22:00:00Z"]),
        # There is no 02:30 on 29 March, and 02:30 comes twice on 25 October.
        ("30 2 * * *", "2026-03-28T12:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("30 2 * * *", "2026-10-24T12:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("*/30 2 * * *", "2026-03-28T12:00Z", ["2026-03-30T00:00:00Z", "2026-03-30T00:30:00Z"]),
        ("*/30 2 * * *", "2026-10-25T00:15Z", ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"]),
    ],
)
def test_cron(expression: str, start: str, expected: list[str]) -> None:
    assert ticks(cron(expression), start, len(expected)) == expected


@each_row(
    "expression, zone, start, expected",
    [
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
         ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
         ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("0 3 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z",
         ["2026-04-04T16:30:00Z", "2026-04-05T16:30:00Z"]),
        ("15,45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z",
         ["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z"]),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-30T00:00Z", ["2011-12-30T10:00:00Z"]),
        ("0 12,18 * * *", "Pacific/Apia", "2011-12-30T01:00Z",
         ["2011-12-30T04:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]),
        ("0 */6 30 12 *", "Pacific/Apia", "2011-12-29T00:00Z", ["2012-12-29T10:00:00Z"]),
        ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30Z",
         ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:30Z", ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]),
        ("0 * * * *", "Australia/Lord_Howe", "2026-04-04T13:30Z",
         ["2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"]),
        ("0 * * * *", "Pacific/Apia", "2011-12-30T08:30Z",
         ["2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"]),
    ],
)  # fmt: skip
def test_clocks_are_changed(expression: str, zone: str, start: str, expected: list[str]) -> None:
    """Also where there are six fields, where the change is half an hour, and where it is a whole day."""
    assert ticks(cron(expression, zone), start, len(expected)) == expected


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"), ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-03-08T07:00Z"), ("America/New_York", "2026-11-01T06:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"), ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"), ("America/Sao_Paulo", "2018-02-18T02:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"), ("Asia/Kathmandu", "2026-05-01T00:00Z"),
]  # fmt: skip
STEP = 30  # seconds


def by_scanning(zone: str, change: str, wanted: Callable[[datetime], bool]) -> list[int]:
    """The moments around a change at which the clocks first show the wanted times, or later ones."""
    day = 86_400 // STEP
    moments = [at(change) + number * STEP * 1000 for number in range(-day, day)]
    shown = [datetime.fromtimestamp(one / 1000, ZoneInfo(zone)).replace(tzinfo=None) for one in moments]
    found, latest = list[int](), shown[0]
    for moment, local in zip(moments, shown, strict=True):
        steps = (local - latest) // timedelta(seconds=STEP)
        if any(wanted(latest + timedelta(seconds=STEP * n)) for n in range(1, steps + 1)):
            found.append(moment)
        latest = max(latest, local)
    return found


@given(
    change=st.sampled_from(CHANGES),
    hours=st.sets(st.integers(0, 4) | st.integers(0, 23), min_size=1, max_size=4),
    minutes=st.sets(st.sampled_from([0, 1, 15, 29, 30, 31, 45, 59]), min_size=1, max_size=4),
    seconds=st.none() | st.sets(st.sampled_from([0, 30]), min_size=1),
)
def test_no_tick_is_lost_or_repeated(
    change: tuple[str, str], hours: set[int], minutes: set[int], seconds: set[int] | None
) -> None:
    zone, moment = change
    fields = [seconds, minutes, hours] if seconds else [minutes, hours]
    rule = cron(" ".join([*(",".join(map(str, sorted(field))) for field in fields), "* * *"]), zone)

    def wanted(local: datetime) -> bool:
        return local.hour in hours and local.minute in minutes and local.second in (seconds or {0})

    found = [at(moment) - 86_400_000]
    while found[-1] < at(moment) + 86_400_000:
        found.append(rule.following(found[-1]))
    assert found[1:-1] == by_scanning(zone, moment, wanted)


@given(
    change=st.sampled_from(CHANGES),
    minutes=st.sets(st.sampled_from([0, 1, 15, 29, 30, 31, 45, 59]), min_size=1, max_size=4),
    step=st.sampled_from([1, 2, 3, 6]),
)
def test_an_hourly_tick_goes_by_the_clock(change: tuple[str, str], minutes: set[int], step: int) -> None:
    """Whenever the clocks show such a time, missing or repeated in that night, and at no other moment."""
    zone, moment = change
    rule = cron(f"{','.join(map(str, sorted(minutes)))} */{step} * * *", zone)
    first, last = at(moment) - 86_400_000, at(moment) + 86_400_000
    found = [rule.following(first)]
    while found[-1] <= last:
        found.append(rule.following(found[-1]))
    shown = {
        each: datetime.fromtimestamp(each / 1000, ZoneInfo(zone))
        for each in range(first + 60_000, last + 1, 60_000)
    }
    wanted = [each for each, local in shown.items() if local.minute in minutes and local.hour % step == 0]
    assert found[:-1] == wanted


@each_row(
    "written, meant",
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily\n", "0 0 * * *"),
    ],
)
def test_a_nickname_is_written_out(written: str, meant: str) -> None:
    """An earlier version does not know it."""
    assert cron(written) == cron(meant)
    assert cron(written).cron == meant


@each_row(
    "written, answer",
    [
        ("@every 1h30m", 'pass every="5m"'),
        ("rate(5 minutes)", 'pass every="5m"'),
        ("@reboot", "when the program starts"),
        ("@fortnightly", "the names are @hourly, @daily"),
        ("cron(0 12 * * ? *)", "the text in the parentheses"),
        ("TZ=Europe/Berlin 0 7 * * *", 'timezone="Europe/Berlin"'),
        ("CRON_TZ=UTC 0 7 * * *", 'timezone="'),
        ("0 7 * * * Europe/Berlin", 'timezone="'),
        ("0 0 ? * MON", "for the ? of Quartz"),
        ("0 15 10 ? * 6L", "for the ? of Quartz"),
        ("0 0 12 * * ? 2027", "no field for the year"),
        ("0 0 12 ? * MON-FRI *", "no field for the year"),
        ("0 0 15W * *", "there is no W"),
        ("0 0 LW * *", "there is no W"),
        ("H/15 * * * *", "must be a number"),
        ("~ 3 * * *", "must be a number"),
        ("0 0 * * * # nightly", "comment"),
        ("0 0 * * Monday", "three letters"),
        ("0 0 1 January *", "three letters"),
        ("0 0 * * *\n0 1 * * *", "several lines"),
        ("", "five fields"),
        ("daily", "five fields"),
        ("* * * *", "five fields"),
        ("0 24 * * *", "Bad hour"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("*/-5 * * * *", "Bad minute"),
        ("\N{ARABIC-INDIC DIGIT FIVE} * * * *", "Bad minute"),
    ],
)
def test_what_others_take_is_answered(written: str, answer: str) -> None:
    with pytest.raises(InvalidInput) as told:
        cron(written)
    assert answer in str(told.value)


@each_row(
    "written",
    [
        "0 9-17/2 * * MON-FRI",
        "5 4 * * sun",
        "0 0 1 JAN,APR *",
        "0 0 * * mon#1",
        "0 0 * * 5L",
        "0 0 L * *",
        "0\t0\t*\t*\t*",
        " 00 03 * * * ",
        "*/10 * * * * *",
        "0 0 13 * 5",
        "5/15 * * * *",
        "30 6 * * Mon,Wed,Fri",
    ],
)
def test_what_cron_takes_is_taken(written: str) -> None:
    assert cron(written).cron == written


def test_a_tick_within_the_repeated_hour_is_not_sent_twice() -> None:
    """Each time in that night, in steps of a minute, has a next tick after it."""
    rule = cron("0,15,30,45 1,2,3 * * *")
    times = [at("2026-10-24T22:00Z") + minute * 60_000 for minute in range(300)]
    following = [rule.following(time) for time in times]
    assert all(time < tick for time, tick in zip(times, following, strict=True))
    assert all(first <= second for first, second in pairwise(following))


@each_row(
    "rule",
    [
        Rule.of(None, "90m", "UTC", "last"),
        cron("* * * * *"),
        cron("30 2 * * *"),
        cron("0 0 1 1 *", "Asia/Kathmandu"),
        cron("*/20 * 3 * * *", "UTC"),
        cron("0,15,30,45 1,2,3 * * *"),
    ],
)
@each_row("start", ["2026-03-28T23:10Z", "2026-10-24T23:10Z", "2026-12-31T12:00Z"])
def test_the_last_tick_that_is_due(rule: Rule, start: str) -> None:
    due = rule.following(at(start))
    expected, following = due, rule.following(due)
    for hours in (0, 1, 3, 26, 24 * 8):
        now = due + hours * HOUR
        while following <= now:
            expected, following = following, rule.following(following)
        assert rule.last_due(due, now) == expected, hours


def test_a_long_outage_is_quickly_over() -> None:
    """Only ticks near its end are worked out, not half a million."""
    rule = cron("* * * * *")
    due = at("2016-01-01T00:00Z")
    now = due + round(timedelta(days=3_650) / timedelta(milliseconds=1))
    assert rule.last_due(due, now) == now


def test_a_record_keeps_what_it_says() -> None:
    rule = cron("0 7 * * mon-fri", missed="all")
    text = Record(rule=rule, body=msgspec.Raw(b"[1]"), headers={"a": "b"}, priority=4).written(b"")
    assert Record.read(Record.read(text).written(text)) == Record.read(text)
    assert datetime.fromtimestamp(rule.following(0) / 1000, UTC).year == 1970
