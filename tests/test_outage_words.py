"""What is said of an outage, in each of its states."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rq_dlq.values import outage
from rq_dlq.values.dependency import DependencyStats, Hanging
from tests.tables import each_row

AT = datetime(2026, 1, 2, 21, 13, 20, tzinfo=UTC)
BEGAN = datetime(2026, 1, 2, 21, 11, tzinfo=UTC)
UP = DependencyStats("payments", "orders")
DOWN = replace(UP, open=True, condition="down", since=BEGAN, waiting=14_202, oldest=140.0)
PAUSED = replace(DOWN, condition="paused", paused=True)
ENDED = ": a timeout of the handler ends such calls"
BACK = replace(UP, condition="coming back", ended=AT + timedelta(seconds=40), waiting=10_601)


def later(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


@each_row(
    "found, level, what",
    [
        (UP, None, "payments up"),
        (
            replace(DOWN, next_probe=later(8)), "bad",
            "payments down since 21:11 UTC, 14,202 wait, the oldest 2m20s, next probe in 8s",
        ),
        (
            replace(DOWN, waiting=41, oldest=25.0, next_probe=later(-3)), "bad",
            "payments down since 21:11 UTC, 41 wait, the oldest 25s, next probe at the next claim",
        ),
        (
            replace(DOWN, next_probe=later(0.4), oldest=None, waiting=0), "bad",
            "payments down since 21:11 UTC, 0 wait, next probe in 1s",
        ),
        (
            replace(DOWN, condition="testing", behind=300, oldest=9.0), "bad",
            "payments down since 21:11 UTC, 14,502 wait (300 of them for their keys), the oldest 9s, testing",
        ),
        (
            replace(DOWN, since=BEGAN - timedelta(days=1)), "bad",
            "payments down since 01-01 21:11 UTC, 14,202 wait, the oldest 2m20s",
        ),
        (PAUSED, "warn", "payments paused until it is resumed, 14,202 wait, the oldest 2m20s"),
        (
            replace(PAUSED, until=later(1200)), "warn",
            "payments paused until 21:33 UTC, 14,202 wait, the oldest 2m20s",
        ),
        (BACK, "calm", "payments back at 21:14 UTC, 10,601 come back"),
        (
            replace(BACK, charged_until=later(600)), "warn",
            "payments closed by an operator, 10,601 come back, failures are charged until 21:23 UTC",
        ),
        (
            replace(UP, charged_until=later(600)), "warn",
            "payments closed by an operator, failures are charged until 21:23 UTC",
        ),
    ],
)  # fmt: skip
def test_the_state_of_a_dependency(found: DependencyStats, level: str | None, what: str) -> None:
    assert (outage.level_of(found), outage.what(found, AT)) == (level, what)
    assert outage.why(found, AT) == what.removeprefix("payments ")


@each_row(
    "found, advice",
    [
        (DOWN, "nothing to do: it probes by itself"),
        (
            replace(DOWN, error="ConnectionError: \x1b[31mrefused\n"),
            "nothing to do: it probes by itself; the newest error: ConnectionError: \\x1b[31mrefused\\n",
        ),
        (replace(DOWN, died=1), "nothing to do: it probes by itself; 1 message died of it"),
        (
            replace(DOWN, hangs=(Hanging("o", "w", BEGAN),), died=9),
            f"nothing to do: it probes by itself; o hangs at w since 21:11 UTC{ENDED}; 9 messages died of it",
        ),
        (
            replace(DOWN, hangs=(Hanging("o-41", "", BEGAN), Hanging("order-42", "", AT))),
            f"nothing to do: it probes by itself; o-41 hangs since 21:11 UTC, and 1 other call{ENDED}",
        ),
        (
            replace(PAUSED, dependency="pay ments"),
            "`rq-dlq queue resume orders --dependency 'pay ments'` resumes it",
        ),
        (BACK, "nothing to do: they follow as earlier ones succeed"),
        (
            replace(UP, charged_until=later(600)),
            "until 21:23 UTC its messages die as without a breaker",
        ),
    ],
)  # fmt: skip
def test_what_to_do(found: DependencyStats, advice: Any) -> None:
    assert outage.advice(found, AT) == advice


def test_no_command_is_named_that_would_charge_healthy_messages() -> None:
    """A resume while it is down charges failures: who reads a screen in an outage obeys it."""
    for condition in ("down", "testing", "coming back"):
        assert "resume" not in outage.advice(replace(DOWN, condition=condition), AT)
        assert "open" not in outage.what(replace(DOWN, condition=condition), AT)
