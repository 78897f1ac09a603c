from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rq_dlq.errors import InvalidDuration, InvalidInput
from rq_dlq.values.durations import TEN_YEARS, human, milliseconds
from tests.tables import each_row

WHOLE = st.integers(0, TEN_YEARS)


@each_row(
    "value, expected",
    [
        (0, 0),
        (1, 1_000),
        (1.5, 1_500),
        (0.29, 290),
        (0.0014, 1),
        (0.0016, 2),
        ("500ms", 500),
        ("1.5s", 1_500),
        ("1m30s", 90_000),
        (" 1m 30s ", 90_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("2w", 1_209_600_000),
        ("1w 1d", 691_200_000),
        ("0s", 0),
        ("90", 90_000),
        ("0.25", 250),
        (timedelta(minutes=1, milliseconds=5), 60_005),
        (timedelta(microseconds=1_600), 2),
        ("3650d", TEN_YEARS),
        (TEN_YEARS // 1000, TEN_YEARS),
    ],
)
def test_reads_every_form(value: Any, expected: int) -> None:
    assert milliseconds(value, name="delay") == expected


@each_row("value", [0.0004, 1e-9, "0.1ms", "0.0000001", timedelta(microseconds=1)])
def test_less_than_a_millisecond_is_not_nothing(value: Any) -> None:
    assert milliseconds(value, name="delay") == 1


@each_row(
    "value",
    [
        *[-1, -0.001, "-1s", timedelta(seconds=-1), float("nan"), float("inf"), -float("inf")],
        *[
            True,
            False,
            None,
            [],
            b"1s",
            1j,
            "",
            "  ",
            "s",
            "1x",
            "1s1m",
            "1m1m",
            "1.s",
            "1e3",
            "NaN",
        ],
        *[
            "٣s",
            "0x10",
            "1_000",
            TEN_YEARS / 1000 + 0.001,
            "3651d",
            timedelta.max,
            10**400,
            10**5000,
        ],
        *["9" * 5000, "9" * 5000 + "ms"],
    ],
)
def test_refuses_and_names_the_argument(value: Any) -> None:
    with pytest.raises(InvalidDuration, match=r"^lease: .+ (is not a duration|is out of range)\. Pass"):
        milliseconds(value, name="lease")


def test_the_error_says_what_is_accepted() -> None:
    with pytest.raises(InvalidDuration) as caught:
        milliseconds("soon", name="ttl")
    assert str(caught.value) == (
        'ttl: \'soon\' is not a duration. Pass seconds or text such as "1m30s", "500ms", "2h", "1d", "2w"'
    )
    assert isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, ValueError)


def test_the_error_for_no_text_names_a_timedelta_too() -> None:
    with pytest.raises(InvalidDuration, match="Pass seconds, a timedelta, or text such as"):
        milliseconds(None, name="ttl")  # type: ignore[arg-type]


@each_row("value", [0, 0.0004, "0ms", 0.0009999])
def test_minimum(value: Any) -> None:
    assert milliseconds("1ms", name="lease", minimum=1) == 1
    with pytest.raises(InvalidDuration, match=r"lease: .* Pass 1ms to 3650d"):
        milliseconds(value, name="lease", minimum=1)


@each_row(
    "ms, expected",
    [
        (0, "0s"),
        (1, "1ms"),
        (250, "250ms"),
        (1_000, "1s"),
        (1_500, "1.5s"),
        (1_005, "1.005s"),
        (60_001, "1m0.001s"),
        (90_000, "1m30s"),
        (7_200_000, "2h"),
        (86_400_000 + 60_000, "1d1m"),
    ],
)
def test_human(ms: int, expected: str) -> None:
    assert human(ms) == expected


@given(WHOLE)
def test_human_is_read_back(ms: int) -> None:
    assert milliseconds(human(ms), name="delay") == ms


@given(WHOLE)
def test_all_forms_agree(ms: int) -> None:
    span = timedelta(milliseconds=ms)
    forms = (ms / 1000, span, f"{ms}ms", f"{ms // 1000}s{ms % 1000}ms")
    assert {milliseconds(form, name="delay") for form in forms} == {ms}
